#include "kernels/llvm/ir_lanes.h"

namespace mica::region::ir {

llvm::Value* Writer::Any(llvm::Value* mask) const {
  llvm::Value* const bits = b.CreateBitCast(mask, b.getIntNTy(lanes));
  return b.CreateICmpNE(bits, llvm::ConstantInt::get(bits->getType(), 0));
}

llvm::Value* Writer::Gather(llvm::Constant* table, llvm::Type* element,
                            llvm::Value* index) const {
  auto* const array = new llvm::GlobalVariable(
      module, table->getType(), /*isConstant=*/true,
      llvm::GlobalValue::PrivateLinkage, table, "table");
  array->setAlignment(llvm::Align(64));
  array->setUnnamedAddr(llvm::GlobalValue::UnnamedAddr::Global);
  if (level == Level::kV4) {
    return b.CreateMaskedGather(
        Vector(element), b.CreateGEP(element, array, index),
        llvm::Align(element->getScalarSizeInBits() / 8));
  }
  // Earlier processors gather no faster than they load.
  llvm::Value* all = llvm::PoisonValue::get(Vector(element));
  for (int i = 0; i < lanes; ++i) {
    llvm::Value* at =
        b.CreateGEP(element, array, b.CreateExtractElement(index, i));
    all = b.CreateInsertElement(all, b.CreateLoad(element, at), i);
  }
  return all;
}

}  // namespace mica::region::ir
