#include "kernels/region/rounding.h"

#include <cmath>
#include <utility>

#include "framework/tensor/half.h"

namespace mica::region {
namespace {

using Instruction = RegionCode::Instruction;
using Ref = RegionCode::Ref;

// Whether an operator's result is one of its operands but for the sign, or
// the whole number beside it: what 16 bits held they hold still.
bool KeepsBits(RegionOpId op) {
  switch (op) {
    case RegionOpId::kCast:
    case RegionOpId::kNeg:
    case RegionOpId::kAbs:
    case RegionOpId::kRelu:
    case RegionOpId::kFloor:
    case RegionOpId::kCeil:
    case RegionOpId::kTrunc:
    case RegionOpId::kRound:
    case RegionOpId::kMaximum:
    case RegionOpId::kMinimum:
    case RegionOpId::kFmax:
    case RegionOpId::kFmin:
    case RegionOpId::kCopysign:
    case RegionOpId::kWhere:
      return true;
    default:
      return false;
  }
}

// Whether each value of `from` is one of `half`.
bool Holds(DType half, DType from) {
  return from == half || from == DType::kBool || from == DType::kU8 ||
         from == DType::kI8;
}

// Whether the product of a number of `half` with `factor` is one. A power of
// two moves the exponent alone; less than 1 makes denormals, and more than the
// largest half is still a number in f32.
bool KeepsBitsOfProduct(DType half, double factor) {
  const double size = std::fabs(factor);
  if (half != DType::kBF16) return size == 1;
  int exponent = 0;
  return size >= 1 && size <= 0x1p127 && std::frexp(size, &exponent) == 0.5;
}

class Finder {
 public:
  explicit Finder(const Signature& signature) : signature_(signature) {
    for (const Instruction& instruction : signature.code.instructions) {
      reads_signs_ = reads_signs_ || ReadsSign(instruction);
    }
  }

  std::vector<Rounding> Run() {
    for (const Instruction& instruction : signature_.code.instructions) {
      made_.push_back({.is_exact = IsExact(instruction),
                       .has_short_nans = HasShortNans(instruction)});
    }
    return std::move(made_);
  }

 private:
  DType DTypeOf(const Ref& ref) const {
    return ref.kind == Ref::Kind::kOperand
               ? signature_.operands[ref.index].dtype
               : signature_.code.instructions[ref.index].result_dtype();
  }

  // Whether the sign of a nan, which rounding to bf16 makes positive, shows in
  // a number.
  static bool ReadsSign(const Instruction& instruction) {
    return instruction.op->id == RegionOpId::kCopysign &&
           instruction.operands[1].kind != Ref::Kind::kNumber;
  }

  bool IsExact(const Instruction& instruction) const {
    const DType half = instruction.dtype;
    if (!IsHalf(half) || reads_signs_) return false;
    const RegionOpId op = instruction.op->id;
    if (op == RegionOpId::kSign) return true;
    const bool is_product = op == RegionOpId::kMul;
    if (!KeepsBits(op) && !is_product) return false;
    bool has_factor = false;
    for (size_t k = 0; k < instruction.operands.size(); ++k) {
      const Ref& ref = instruction.operands[k];
      const bool is_condition =
          instruction.operand_dtype(static_cast<int>(k)) == DType::kBool;
      if (is_condition) continue;
      if (ref.kind != Ref::Kind::kNumber) {
        if (!Holds(half, DTypeOf(ref))) return false;
      } else if (is_product) {
        has_factor = KeepsBitsOfProduct(half, ref.number);
        if (!has_factor) return false;
      } else if (RoundedTo(half, ref.number) != ref.number) {
        return false;
      }
    }
    return has_factor || !is_product;
  }

  // What the processor makes of no nans is short, and of short ones, too; those
  // of f16 have three bits more.
  bool HasShortNans(const Instruction& instruction) const {
    if (reads_signs_) return false;
    for (const Ref& ref : instruction.operands) {
      if (ref.kind == Ref::Kind::kNumber) continue;
      const DType dtype = DTypeOf(ref);
      if (!IsFloating(dtype) || dtype == DType::kBF16) continue;
      if (ref.kind == Ref::Kind::kOperand || !made_[ref.index].has_short_nans) {
        return false;
      }
    }
    return true;
  }

  const Signature& signature_;
  bool reads_signs_ = false;
  std::vector<Rounding> made_;
};

}  // namespace

std::vector<Rounding> RoundingsOf(const Signature& signature) {
  return Finder(signature).Run();
}

}  // namespace mica::region
