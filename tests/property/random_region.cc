#include "tests/property/random_region.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/reference/element.h"

namespace mica {
namespace {

using Random = std::mt19937_64;
using Ref = RegionCode::Ref;

int64_t Below(Random& random, int64_t limit) {
  return static_cast<int64_t>(random() % static_cast<uint64_t>(limit));
}

DType RandomDType(Random& random) {
  // Floats are what programs have most.
  constexpr DType kOften[] = {DType::kF32, DType::kF32, DType::kBF16,
                              DType::kF16, DType::kF64};
  if (Below(random, 3) > 0) return kOften[Below(random, std::size(kOften))];
  return kRealDTypes[Below(random, kNumRealDTypes)];
}

region::Access RandomAccess(Random& random) {
  const int64_t at = Below(random, 6);
  return at == 0   ? region::Access::kOne
         : at == 1 ? region::Access::kStrided
                   : region::Access::kDense;
}

Ref RandomRef(Random& random, int num_operands, int num_instructions) {
  constexpr double kNumbers[] = {0, 1, -1, 0.5, 3, 1e-3, 100, 0.1};
  if (Below(random, 8) == 0) {
    return {.number = kNumbers[Below(random, std::size(kNumbers))]};
  }
  // Earlier results mostly: chains are what is fused.
  if (num_instructions > 0 && Below(random, 3) > 0) {
    const int64_t back =
        std::min(Below(random, num_instructions), Below(random, 4));
    return {.kind = Ref::Kind::kInstruction,
            .index = num_instructions - 1 - static_cast<int>(back)};
  }
  return {.kind = Ref::Kind::kOperand,
          .index = static_cast<int>(Below(random, num_operands))};
}

}  // namespace

region::Signature RandomRegion(Random& random) {
  region::Signature signature;
  const int num_operands = 1 + static_cast<int>(Below(random, 4));
  for (int i = 0; i < num_operands; ++i) {
    signature.operands.push_back(
        {.dtype = RandomDType(random), .access = RandomAccess(random)});
  }
  const int count = 1 + static_cast<int>(Below(random, 12));
  RegionCode& code = signature.code;
  for (int i = 0; i < count; ++i) {
    RegionCode::Instruction instruction;
    do {
      instruction.op =
          &RegionOps()[static_cast<size_t>(Below(random, kNumRegionOps))];
      instruction.dtype = RandomDType(random);
    } while (!instruction.op->Has(instruction.dtype));
    for (int k = 0; k < instruction.op->arity; ++k) {
      instruction.operands.push_back(RandomRef(random, num_operands, i));
    }
    const bool is_strided = Below(random, 8) == 0;
    signature.results.push_back({.dtype = instruction.result_dtype(),
                                 .access = is_strided
                                               ? region::Access::kStrided
                                               : region::Access::kDense});
    code.instructions.push_back(std::move(instruction));
    code.results.push_back(i);
  }
  return signature;
}

void FillRandomElements(Random& random, DType dtype, int64_t count, char* at) {
  constexpr double kSpecial[] = {0.0,
                                 -0.0,
                                 1,
                                 -1,
                                 0.5,
                                 std::numeric_limits<double>::infinity(),
                                 -std::numeric_limits<double>::infinity(),
                                 std::numeric_limits<double>::quiet_NaN(),
                                 1e-40,
                                 -1e-310,
                                 6e-8,
                                 3e38,
                                 65504,
                                 1e5};
  std::normal_distribution<double> normal(0, 4);
  for (int64_t i = 0; i < count; ++i) {
    if (dtype == DType::kBool) {
      StoreElement(at, dtype, i, Below(random, 2));
      continue;
    }
    const int64_t kind = Below(random, 8);
    if (!IsFloating(dtype)) {
      const int64_t number =
          kind < 5 ? Below(random, 21) - 10 : static_cast<int64_t>(random());
      StoreElement(at, dtype, i, number);
    } else if (kind < 4) {
      StoreElement(at, dtype, i, normal(random));
    } else if (kind == 4) {
      const uint64_t bits = random();
      const int64_t bytes = ElementBytes(dtype);
      std::memcpy(at + i * bytes, &bits, static_cast<size_t>(bytes));
    } else if (kind == 5) {
      StoreElement(at, dtype, i, static_cast<double>(Below(random, 21) - 10));
    } else {
      StoreElement(at, dtype, i, kSpecial[Below(random, std::size(kSpecial))]);
    }
  }
}

}  // namespace mica
