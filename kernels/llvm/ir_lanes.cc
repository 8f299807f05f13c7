#include "kernels/llvm/ir_lanes.h"

#include <numeric>

namespace mica::region::ir {

int RegisterBytes(Level level) {
  switch (level) {
    case Level::kV1:
      return 16;
    case Level::kV3:
      return 32;
    case Level::kV4:
      return 64;
  }
  return 16;
}

llvm::Value* Writer::Part(llvm::Value* x, int first, int count) const {
  std::vector<int> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), first);
  return b.CreateShuffleVector(x, order);
}

llvm::Value* Writer::Join(llvm::Value* a, llvm::Value* b) const {
  const auto* type = llvm::cast<llvm::FixedVectorType>(a->getType());
  std::vector<int> order(2 * type->getNumElements());
  std::iota(order.begin(), order.end(), 0);
  return this->b.CreateShuffleVector(a, b, order);
}

llvm::Value* Writer::Any(llvm::Value* mask) const {
  llvm::Value* const bits = b.CreateBitCast(mask, b.getIntNTy(lanes));
  return b.CreateICmpNE(bits, llvm::ConstantInt::get(bits->getType(), 0));
}

llvm::Value* Writer::Gather(llvm::Constant* table, llvm::Type* element,
                            llvm::Value* index) const {
  llvm::GlobalVariable* array = nullptr;
  for (llvm::GlobalVariable& known : module.globals()) {
    if (known.getInitializer() == table) array = &known;
  }
  if (array == nullptr) {
    array = new llvm::GlobalVariable(
        module, table->getType(),
        /*isConstant=*/true, llvm::GlobalValue::PrivateLinkage, table, "table");
    array->setAlignment(llvm::Align(64));
    array->setUnnamedAddr(llvm::GlobalValue::UnnamedAddr::Global);
  }
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
