#include "kernels/llvm/loop_calls.h"

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/llvm/image.h"
#include "kernels/llvm/instructions.h"
#include "kernels/region/loop_table.h"
#include "llvm/IR/MDBuilder.h"

namespace mica::region::ir {
namespace {

using llvm::BasicBlock;
using llvm::Value;
using Operands = absl::Span<Value* const>;

// Angles of thousands of turns, and what is below 0.
bool IsLongIfUnusual(RegionOpId op) {
  return op == RegionOpId::kSin || op == RegionOpId::kCos ||
         op == RegionOpId::kTan || op == RegionOpId::kLgamma ||
         op == RegionOpId::kDigamma;
}

// The address of a loop, from the table that whoever loads the image fills in.
Value* LoopAddress(RegionOpId op, DType dtype) {
  llvm::IRBuilder<>& b = B();
  std::vector<uint64_t>& loops = W().loops;
  const uint64_t id = LoopId(op, dtype);
  const auto at = std::find(loops.begin(), loops.end(), id);
  const auto index = static_cast<uint64_t>(at - loops.begin());
  if (at == loops.end()) loops.push_back(id);
  llvm::GlobalVariable* table = W().module.getNamedGlobal(kLoopTable);
  if (table == nullptr) {
    table = new llvm::GlobalVariable(
        W().module, llvm::ArrayType::get(b.getPtrTy(), 0), /*isConstant=*/true,
        llvm::GlobalValue::ExternalLinkage, nullptr, kLoopTable);
    table->setVisibility(llvm::GlobalValue::HiddenVisibility);
    table->setDSOLocal(true);
  }
  return b.CreateLoad(b.getPtrTy(),
                      b.CreateConstGEP1_64(b.getPtrTy(), table, index));
}

// Room on the stack, for the whole function.
Value* Room(llvm::Type* type) {
  llvm::BasicBlock& entry = B().GetInsertBlock()->getParent()->getEntryBlock();
  llvm::IRBuilder<> b(&entry, entry.begin());
  llvm::AllocaInst* const room = b.CreateAlloca(type);
  room->setAlignment(llvm::Align(64));
  return room;
}

Value* Call(RegionOpId op, DType dtype, Operands operands) {
  llvm::IRBuilder<>& b = B();
  Value* const loop = LoopAddress(op, dtype);
  llvm::Type* const vector = operands[0]->getType();
  Value* const addresses =
      Room(llvm::ArrayType::get(b.getPtrTy(), operands.size()));
  for (size_t i = 0; i < operands.size(); ++i) {
    Value* const room = Room(vector);
    b.CreateAlignedStore(operands[i], room, llvm::Align(64));
    b.CreateStore(room, b.CreateConstGEP1_64(b.getPtrTy(), addresses, i));
  }
  Value* const made = Room(vector);
  auto* const type = llvm::FunctionType::get(
      b.getVoidTy(), {b.getPtrTy(), b.getPtrTy(), b.getInt64Ty()}, false);
  b.CreateCall(type, loop, {addresses, made, b.getInt64(W().lanes)});
  return b.CreateAlignedLoad(vector, made, llvm::Align(64));
}

}  // namespace

Value* ApplyOrCall(RegionOpId op, DType dtype, Operands operands) {
  if (!IsLongIfUnusual(op)) return Apply(op, dtype, operands);
  llvm::IRBuilder<>& b = B();
  std::vector<Value*> unusual;
  W().unusual = &unusual;
  Value* const usual = Apply(op, dtype, operands);
  W().unusual = nullptr;
  if (unusual.empty()) return usual;
  Value* any = unusual[0];
  for (size_t i = 1; i < unusual.size(); ++i) any = b.CreateOr(any, unusual[i]);
  BasicBlock* const rare = W().Block("rare");
  BasicBlock* const done = W().Block("done");
  BasicBlock* const from = b.GetInsertBlock();
  b.CreateCondBr(W().Any(any), rare, done,
                 llvm::MDBuilder(b.getContext()).createUnlikelyBranchWeights());
  b.SetInsertPoint(rare);
  Value* const whole = Call(op, dtype, operands);
  b.CreateBr(done);
  b.SetInsertPoint(done);
  llvm::PHINode* const y = b.CreatePHI(usual->getType(), 2);
  y->addIncoming(usual, from);
  y->addIncoming(whole, rare);
  return y;
}

}  // namespace mica::region::ir
