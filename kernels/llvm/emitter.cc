#include "kernels/llvm/emitter.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/llvm/conversions.h"
#include "kernels/llvm/loop_calls.h"
#include "kernels/llvm/row_vectors.h"
#include "kernels/region/rounding.h"

namespace mica::region::ir {
namespace {

using llvm::BasicBlock;
using llvm::Value;
using Kind = RegionCode::Ref::Kind;

// Lanes of the widest type fill two registers, so that one's latency is the
// other's time, and what they share, such as constants, is there once. Digamma
// needs so many registers that one is faster.
int LanesOf(const Signature& signature, Level level) {
  int64_t widest = 1;
  int registers = 2;
  for (const RegionCode::Instruction& instruction :
       signature.code.instructions) {
    widest = std::max(widest, ElementBytes(ComputeDType(instruction.dtype)));
    if (instruction.op->id == RegionOpId::kDigamma) registers = 1;
  }
  for (const auto* arrays : {&signature.operands, &signature.results}) {
    for (const Array& array : *arrays) {
      widest = std::max(widest, ElementBytes(ComputeDType(array.dtype)));
    }
  }
  const int lanes = RegisterBytes(level) / static_cast<int>(widest);
  return std::min(registers * lanes, 64);
}

// Whether all arrays in which elements lie one after the other are of bf16.
bool IsOfBFloats(const Signature& signature) {
  for (const auto* arrays : {&signature.operands, &signature.results}) {
    for (const Array& array : *arrays) {
      const bool is_one =
          arrays == &signature.operands && array.access == Access::kOne;
      if (!is_one && array.dtype != DType::kBF16) return false;
    }
  }
  return true;
}

class Emitter {
 public:
  Emitter(const Signature& signature, llvm::Function* function, Writer& writer)
      : signature_(signature),
        roundings_(RoundingsOf(signature)),
        function_(function),
        w_(writer),
        b_(writer.b),
        widened_(signature.operands.size(), nullptr) {}

  void Run() {
    BasicBlock* const entry = NewBlock("entry");
    BasicBlock* const row = NewBlock("row");
    BasicBlock* const loop = NewBlock("loop");
    BasicBlock* const row_end = NewBlock("row_end");
    BasicBlock* const end = NewBlock("end");
    b_.SetInsertPoint(entry);
    RowVectors vectors(signature_, function_, w_);
    Value* const is_empty =
        b_.CreateOr(b_.CreateICmpSLE(vectors.rows(), b_.getInt64(0)),
                    b_.CreateICmpSLE(vectors.n(), b_.getInt64(0)));
    b_.CreateCondBr(is_empty, end, row);

    b_.SetInsertPoint(row);
    llvm::PHINode* const r = b_.CreatePHI(b_.getInt64Ty(), 2);
    r->addIncoming(b_.getInt64(0), entry);
    vectors.StartRow(r);
    b_.CreateBr(loop);

    b_.SetInsertPoint(loop);
    llvm::PHINode* const i = b_.CreatePHI(b_.getInt64Ty(), 2);
    i->addIncoming(b_.getInt64(0), row);
    vectors.Load(i);
    Compute(vectors);
    vectors.Store(i);
    Value* const next_i =
        b_.CreateAdd(i, b_.getInt64(w_.lanes), "", true, true);
    i->addIncoming(next_i, b_.GetInsertBlock());
    b_.CreateCondBr(b_.CreateICmpSLT(next_i, vectors.n()), loop, row_end);

    b_.SetInsertPoint(row_end);
    Value* const next_r = b_.CreateAdd(r, b_.getInt64(1), "", true, true);
    r->addIncoming(next_r, row_end);
    b_.CreateCondBr(b_.CreateICmpSLT(next_r, vectors.rows()), row, end);

    b_.SetInsertPoint(end);
    b_.CreateRetVoid();
    for (BasicBlock* block : {row_end, end}) {
      block->moveAfter(&function_->back());
    }
  }

 private:
  // What an instruction has made, as it is computed with: `exact` isn't rounded
  // to 16 bits yet.
  struct Made {
    Value* exact = nullptr;
    Value* rounded = nullptr;
    DType dtype = DType::kF32;
    Nans nans = Nans::kAny;
  };

  BasicBlock* NewBlock(const char* name) {
    return BasicBlock::Create(b_.getContext(), name, function_);
  }

  void Compute(RowVectors& vectors) {
    const auto& instructions = signature_.code.instructions;
    for (size_t id = 0; id < instructions.size(); ++id) {
      Add(instructions[id], roundings_[id], vectors);
    }
    for (size_t k = 0; k < signature_.results.size(); ++k) {
      const int result = static_cast<int>(k);
      if (!vectors.is_used(result)) continue;
      vectors.SetResult(result, InMemory(signature_.code.results[k],
                                         signature_.results[k].dtype));
    }
  }

  void Add(const RegionCode::Instruction& instruction, Rounding rounding,
           const RowVectors& vectors) {
    std::vector<Value*> operands;
    for (size_t k = 0; k < instruction.operands.size(); ++k) {
      operands.push_back(
          OperandLanes(instruction.operands[k], vectors,
                       instruction.operand_dtype(static_cast<int>(k))));
    }
    Made made = {.dtype = instruction.result_dtype(),
                 .nans = rounding.has_short_nans ? Nans::kShort : Nans::kAny};
    made.exact = ApplyOrCall(instruction.op->id,
                             ComputeDType(instruction.dtype), operands);
    made.rounded = rounding.is_exact ? made.exact
                                     : Round(made.exact, made.dtype, made.nans);
    made_.push_back(made);
  }

  // What instruction `id` has made, as it lies in an array of `dtype`.
  Value* InMemory(int id, DType dtype) {
    const Made& made = made_[id];
    if (dtype != made.dtype) {
      return Narrow(
          Convert(made.rounded, ComputeDType(made.dtype), ComputeDType(dtype)),
          dtype, made.nans);
    }
    return roundings_[id].is_exact ? NarrowExact(made.exact, dtype)
                                   : Narrow(made.exact, dtype, made.nans);
  }

  Value* OperandLanes(const RegionCode::Ref& ref, const RowVectors& vectors,
                      DType dtype) {
    if (ref.kind == Kind::kNumber) return NumberLanes(ref.number, dtype);
    if (ref.kind == Kind::kInstruction) {
      const Made& from = made_[ref.index];
      return Convert(from.rounded, ComputeDType(from.dtype), dtype);
    }
    const DType own = signature_.operands[ref.index].dtype;
    // Masks that go from block to block LLVM takes apart.
    Value*& widened = widened_[ref.index];
    if (widened == nullptr || own == DType::kBool) {
      widened = Widen(vectors.operand(ref.index), own);
    }
    return Convert(widened, ComputeDType(own), dtype);
  }

  const Signature& signature_;
  const std::vector<Rounding> roundings_;  // By instruction.
  llvm::Function* const function_;
  Writer& w_;
  llvm::IRBuilder<>& b_;
  std::vector<Value*> widened_;  // By operand, once it is used.
  std::vector<Made> made_;       // By instruction.
};

}  // namespace

std::vector<uint64_t> Emit(const Signature& signature, Level level,
                           llvm::Module& module) {
  llvm::IRBuilder<> b(module.getContext());
  auto* const type =
      llvm::FunctionType::get(b.getVoidTy(), {b.getPtrTy()}, false);
  llvm::Function* const function = llvm::Function::Create(
      type, llvm::GlobalValue::ExternalLinkage, kEntry, module);
  function->addFnAttr(llvm::Attribute::NoUnwind);
  if (level == Level::kV4) {
    function->addFnAttr("prefer-vector-width", "512");
    function->addFnAttr("min-legal-vector-width", "512");
  }
  Writer writer{.module = module,
                .b = b,
                .lanes = LanesOf(signature, level),
                .level = level,
                .is_by_parity = IsOfBFloats(signature)};
  Writer::here = &writer;
  Emitter(signature, function, writer).Run();
  Writer::here = nullptr;
  return std::move(writer.loops);
}

}  // namespace mica::region::ir
