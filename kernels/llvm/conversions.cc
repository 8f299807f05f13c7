#include "kernels/llvm/conversions.h"

#include <cmath>
#include <vector>

namespace mica::region::ir {
namespace {

using F = IrFloats<float>;
using I = IrInts<int32_t>;

llvm::Type* ComputeType(DType dtype) {
  llvm::IRBuilder<>& b = B();
  switch (dtype) {
    case DType::kF32:
      return W().Vector(b.getFloatTy());
    case DType::kF64:
      return W().Vector(b.getDoubleTy());
    case DType::kBool:
      return W().IntVector(1);
    default:
      return W().IntVector(8 * static_cast<int>(ElementBytes(dtype)));
  }
}

IrInts<int32_t> Extend(llvm::Value* bits16) {
  return {B().CreateZExt(bits16, W().IntVector(32))};
}

// Without the processor's own conversions. The exponent's bias goes from 15 to
// 127. Of a denormal the number 2^-14 is added as an exponent and taken away
// as a number, which makes it a normal one.
F WidenHalf(I half) {
  const I size = ShiftLeft(half & I::Of(0x7fff), 13);
  const F one = FromBits<F>(I::Of(113 << 23));
  const I denormal = Bits(FromBits<F>(size + I::Of(113 << 23)) - one);
  const I quiet =
      Select(LessInt(I::Of(0x7c00 << 13), size), I::Of(0x400000), I::Of(0));
  const I special = size | I::Of(0x7f800000) | quiet;
  const I wide = Select(LessInt(size, I::Of(0x400 << 13)), denormal,
                        Select(LessInt(size, I::Of(0x7c00 << 13)),
                               size + I::Of(112 << 23), special));
  return FromBits<F>(wide | ShiftLeft(half & I::Of(0x8000), 16));
}

// What becomes a denormal is rounded by adding 0.5, whose last bit is a half's
// smallest denormal.
I NarrowHalf(F x) {
  const I size = Bits(x) & I::Of(0x7fffffff);
  const I nan = (ShiftRight(size, 13) & I::Of(0x3ff)) | I::Of(0x7e00);
  const I denormal = Bits(FromBits<F>(size) + F::Of(0.5)) - Bits(F::Of(0.5));
  const I normal =
      ShiftRight(size + I::Of(0xfff) + (ShiftRight(size, 13) & I::Of(1)) -
                     I::Of(112 << 23),
                 13);
  const I half = Select(
      LessInt(size, I::Of(113 << 23)), denormal,
      Select(LessInt(size, I::Of(0x477ff000)), normal,  // Below 65520.
             Select(LessInt(I::Of(0x7f800000), size), nan, I::Of(0x7c00))));
  return half | (ShiftRight(Bits(x), 16) & I::Of(0x8000));
}

// A bfloat's bits in the upper half, what is below of no account.
I RoundBFloat(F x, Nans nans) {
  const I bits = Bits(x);
  I rounded = bits + I::Of(0x7fff);
  if (W().level == Level::kV4) {
    // By a mask, which takes a step less.
    const IrMask is_even = EqualInt(bits & I::Of(0x10000), I::Of(0));
    rounded = Select(is_even, rounded, bits + I::Of(0x8000));
  } else {
    rounded = rounded + (ShiftRight(bits, 16) & I::Of(1));
  }
  if (nans == Nans::kShort) return rounded;
  return Select(IsNan(x), I::Of(0x7fc00000), rounded);
}

// The upper halves of lanes, as they lie in memory.
llvm::Value* UpperHalves(I bits) {
  llvm::IRBuilder<>& b = B();
  const int lanes = W().lanes;
  if (!W().is_by_parity && W().level == Level::kV4) {
    // One step, in place of shifts and two packings.
    std::vector<int> upper;
    for (int lane = 0; lane < lanes; ++lane) upper.push_back(2 * lane + 1);
    llvm::Value* const words = b.CreateBitCast(
        bits.v, llvm::FixedVectorType::get(b.getInt16Ty(), 2 * lanes));
    return b.CreateShuffleVector(words, upper);
  }
  if (!W().is_by_parity) {
    return b.CreateTrunc(ShiftRight(bits, 16).v, W().IntVector(16));
  }
  const int half = lanes / 2;
  llvm::Value* const even = b.CreateLShr(W().Part(bits.v, 0, half), 16);
  llvm::Value* const odd = b.CreateAnd(W().Part(bits.v, half, half), ~0xffffu);
  return b.CreateBitCast(b.CreateOr(even, odd), W().IntVector(16));
}

// The inverse: what is below is 0.
I FromUpperHalves(llvm::Value* bits16) {
  llvm::IRBuilder<>& b = B();
  if (!W().is_by_parity) return ShiftLeft(Extend(bits16), 16);
  llvm::Value* const words = b.CreateBitCast(
      bits16, llvm::FixedVectorType::get(b.getInt32Ty(), W().lanes / 2));
  llvm::Value* const even = b.CreateShl(words, 16);
  return {W().Join(even, b.CreateAnd(words, ~0xffffu))};
}

llvm::Value* FloatToInt(llvm::Value* x, DType to) {
  const bool is_long = to == DType::kI64;
  // Frozen: out of range it is the processor's, not whatever suits.
  llvm::Value* const wide =
      B().CreateFreeze(B().CreateFPToSI(x, W().IntVector(is_long ? 64 : 32)));
  return B().CreateTrunc(wide, ComputeType(to));
}

}  // namespace

llvm::Type* MemoryType(DType dtype) {
  llvm::IRBuilder<>& b = B();
  switch (dtype) {
    case DType::kF32:
      return b.getFloatTy();
    case DType::kF64:
      return b.getDoubleTy();
    default:
      return b.getIntNTy(8 * static_cast<unsigned>(ElementBytes(dtype)));
  }
}

llvm::Value* Widen(llvm::Value* x, DType dtype) {
  llvm::IRBuilder<>& b = B();
  switch (dtype) {
    case DType::kBool:
      return b.CreateIsNotNull(x);
    case DType::kBF16:
      return FromBits<F>(FromUpperHalves(x)).v;
    case DType::kF16:
      if (W().level == Level::kV1) return WidenHalf(Extend(x)).v;
      return b.CreateFPExt(b.CreateBitCast(x, W().Vector(b.getHalfTy())),
                           W().Vector(b.getFloatTy()));
    default:
      return x;
  }
}

llvm::Value* Narrow(llvm::Value* x, DType dtype, Nans nans) {
  llvm::IRBuilder<>& b = B();
  switch (dtype) {
    case DType::kBool:
      return b.CreateZExt(x, W().IntVector(8));
    case DType::kBF16:
      return UpperHalves(RoundBFloat({x}, nans));
    case DType::kF16:
      if (W().level == Level::kV1) {
        return b.CreateTrunc(NarrowHalf({x}).v, W().IntVector(16));
      }
      return b.CreateBitCast(b.CreateFPTrunc(x, W().Vector(b.getHalfTy())),
                             W().IntVector(16));
    default:
      return x;
  }
}

llvm::Value* NarrowExact(llvm::Value* x, DType dtype) {
  if (dtype == DType::kBF16) return UpperHalves(Bits(F{x}));
  return Narrow(x, dtype, Nans::kShort);
}

llvm::Value* Round(llvm::Value* x, DType dtype, Nans nans) {
  if (dtype == DType::kBF16) {
    return FromBits<F>(RoundBFloat({x}, nans) & I::Of(INT32_MIN >> 15)).v;
  }
  return dtype == DType::kF16 ? Widen(Narrow(x, dtype, nans), dtype) : x;
}

llvm::Value* Convert(llvm::Value* x, DType from, DType to) {
  if (from == to) return x;
  llvm::IRBuilder<>& b = B();
  llvm::Type* const type = ComputeType(to);
  if (from == DType::kBool) {
    if (!IsFloating(to)) return b.CreateZExt(x, type);
    return b.CreateSelect(x, NumberLanes(1, to), NumberLanes(0, to));
  }
  if (IsFloating(from)) {
    if (to == DType::kBool) {
      return b.CreateFCmpUNE(x, llvm::Constant::getNullValue(x->getType()));
    }
    if (IsFloating(to)) return b.CreateFPCast(x, type);
    return FloatToInt(x, to);
  }
  if (to == DType::kBool) return b.CreateIsNotNull(x);
  const bool is_signed = from != DType::kU8;
  if (!IsFloating(to)) return b.CreateIntCast(x, type, is_signed);
  return is_signed ? b.CreateSIToFP(x, type) : b.CreateUIToFP(x, type);
}

llvm::Value* NumberLanes(double number, DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return IrFloats<float>::Of(number).v;
    case DType::kF64:
      return IrFloats<double>::Of(number).v;
    case DType::kBool:
      return IrMask::Of(number != 0).v;
    default:
      break;
  }
  // Out of range, a nan too, as the processor has it.
  const bool fits = number >= -0x1p63 && number < 0x1p63;
  const int64_t whole = fits ? static_cast<int64_t>(number) : INT64_MIN;
  return W().Splat(llvm::ConstantInt::get(
      B().getContext(),
      llvm::APInt(64, static_cast<uint64_t>(whole))
          .trunc(8 * static_cast<unsigned>(ElementBytes(dtype)))));
}

}  // namespace mica::region::ir
