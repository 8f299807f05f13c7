// The lanes of kernels/region/lanes.h whose operators write LLVM's intermediate
// form: a template that is called with them writes itself down.

#ifndef MICA_KERNELS_LLVM_IR_LANES_H_
#define MICA_KERNELS_LLVM_IR_LANES_H_

#include <cstdint>
#include <type_traits>
#include <vector>

#include "llvm/IR/Constants.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/Module.h"

namespace mica::region::ir {

// As in kernels/cpu/simd_table.h.
enum class Level : uint8_t { kV1, kV3, kV4 };

int RegisterBytes(Level level);

// Where and for what the lanes write. One a function; the thread that emits
// one sets `Writer::here` meanwhile.
struct Writer {
  llvm::Module& module;
  llvm::IRBuilder<>& b;
  int lanes;
  Level level;
  // Lanes of a bfloat region stand in this order: elements 0, 2, 4, …, then 1,
  // 3, 5, …: so they come out of, and go back to, words of two at little cost.
  bool is_by_parity = false;
  // If there is one, IfAny() is its usual value, and adds its mask here.
  std::vector<llvm::Value*>* unusual = nullptr;
  // What the function calls, by LoopId().
  std::vector<uint64_t> loops = {};

  static inline thread_local Writer* here = nullptr;

  llvm::Type* Vector(llvm::Type* element) const {
    return llvm::FixedVectorType::get(element, lanes);
  }
  llvm::Type* IntVector(int bits) const { return Vector(b.getIntNTy(bits)); }
  llvm::Value* Splat(llvm::Constant* x) const {
    return llvm::ConstantVector::getSplat(
        llvm::ElementCount::getFixed(static_cast<unsigned>(lanes)), x);
  }
  llvm::Value* Splat(int bits, int64_t x) const {
    return Splat(llvm::ConstantInt::get(b.getIntNTy(bits),
                                        static_cast<uint64_t>(x), true));
  }
  llvm::BasicBlock* Block(const char* name) const {
    return llvm::BasicBlock::Create(b.getContext(), name,
                                    b.GetInsertBlock()->getParent());
  }
  // Lanes `first` and following of a vector.
  llvm::Value* Part(llvm::Value* x, int first, int count) const;
  // The lanes of two vectors, one behind the other.
  llvm::Value* Join(llvm::Value* a, llvm::Value* b) const;
  // Whether any lane is set, as an i1.
  llvm::Value* Any(llvm::Value* mask) const;
  // table[index], of a table that becomes the module's own.
  llvm::Value* Gather(llvm::Constant* table, llvm::Type* element,
                      llvm::Value* index) const;
};

inline Writer& W() { return *Writer::here; }
inline llvm::IRBuilder<>& B() { return Writer::here->b; }

// A vector of i1.
struct IrMask {
  llvm::Value* v;

  static IrMask Of(bool yes) { return {W().Splat(1, yes ? 1 : 0)}; }
  friend IrMask operator&(IrMask a, IrMask b) {
    return {B().CreateAnd(a.v, b.v)};
  }
  friend IrMask operator|(IrMask a, IrMask b) {
    return {B().CreateOr(a.v, b.v)};
  }
  friend IrMask operator^(IrMask a, IrMask b) {
    return {B().CreateXor(a.v, b.v)};
  }
  friend IrMask operator!(IrMask a) { return {B().CreateNot(a.v)}; }
};

// Ints of T's size; T's sign counts in LessInt() and conversions.
template <class T>
struct IrInts {
  using Element = T;
  using Mask = IrMask;
  static constexpr int kBits = 8 * sizeof(T);
  llvm::Value* v;

  static IrInts Of(int64_t x) { return {W().Splat(kBits, x)}; }
  friend IrInts operator+(IrInts a, IrInts b) {
    return {B().CreateAdd(a.v, b.v)};
  }
  friend IrInts operator-(IrInts a, IrInts b) {
    return {B().CreateSub(a.v, b.v)};
  }
  friend IrInts operator*(IrInts a, IrInts b) {
    return {B().CreateMul(a.v, b.v)};
  }
  friend IrInts operator&(IrInts a, IrInts b) {
    return {B().CreateAnd(a.v, b.v)};
  }
  friend IrInts operator|(IrInts a, IrInts b) {
    return {B().CreateOr(a.v, b.v)};
  }
  friend IrInts operator^(IrInts a, IrInts b) {
    return {B().CreateXor(a.v, b.v)};
  }
  friend IrInts operator~(IrInts a) { return {B().CreateNot(a.v)}; }
  friend IrInts operator-(IrInts a) { return {B().CreateNeg(a.v)}; }
};

template <class T>
IrInts<T> ShiftLeft(IrInts<T> a, int bits) {
  return {B().CreateShl(a.v, IrInts<T>::Of(bits).v)};
}
template <class T>
IrInts<T> ShiftRight(IrInts<T> a, int bits) {
  return {B().CreateLShr(a.v, IrInts<T>::Of(bits).v)};
}
template <class T>
IrInts<T> ShiftRightArithmetic(IrInts<T> a, int bits) {
  return {B().CreateAShr(a.v, IrInts<T>::Of(bits).v)};
}
template <class T>
IrMask LessInt(IrInts<T> a, IrInts<T> b) {
  return {std::is_signed_v<T> ? B().CreateICmpSLT(a.v, b.v)
                              : B().CreateICmpULT(a.v, b.v)};
}
template <class T>
IrMask EqualInt(IrInts<T> a, IrInts<T> b) {
  return {B().CreateICmpEQ(a.v, b.v)};
}
template <class T>
IrInts<T> Select(IrMask m, IrInts<T> a, IrInts<T> b) {
  return {B().CreateSelect(m.v, a.v, b.v)};
}

// Bools, as ints of one bit that are 0 or 1.
struct IrBools {
  using Mask = IrMask;
  llvm::Value* v;

  friend IrBools operator&(IrBools a, IrBools b) {
    return {B().CreateAnd(a.v, b.v)};
  }
  friend IrBools operator|(IrBools a, IrBools b) {
    return {B().CreateOr(a.v, b.v)};
  }
  friend IrBools operator^(IrBools a, IrBools b) {
    return {B().CreateXor(a.v, b.v)};
  }
  friend IrBools operator~(IrBools a) { return {B().CreateNot(a.v)}; }
};
inline IrMask LessInt(IrBools a, IrBools b) { return {(~a & b).v}; }
inline IrMask EqualInt(IrBools a, IrBools b) { return {(~(a ^ b)).v}; }
inline IrBools Select(IrMask m, IrBools a, IrBools b) {
  return {B().CreateSelect(m.v, a.v, b.v)};
}

template <class T>
struct IrFloats {
  static constexpr bool kIsDouble = sizeof(T) == 8;
  using Element = T;
  using Int = IrInts<std::conditional_t<kIsDouble, int64_t, int32_t>>;
  using Mask = IrMask;
  llvm::Value* v;

  static llvm::Type* Scalar() {
    return kIsDouble ? B().getDoubleTy() : B().getFloatTy();
  }
  static llvm::Constant* Constant(T x) {
    return llvm::ConstantFP::get(B().getContext(), llvm::APFloat(x));
  }
  static IrFloats Of(double x) {
    return {W().Splat(Constant(static_cast<T>(x)))};
  }
  static bool Fuses() { return W().level != Level::kV1; }

  friend IrFloats operator+(IrFloats a, IrFloats b) {
    return {B().CreateFAdd(a.v, b.v)};
  }
  friend IrFloats operator-(IrFloats a, IrFloats b) {
    return {B().CreateFSub(a.v, b.v)};
  }
  friend IrFloats operator*(IrFloats a, IrFloats b) {
    return {B().CreateFMul(a.v, b.v)};
  }
  friend IrFloats operator/(IrFloats a, IrFloats b) {
    return {B().CreateFDiv(a.v, b.v)};
  }
  friend IrFloats operator-(IrFloats a) { return {B().CreateFNeg(a.v)}; }
};

template <class T>
auto Bits(IrFloats<T> a) {
  using Int = typename IrFloats<T>::Int;
  return Int{B().CreateBitCast(a.v, W().IntVector(Int::kBits))};
}
template <class F, class T>
F FromBits(IrInts<T> a) {
  return {B().CreateBitCast(a.v, W().Vector(F::Scalar()))};
}
template <class T>
IrMask Less(IrFloats<T> a, IrFloats<T> b) {
  return {B().CreateFCmpOLT(a.v, b.v)};
}
template <class T>
IrMask LessEqual(IrFloats<T> a, IrFloats<T> b) {
  return {B().CreateFCmpOLE(a.v, b.v)};
}
template <class T>
IrMask Equal(IrFloats<T> a, IrFloats<T> b) {
  return {B().CreateFCmpOEQ(a.v, b.v)};
}
template <class T>
IrMask IsNan(IrFloats<T> a) {
  return {B().CreateFCmpUNO(a.v, a.v)};
}
template <class T>
IrFloats<T> Select(IrMask m, IrFloats<T> a, IrFloats<T> b) {
  return {B().CreateSelect(m.v, a.v, b.v)};
}
template <class T>
IrFloats<T> Abs(IrFloats<T> a) {
  return {B().CreateUnaryIntrinsic(llvm::Intrinsic::fabs, a.v)};
}
template <class T>
IrFloats<T> CopySign(IrFloats<T> size, IrFloats<T> sign) {
  return {B().CreateBinaryIntrinsic(llvm::Intrinsic::copysign, size.v, sign.v)};
}
template <class T>
IrFloats<T> Fma(IrFloats<T> a, IrFloats<T> b, IrFloats<T> c) {
  if (!IrFloats<T>::Fuses()) return a * b + c;
  return {B().CreateIntrinsic(llvm::Intrinsic::fma, {a.v->getType()},
                              {a.v, b.v, c.v})};
}
template <class T>
IrFloats<T> Sqrt(IrFloats<T> a) {
  return {B().CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, a.v)};
}

// SSE2 rounds by no instruction. From 2^23, or 2^52, on there are no fractions;
// below, adding that much rounds them off.
template <class T>
IrFloats<T> Round(IrFloats<T> a) {
  using F = IrFloats<T>;
  if (W().level != Level::kV1) {
    return {B().CreateUnaryIntrinsic(llvm::Intrinsic::roundeven, a.v)};
  }
  const F whole = F::Of(F::kIsDouble ? 0x1p52 : 0x1p23), size = Abs(a);
  return Select(Less(size, whole), CopySign((size + whole) - whole, a), a);
}
template <class T>
IrFloats<T> Floor(IrFloats<T> a) {
  using F = IrFloats<T>;
  if (W().level != Level::kV1) {
    return {B().CreateUnaryIntrinsic(llvm::Intrinsic::floor, a.v)};
  }
  const F near = Round(a);
  return Select(Less(a, near), CopySign(near - F::Of(1), a), near);
}
template <class T>
IrFloats<T> Ceil(IrFloats<T> a) {
  if (W().level != Level::kV1) {
    return {B().CreateUnaryIntrinsic(llvm::Intrinsic::ceil, a.v)};
  }
  return -Floor(-a);
}
template <class T>
IrFloats<T> Trunc(IrFloats<T> a) {
  if (W().level != Level::kV1) {
    return {B().CreateUnaryIntrinsic(llvm::Intrinsic::trunc, a.v)};
  }
  return CopySign(Floor(Abs(a)), a);
}

// Between doubles and i64 by 1.5 2^52, whose last bit is 1, where the processor
// has no conversions.
template <class T>
auto ToInt(IrFloats<T> a) {
  using F = IrFloats<T>;
  using Int = typename F::Int;
  if (F::kIsDouble && W().level != Level::kV4) {
    const F one_and_half = F::Of(0x1.8p52);
    return Bits(a + one_and_half) - Bits(one_and_half);
  }
  return Int{B().CreateFPToSI(a.v, W().IntVector(Int::kBits))};
}
template <class F, class T>
F ToFloat(IrInts<T> a) {
  if (F::kIsDouble && W().level != Level::kV4) {
    const F one_and_half = F::Of(0x1.8p52);
    return FromBits<F>(a + Bits(one_and_half)) - one_and_half;
  }
  return {B().CreateSIToFP(a.v, W().Vector(F::Scalar()))};
}
template <class F, int K, class T>
F Gather(const typename F::Element (&table)[K], IrInts<T> index) {
  std::vector<llvm::Constant*> numbers;
  for (const auto& number : table) numbers.push_back(F::Constant(number));
  llvm::Constant* all =
      llvm::ConstantArray::get(llvm::ArrayType::get(F::Scalar(), K), numbers);
  return {W().Gather(all, F::Scalar(), index.v)};
}

template <class F, class Fn>
F IfAny(IrMask m, F usual, Fn special) {
  if (W().unusual != nullptr) {
    W().unusual->push_back(m.v);
    return usual;
  }
  llvm::BasicBlock* const from = B().GetInsertBlock();
  llvm::BasicBlock* const some = W().Block("some");
  llvm::BasicBlock* const none = W().Block("none");
  B().CreateCondBr(W().Any(m.v), some, none);
  B().SetInsertPoint(some);
  const F mixed = Select(m, special(), usual);
  llvm::BasicBlock* const end = B().GetInsertBlock();
  B().CreateBr(none);
  B().SetInsertPoint(none);
  llvm::PHINode* y = B().CreatePHI(usual.v->getType(), 2);
  y->addIncoming(usual.v, from);
  y->addIncoming(mixed.v, end);
  return {y};
}

template <class F, class Cond, class Body>
F WhileAny(F x, Cond cond, Body body) {
  llvm::BasicBlock* const from = B().GetInsertBlock();
  llvm::BasicBlock* const head = W().Block("while");
  llvm::BasicBlock* const some = W().Block("round");
  llvm::BasicBlock* const done = W().Block("done");
  B().CreateBr(head);
  B().SetInsertPoint(head);
  llvm::PHINode* y = B().CreatePHI(x.v->getType(), 2);
  llvm::PHINode* round = B().CreatePHI(B().getInt32Ty(), 2);
  y->addIncoming(x.v, from);
  round->addIncoming(B().getInt32(0), from);
  const IrMask m = cond(F{y});
  llvm::Value* const goes_on =
      B().CreateAnd(W().Any(m.v), B().CreateICmpULT(round, B().getInt32(4096)));
  B().CreateCondBr(goes_on, some, done);
  B().SetInsertPoint(some);
  const F next = Select(m, body(F{y}), F{y});
  llvm::BasicBlock* const end = B().GetInsertBlock();
  y->addIncoming(next.v, end);
  round->addIncoming(B().CreateAdd(round, B().getInt32(1)), end);
  B().CreateBr(head);
  B().SetInsertPoint(done);
  return {y};
}

}  // namespace mica::region::ir

#endif  // MICA_KERNELS_LLVM_IR_LANES_H_
