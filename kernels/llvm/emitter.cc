#include "kernels/llvm/emitter.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <vector>

#include "framework/tensor/half.h"
#include "kernels/llvm/conversions.h"
#include "kernels/llvm/instructions.h"
#include "llvm/IR/MDBuilder.h"

namespace mica::region::ir {
namespace {

using llvm::BasicBlock;
using llvm::Value;
using Kind = RegionCode::Ref::Kind;

// How the last vector of a row is read and written.
enum class Partial : uint8_t { kBitMask, kLaneMask, kBuffer };

Partial PartialOf(Level level, DType dtype) {
  if (level == Level::kV4) return Partial::kBitMask;
  if (level == Level::kV3 && ElementBytes(dtype) >= 4) {
    return Partial::kLaneMask;
  }
  return Partial::kBuffer;
}

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

// Lanes of the widest type fill two registers, so that one's latency is the
// other's time, and what they share, such as constants, is there once.
int LanesOf(const Signature& signature, Level level) {
  int64_t widest = 1;
  for (const RegionCode::Instruction& instruction :
       signature.code.instructions) {
    widest = std::max(widest, ElementBytes(ComputeDType(instruction.dtype)));
  }
  for (const auto* arrays : {&signature.operands, &signature.results}) {
    for (const Array& array : *arrays) {
      widest = std::max(widest, ElementBytes(ComputeDType(array.dtype)));
    }
  }
  const int lanes = RegisterBytes(level) / static_cast<int>(widest);
  return std::min(2 * lanes, 64);
}

class Emitter {
 public:
  Emitter(const Signature& signature, llvm::Function* function, Writer& writer)
      : signature_(signature), function_(function), w_(writer), b_(writer.b) {}

  void Run() {
    BasicBlock* const entry = NewBlock("entry");
    BasicBlock* const row = NewBlock("row");
    BasicBlock* const loop = NewBlock("loop");
    BasicBlock* const row_end = NewBlock("row_end");
    BasicBlock* const end = NewBlock("end");
    b_.SetInsertPoint(entry);
    ReadArguments();
    AddArrays();
    Value* const is_empty = b_.CreateOr(b_.CreateICmpSLE(rows_, b_.getInt64(0)),
                                        b_.CreateICmpSLE(n_, b_.getInt64(0)));
    b_.CreateCondBr(is_empty, end, row);

    b_.SetInsertPoint(row);
    llvm::PHINode* const r = b_.CreatePHI(b_.getInt64Ty(), 2);
    r->addIncoming(b_.getInt64(0), entry);
    StartRow(r);
    b_.CreateBr(loop);

    b_.SetInsertPoint(loop);
    llvm::PHINode* const i = b_.CreatePHI(b_.getInt64Ty(), 2);
    i->addIncoming(b_.getInt64(0), row);
    WriteRound(i);
    Value* const next_i =
        b_.CreateAdd(i, b_.getInt64(w_.lanes), "", true, true);
    i->addIncoming(next_i, b_.GetInsertBlock());
    b_.CreateCondBr(b_.CreateICmpSLT(next_i, n_), loop, row_end);

    b_.SetInsertPoint(row_end);
    Value* const next_r = b_.CreateAdd(r, b_.getInt64(1), "", true, true);
    r->addIncoming(next_r, row_end);
    b_.CreateCondBr(b_.CreateICmpSLT(next_r, rows_), row, end);

    b_.SetInsertPoint(end);
    b_.CreateRetVoid();
    for (BasicBlock* block : {row_end, end}) {
      block->moveAfter(&function_->back());
    }
  }

 private:
  // An operand or a result in the code.
  struct Place {
    Array array;
    int index = 0;  // Among operands and results.
    bool is_result = false;
    llvm::AllocaInst* buffer = nullptr;  // Room for a vector.
    Value* base = nullptr;               // Of the row.
    Value* step = nullptr;               // In bytes, if strided.
    Value* in_memory = nullptr;          // The vector as it lies there.

    bool is_dense() const { return array.access == Access::kDense; }
  };

  BasicBlock* NewBlock(const char* name) {
    return BasicBlock::Create(b_.getContext(), name, function_);
  }
  int Bytes(const Place& place) const {
    return static_cast<int>(ElementBytes(place.array.dtype));
  }
  llvm::Type* VectorOf(const Place& place) const {
    return w_.Vector(MemoryType(place.array.dtype));
  }
  Value* Field(size_t offset, llvm::Type* type) {
    return b_.CreateLoad(
        type, b_.CreateConstGEP1_64(b_.getInt8Ty(), function_->getArg(0),
                                    static_cast<uint64_t>(offset)));
  }
  // The `index`th word of an array of pointers or integers.
  Value* Entry(Value* words, int index, llvm::Type* type) {
    return b_.CreateLoad(type, b_.CreateConstGEP1_64(type, words, index));
  }

  void ReadArguments() {
    at_ = Field(offsetof(RegionRows, at), b_.getPtrTy());
    row_steps_ = Field(offsetof(RegionRows, row_steps), b_.getPtrTy());
    steps_ = Field(offsetof(RegionRows, steps), b_.getPtrTy());
    rows_ = Field(offsetof(RegionRows, rows), b_.getInt64Ty());
    n_ = Field(offsetof(RegionRows, n), b_.getInt64Ty());
  }

  void AddArrays() {
    std::vector<bool> is_read(signature_.operands.size(), false);
    for (const auto& instruction : signature_.code.instructions) {
      for (const RegionCode::Ref& ref : instruction.operands) {
        if (ref.kind == Kind::kOperand) is_read[ref.index] = true;
      }
    }
    const int num_operands = static_cast<int>(signature_.operands.size());
    operands_.resize(num_operands);
    for (int i = 0; i < num_operands; ++i) {
      operands_[i] = {.array = signature_.operands[i], .index = i};
      operands_[i].array.is_used = is_read[i];
      if (is_read[i]) AddBuffer(operands_[i]);
    }
    for (size_t i = 0; i < signature_.results.size(); ++i) {
      Place place = {.array = signature_.results[i],
                     .index = num_operands + static_cast<int>(i),
                     .is_result = true};
      if (place.array.is_used) AddBuffer(place);
      results_.push_back(place);
    }
  }

  void AddBuffer(Place& place) {
    const Access access = place.array.access;
    const bool is_one = access == Access::kOne && !place.is_result;
    const bool by_mask =
        access == Access::kDense &&
        PartialOf(w_.level, place.array.dtype) != Partial::kBuffer;
    if (is_one || by_mask) return;
    place.buffer = b_.CreateAlloca(VectorOf(place));
    place.buffer->setAlignment(llvm::Align(64));
    // Lanes without an element compute with what there was, never with what
    // LLVM may take for anything.
    b_.CreateAlignedStore(llvm::Constant::getNullValue(VectorOf(place)),
                          place.buffer, llvm::Align(64));
  }

  void StartRow(Value* r) {
    for (auto* places : {&operands_, &results_}) {
      for (Place& place : *places) {
        if (!place.array.is_used) continue;
        Value* const first = Entry(at_, place.index, b_.getPtrTy());
        Value* const step = Entry(row_steps_, place.index, b_.getInt64Ty());
        place.base = b_.CreateGEP(b_.getInt8Ty(), first, b_.CreateMul(r, step));
        place.step = place.array.access == Access::kStrided
                         ? Entry(steps_, place.index, b_.getInt64Ty())
                         : b_.getInt64(0);
      }
    }
    for (Place& place : operands_) {
      if (!place.array.is_used || place.array.access != Access::kOne) continue;
      Value* const one = b_.CreateAlignedLoad(MemoryType(place.array.dtype),
                                              place.base, llvm::Align(1));
      place.in_memory = b_.CreateVectorSplat(w_.lanes, one);
    }
  }

  Value* DenseAddress(const Place& place, Value* i) {
    return b_.CreateGEP(MemoryType(place.array.dtype), place.base, i);
  }

  using Places = std::vector<Place*>;

  // for j < count: between buffers and the elements from i on.
  void CopyElements(const Places& places, Value* i, Value* count) {
    if (places.empty()) return;
    BasicBlock* const before = b_.GetInsertBlock();
    BasicBlock* const copy = NewBlock("copy");
    BasicBlock* const copied = NewBlock("copied");
    b_.CreateBr(copy);
    b_.SetInsertPoint(copy);
    llvm::PHINode* const j = b_.CreatePHI(b_.getInt64Ty(), 2);
    j->addIncoming(b_.getInt64(0), before);
    Value* const at = b_.CreateAdd(i, j);
    for (Place* place : places) {
      llvm::Type* const type = MemoryType(place->array.dtype);
      Value* const far = place->is_dense()
                             ? DenseAddress(*place, at)
                             : b_.CreateGEP(b_.getInt8Ty(), place->base,
                                            b_.CreateMul(at, place->step));
      Value* const near = b_.CreateGEP(type, place->buffer, j);
      Value* const from = place->is_result ? near : far;
      Value* const to = place->is_result ? far : near;
      b_.CreateAlignedStore(b_.CreateAlignedLoad(type, from, llvm::Align(1)),
                            to, llvm::Align(1));
    }
    Value* const next = b_.CreateAdd(j, b_.getInt64(1));
    j->addIncoming(next, copy);
    b_.CreateCondBr(b_.CreateICmpSLT(next, count), copy, copied);
    b_.SetInsertPoint(copied);
  }

  // The lanes that have one of `left` elements.
  Value* PartMask(Partial partial, Value* left) {
    if (partial == Partial::kBitMask) {
      llvm::Type* const bits = b_.getIntNTy(w_.lanes);
      Value* const one = llvm::ConstantInt::get(bits, 1);
      Value* const ones = b_.CreateSub(
          b_.CreateShl(one, b_.CreateZExtOrTrunc(left, bits)), one);
      return b_.CreateBitCast(ones, w_.IntVector(1));
    }
    std::vector<llvm::Constant*> numbers;
    for (int lane = 0; lane < w_.lanes; ++lane) {
      numbers.push_back(b_.getInt32(lane));
    }
    Value* const all =
        b_.CreateVectorSplat(w_.lanes, b_.CreateTrunc(left, b_.getInt32Ty()));
    return b_.CreateICmpULT(llvm::ConstantVector::get(numbers), all);
  }

  Places Dense(std::vector<Place>& from, bool by_buffer) {
    Places places;
    for (Place& place : from) {
      if (!place.array.is_used || !place.is_dense()) continue;
      if ((place.buffer != nullptr) == by_buffer) places.push_back(&place);
    }
    return places;
  }
  // Those that aren't dense, and no operands of one element.
  Places Strided(std::vector<Place>& from) {
    Places places;
    for (Place& place : from) {
      if (place.buffer != nullptr && !place.is_dense()) {
        places.push_back(&place);
      }
    }
    return places;
  }

  // Elements i and following, as many as there are lanes or are left.
  void WriteRound(Value* i) {
    Value* const left = b_.CreateSub(n_, i);
    Value* const lanes = b_.getInt64(w_.lanes);
    Value* const is_full = b_.CreateICmpSGE(left, lanes);
    const Places strided_in = Strided(operands_);
    const Places strided_out = Strided(results_);
    Value* const count = strided_in.empty() && strided_out.empty()
                             ? nullptr
                             : b_.CreateSelect(is_full, lanes, left);
    CopyElements(strided_in, i, count);
    for (Place* place : strided_in) place->in_memory = FromBuffer(*place);
    Load(i, left, is_full);
    Compute();
    Store(i, left, is_full);
    for (Place* place : strided_out) ToBuffer(*place);
    CopyElements(strided_out, i, count);
  }

  Value* FromBuffer(const Place& place) {
    return b_.CreateAlignedLoad(VectorOf(place), place.buffer, llvm::Align(64));
  }
  void ToBuffer(const Place& place) {
    b_.CreateAlignedStore(place.in_memory, place.buffer, llvm::Align(64));
  }

  // Branches on whether the vector is full; `full` and `part` write the sides.
  void EitherWay(Value* is_full, const std::function<void()>& full,
                 const std::function<void()>& part) {
    BasicBlock* const full_block = NewBlock("full");
    BasicBlock* const part_block = NewBlock("part");
    BasicBlock* const both = NewBlock("both");
    b_.CreateCondBr(
        is_full, full_block, part_block,
        llvm::MDBuilder(b_.getContext()).createLikelyBranchWeights());
    b_.SetInsertPoint(full_block);
    full();
    b_.CreateBr(both);
    b_.SetInsertPoint(part_block);
    part();
    b_.CreateBr(both);
    b_.SetInsertPoint(both);
  }

  void Load(Value* i, Value* left, Value* is_full) {
    const Places masked = Dense(operands_, false);
    const Places buffered = Dense(operands_, true);
    if (masked.empty() && buffered.empty()) return;
    std::vector<std::pair<Place*, Value*>> whole, part;
    BasicBlock* from_whole = nullptr;
    BasicBlock* from_part = nullptr;
    const auto load_whole = [&] {
      for (const Places* places : {&masked, &buffered}) {
        for (Place* place : *places) {
          whole.emplace_back(
              place,
              b_.CreateAlignedLoad(VectorOf(*place), DenseAddress(*place, i),
                                   llvm::Align(1)));
        }
      }
      from_whole = b_.GetInsertBlock();
    };
    const auto load_part = [&] {
      for (Place* place : masked) {
        Value* const mask =
            PartMask(PartialOf(w_.level, place->array.dtype), left);
        part.emplace_back(
            place,
            b_.CreateMaskedLoad(
                VectorOf(*place), DenseAddress(*place, i), llvm::Align(1), mask,
                llvm::Constant::getNullValue(VectorOf(*place))));
      }
      CopyElements(buffered, i, left);
      for (Place* place : buffered)
        part.emplace_back(place, FromBuffer(*place));
      from_part = b_.GetInsertBlock();
    };
    EitherWay(is_full, load_whole, load_part);
    for (size_t k = 0; k < whole.size(); ++k) {
      llvm::PHINode* const phi = b_.CreatePHI(whole[k].second->getType(), 2);
      phi->addIncoming(whole[k].second, from_whole);
      phi->addIncoming(part[k].second, from_part);
      whole[k].first->in_memory = phi;
    }
  }

  void Store(Value* i, Value* left, Value* is_full) {
    const Places masked = Dense(results_, false);
    const Places buffered = Dense(results_, true);
    if (masked.empty() && buffered.empty()) return;
    const auto store_whole = [&] {
      for (const Places* places : {&masked, &buffered}) {
        for (Place* place : *places) {
          b_.CreateAlignedStore(place->in_memory, DenseAddress(*place, i),
                                llvm::Align(1));
        }
      }
    };
    const auto store_part = [&] {
      for (Place* place : masked) {
        b_.CreateMaskedStore(
            place->in_memory, DenseAddress(*place, i), llvm::Align(1),
            PartMask(PartialOf(w_.level, place->array.dtype), left));
      }
      for (Place* place : buffered) ToBuffer(*place);
      CopyElements(buffered, i, left);
    };
    EitherWay(is_full, store_whole, store_part);
  }

  // What an instruction has made, as it is computed with: `exact` isn't rounded
  // to 16 bits yet.
  struct Made {
    Value* exact = nullptr;
    Value* rounded = nullptr;
    DType dtype = DType::kF32;
    Nans nans = Nans::kAny;
  };

  // What the processor makes of no nans is short, and of short ones, too; those
  // of f16 have three bits more.
  Nans NansOf(const RegionCode::Instruction& instruction,
              const std::vector<Made>& made) const {
    for (const RegionCode::Ref& ref : instruction.operands) {
      if (ref.kind == Kind::kNumber) continue;
      const bool is_operand = ref.kind == Kind::kOperand;
      const DType dtype =
          is_operand ? operands_[ref.index].array.dtype : made[ref.index].dtype;
      if (!IsFloating(dtype) || dtype == DType::kBF16) continue;
      if (is_operand || made[ref.index].nans == Nans::kAny) return Nans::kAny;
    }
    return Nans::kShort;
  }

  // Whether an operator's result is one of its operands but for the sign, or
  // the whole number beside it: what 16 bits held they hold still.
  static bool KeepsBits(RegionOpId op) {
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

  // Whether an instruction of 16 bits needs no rounding.
  bool IsExact(const RegionCode::Instruction& instruction,
               const std::vector<Made>& made) const {
    if (!IsHalf(instruction.dtype) || !KeepsBits(instruction.op->id)) {
      return false;
    }
    for (size_t k = 0; k < instruction.operands.size(); ++k) {
      const RegionCode::Ref& ref = instruction.operands[k];
      if (instruction.operand_dtype(static_cast<int>(k)) == DType::kBool) {
        continue;
      }
      if (ref.kind == Kind::kNumber) {
        if (RoundedTo(instruction.dtype, ref.number) != ref.number) {
          return false;
        }
        continue;
      }
      const DType dtype = ref.kind == Kind::kOperand
                              ? operands_[ref.index].array.dtype
                              : made[ref.index].dtype;
      if (dtype != instruction.dtype) return false;
    }
    return true;
  }

  void Compute() {
    std::vector<Made> made;
    for (const auto& instruction : signature_.code.instructions) {
      std::vector<Value*> operands;
      for (size_t k = 0; k < instruction.operands.size(); ++k) {
        operands.push_back(
            OperandLanes(instruction.operands[k], made,
                         instruction.operand_dtype(static_cast<int>(k))));
      }
      Made result = {.dtype = instruction.result_dtype()};
      result.exact =
          Apply(instruction.op->id, ComputeDType(instruction.dtype), operands);
      result.nans = NansOf(instruction, made);
      result.rounded = IsExact(instruction, made)
                           ? result.exact
                           : Round(result.exact, result.dtype, result.nans);
      made.push_back(result);
    }
    for (size_t k = 0; k < results_.size(); ++k) {
      if (!results_[k].array.is_used) continue;
      const Made& result = made[signature_.code.results[k]];
      const DType to = results_[k].array.dtype;
      results_[k].in_memory =
          to == result.dtype
              ? Narrow(result.exact, to, result.nans)
              : Narrow(Convert(result.rounded, ComputeDType(result.dtype),
                               ComputeDType(to)),
                       to, result.nans);
    }
  }

  Value* OperandLanes(const RegionCode::Ref& ref, const std::vector<Made>& made,
                      DType dtype) {
    if (ref.kind == Kind::kNumber) return NumberLanes(ref.number, dtype);
    if (ref.kind == Kind::kInstruction) {
      const Made& from = made[ref.index];
      return Convert(from.rounded, ComputeDType(from.dtype), dtype);
    }
    const Place& place = operands_[ref.index];
    return Convert(Widen(place.in_memory, place.array.dtype),
                   ComputeDType(place.array.dtype), dtype);
  }

  const Signature& signature_;
  llvm::Function* const function_;
  Writer& w_;
  llvm::IRBuilder<>& b_;
  Value* at_ = nullptr;
  Value* row_steps_ = nullptr;
  Value* steps_ = nullptr;
  Value* rows_ = nullptr;
  Value* n_ = nullptr;
  std::vector<Place> operands_, results_;
};

}  // namespace

llvm::Function* Emit(const Signature& signature, Level level,
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
                .level = level};
  Writer::here = &writer;
  Emitter(signature, function, writer).Run();
  Writer::here = nullptr;
  return function;
}

}  // namespace mica::region::ir
