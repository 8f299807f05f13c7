// Random regions: machine code gives the bits of the loops over tiles; a region
// of many instructions those of as many regions of one; and each instruction is
// as near to the oracle as its operator's bound says.
// MICA_PROPERTY_SEED=7 repeats one seed, MICA_PROPERTY_SEEDS=20000 tries more.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/test_matchers.h"
#include "framework/kernel/kernel_registry.h"
#include "kernels/all.h"
#include "kernels/cpu/region_compiler.h"
#include "kernels/cpu/region_stages.h"
#include "kernels/cpu/region_tiles.h"
#include "kernels/cpu/simd_table.h"
#include "kernels/reference/element.h"
#include "ops/all.h"
#include "tests/property/random_region.h"
#include "tests/property/seeds.h"

namespace mica {
namespace {

using cpu::RegionCompiler;
using cpu::RegionStages;
using cpu::RegionTiles;
using region::Access;
using region::Array;
using region::RegionRows;
using region::Signature;
using Ref = RegionCode::Ref;

constexpr uint64_t kNumRegionSeeds = 100;
constexpr int kInputsOfRegion = 4;

// Memory for a signature's arrays.
class Memory {
 public:
  Memory(const Signature& signature, int64_t rows, int64_t n)
      : rows_(rows), n_(n) {
    for (const auto* list : {&signature.operands, &signature.results}) {
      for (const Array& array : *list) Add(array);
    }
  }

  RegionRows AsRows() {
    at_.clear();
    for (auto& bytes : bytes_) at_.push_back(bytes.data());
    return {.at = at_.data(),
            .row_steps = row_steps_.data(),
            .steps = steps_.data(),
            .rows = rows_,
            .n = n_};
  }
  std::vector<char>& bytes(size_t array) { return bytes_[array]; }
  int64_t elements(size_t array) const {
    return static_cast<int64_t>(bytes_[array].size()) / sizes_[array];
  }
  // The bytes of an array's element.
  const char* At(size_t array, int64_t row, int64_t i) const {
    return bytes_[array].data() + row * row_steps_[array] + i * steps_[array];
  }

 private:
  void Add(const Array& array) {
    const int64_t size = ElementBytes(array.dtype);
    const int64_t step = array.access == Access::kOne       ? 0
                         : array.access == Access::kStrided ? 3 * size
                                                            : size;
    const int64_t row = std::max(n_ * step, size) + 2 * size;
    sizes_.push_back(size);
    steps_.push_back(step);
    row_steps_.push_back(row);
    bytes_.emplace_back(static_cast<size_t>(rows_ * row));
  }

  int64_t rows_, n_;
  std::vector<std::vector<char>> bytes_;
  std::vector<int64_t> sizes_, steps_, row_steps_;
  std::vector<char*> at_;
};

// One instruction over arrays that hold its operands.
Signature Alone(const Signature& from, int id) {
  const RegionCode::Instruction& instruction = from.code.instructions[id];
  Signature alone;
  RegionCode::Instruction copy = instruction;
  for (Ref& ref : copy.operands) {
    if (ref.kind == Ref::Kind::kNumber) continue;
    alone.operands.push_back(ref.kind == Ref::Kind::kOperand
                                 ? from.operands[ref.index]
                                 : from.results[ref.index]);
    ref = {.kind = Ref::Kind::kOperand,
           .index = static_cast<int>(alone.operands.size()) - 1};
  }
  alone.code.instructions = {std::move(copy)};
  alone.code.results = {0};
  alone.results = {from.results[id]};
  return alone;
}

// The arrays of `from` that Alone()'s operands are.
std::vector<size_t> ArraysOf(const Signature& from, int id) {
  std::vector<size_t> arrays;
  for (const Ref& ref : from.code.instructions[id].operands) {
    if (ref.kind == Ref::Kind::kNumber) continue;
    arrays.push_back(ref.kind == Ref::Kind::kOperand
                         ? static_cast<size_t>(ref.index)
                         : from.operands.size() + ref.index);
  }
  return arrays;
}

// True if both are nan, or the same bits; the bits of a nan are free.
bool IsSame(DType dtype, const char* a, const char* b) {
  if (std::memcmp(a, b, static_cast<size_t>(ElementBytes(dtype))) == 0) {
    return true;
  }
  return IsFloating(dtype) && std::isnan(LoadElement<double>(a, dtype, 0)) &&
         std::isnan(LoadElement<double>(b, dtype, 0));
}

class RegionTest : public ::testing::Test {
 protected:
  // Runs by tiles and, where there is any, machine code, and compares.
  void RunBoth(const Signature& signature, int64_t rows, int64_t n,
               Memory& memory) {
    RegionTiles tiles;
    const auto no = RegionTiles::Make(signature, cpu::Simd().region, tiles);
    ASSERT_FALSE(no.has_value()) << *no;
    tiles.Run(memory.AsRows());
    RegionCompiler& compiler = Compiler();
    const auto code = compiler.Request(signature);
    const auto stages = RegionStages::Make(signature, compiler);
    compiler.Wait();
    if (code != nullptr && code->fn() != nullptr) {
      ++num_compiled_;
      CompareRun(signature, memory, rows, n, "machine code",
                 [&](const RegionRows& all) { code->fn()(all); });
    }
    if (stages.has_value() && stages->is_ready()) {
      ++num_staged_;
      CompareRun(signature, memory, rows, n, "stages",
                 [&](const RegionRows& all) { stages->Run(all); });
    }
  }

  // Keeps nothing on disk.
  static RegionCompiler& Compiler() {
    static RegionCompiler& compiler = *[] {
      RegionCompiler::Options options = RegionCompiler::DefaultOptions();
      options.folder.clear();
      return new RegionCompiler(std::move(options));
    }();
    return compiler;
  }

  // Whether `run` writes what the memory's results are.
  void CompareRun(const Signature& signature, const Memory& memory,
                  int64_t rows, int64_t n, const std::string& what,
                  const std::function<void(const RegionRows&)>& run) {
    Memory again = memory;
    for (size_t r = 0; r < signature.results.size(); ++r) {
      auto& bytes = again.bytes(signature.operands.size() + r);
      std::fill(bytes.begin(), bytes.end(), '\x55');
    }
    run(again.AsRows());
    for (size_t r = 0; r < signature.results.size(); ++r) {
      const size_t array = signature.operands.size() + r;
      Compare(signature, memory, again, array, array, rows, n,
              absl::StrCat("result ", r, " by ", what));
    }
  }

  void Compare(const Signature& signature, const Memory& want,
               const Memory& got, size_t want_array, size_t got_array,
               int64_t rows, int64_t n, const std::string& what) {
    const DType dtype =
        signature.results[got_array - signature.operands.size()].dtype;
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t i = 0; i < n; ++i) {
        const char* a = want.At(want_array, row, i);
        const char* b = got.At(got_array, row, i);
        ASSERT_TRUE(IsSame(dtype, a, b))
            << what << ", element " << row << ", " << i << ": "
            << LoadElement<double>(b, dtype, 0) << " instead of "
            << LoadElement<double>(a, dtype, 0) << "\n"
            << signature.code.ToText() << ElementText(signature, got, row, i);
      }
    }
  }

  // All arrays' numbers at one place.
  static std::string ElementText(const Signature& signature,
                                 const Memory& memory, int64_t row, int64_t i) {
    std::string text;
    for (size_t k = 0; k < signature.operands.size(); ++k) {
      absl::StrAppendFormat(&text, "\n%%%d = %.17g: %s", k,
                            LoadElement<double>(memory.At(k, row, i),
                                                signature.operands[k].dtype, 0),
                            DTypeName(signature.operands[k].dtype));
    }
    for (size_t k = 0; k < signature.results.size(); ++k) {
      absl::StrAppendFormat(
          &text, "\n$%d = %.17g", k,
          LoadElement<double>(memory.At(signature.operands.size() + k, row, i),
                              signature.results[k].dtype, 0));
    }
    return text;
  }

  int num_compiled_ = 0, num_staged_ = 0;
};

TEST_F(RegionTest, RandomRegionsAreTheirInstructions) {
  ForEachSeed(kNumRegionSeeds, [&](uint64_t seed) {
    std::mt19937_64 random(seed);
    const Signature signature = RandomRegion(random);
    for (int input = 0; input < kInputsOfRegion; ++input) {
      const int64_t rows = 1 + static_cast<int64_t>(random() % 3);
      const int64_t n =
          1 + static_cast<int64_t>(random() % (input == 0 ? 700 : 40));
      Memory memory(signature, rows, n);
      for (size_t i = 0; i < signature.operands.size(); ++i) {
        FillRandomElements(random, signature.operands[i].dtype,
                           memory.elements(i), memory.bytes(i).data());
      }
      RunBoth(signature, rows, n, memory);
      if (HasFatalFailure() || input > 0) continue;
      const int count = static_cast<int>(signature.results.size());
      for (int id = 0; id < count; ++id) {
        const Signature alone = Alone(signature, id);
        Memory own(alone, rows, n);
        const std::vector<size_t> arrays = ArraysOf(signature, id);
        for (size_t k = 0; k < arrays.size(); ++k) {
          own.bytes(k) = memory.bytes(arrays[k]);
        }
        RegionTiles tiles;
        ASSERT_FALSE(RegionTiles::Make(alone, cpu::Simd().region, tiles));
        tiles.Run(own.AsRows());
        Compare(signature, own, memory, arrays.size(),
                signature.operands.size() + id, rows, n,
                absl::StrCat("instruction ", id));
      }
    }
  });
  // Where there is no LLVM, or a sanitizer, all is interpreted.
  if (Compiler().stats().compiled == 0) return;
  EXPECT_GT(num_compiled_, 0);
  EXPECT_GT(num_staged_, 0);
}

}  // namespace
}  // namespace mica
