#include "kernels/llvm/ir_functions.h"

#include "llvm/IR/IntrinsicsX86.h"

namespace mica::region::ir {
namespace {

int LanesIn(llvm::Value* x) {
  return static_cast<int>(
      llvm::cast<llvm::FixedVectorType>(x->getType())->getNumElements());
}

}  // namespace

llvm::Value* ScaleByAvx512(llvm::Value* x, llvm::Value* n) {
  const int lanes = LanesIn(x);
  const bool is_double = x->getType()->getScalarSizeInBits() == 64;
  const int bits = lanes * (is_double ? 64 : 32);
  if (bits > 512) {
    const int half = lanes / 2;
    const auto part = [&](int first) {
      return ScaleByAvx512(W().Part(x, first, half), W().Part(n, first, half));
    };
    llvm::Value* const low = part(0);
    return W().Join(low, part(half));
  }
  llvm::Value* const none = llvm::Constant::getNullValue(x->getType());
  llvm::Value* const all = llvm::ConstantInt::getAllOnesValue(
      B().getIntNTy(static_cast<unsigned>(lanes < 8 ? 8 : lanes)));
  if (bits == 512) {
    return B().CreateIntrinsic(
        is_double ? llvm::Intrinsic::x86_avx512_mask_scalef_pd_512
                  : llvm::Intrinsic::x86_avx512_mask_scalef_ps_512,
        {}, {x, n, none, all, B().getInt32(4)});  // 4: as MXCSR rounds.
  }
  return B().CreateIntrinsic(
      is_double ? llvm::Intrinsic::x86_avx512_mask_scalef_pd_256
                : llvm::Intrinsic::x86_avx512_mask_scalef_ps_256,
      {}, {x, n, none, all});
}

}  // namespace mica::region::ir
