#include "kernels/llvm/row_vectors.h"

#include <cstddef>
#include <utility>

#include "kernels/llvm/conversions.h"
#include "llvm/IR/MDBuilder.h"

namespace mica::region::ir {
namespace {

using llvm::BasicBlock;
using llvm::Value;

// How the last vector of a row is read and written.
enum class Partial : uint8_t { kBitMask, kLaneMask, kBuffer };

Partial PartialOf(Level level, DType dtype) {
  if (level == Level::kV4) return Partial::kBitMask;
  if (level == Level::kV3 && ElementBytes(dtype) >= 4) {
    return Partial::kLaneMask;
  }
  return Partial::kBuffer;
}

// The first `left` lanes.
Value* PartMask(Partial partial, Value* left) {
  llvm::IRBuilder<>& b = B();
  const int lanes = W().lanes;
  if (partial == Partial::kBitMask) {
    llvm::Type* const bits = b.getIntNTy(static_cast<unsigned>(lanes));
    Value* const one = llvm::ConstantInt::get(bits, 1);
    Value* const ones =
        b.CreateSub(b.CreateShl(one, b.CreateZExtOrTrunc(left, bits)), one);
    return b.CreateBitCast(ones, W().IntVector(1));
  }
  std::vector<llvm::Constant*> numbers;
  for (int lane = 0; lane < lanes; ++lane) numbers.push_back(b.getInt32(lane));
  Value* const all =
      b.CreateVectorSplat(lanes, b.CreateTrunc(left, b.getInt32Ty()));
  return b.CreateICmpULT(llvm::ConstantVector::get(numbers), all);
}

// The `index`th word of an array of pointers or integers.
Value* Entry(Value* words, int index, llvm::Type* type) {
  return B().CreateLoad(type, B().CreateConstGEP1_64(type, words, index));
}

}  // namespace

RowVectors::RowVectors(const Signature& signature, llvm::Function* function,
                       Writer& writer)
    : function_(function), w_(writer), b_(writer.b) {
  const auto field = [&](size_t offset, llvm::Type* type) {
    return b_.CreateLoad(
        type, b_.CreateConstGEP1_64(b_.getInt8Ty(), function->getArg(0),
                                    static_cast<uint64_t>(offset)));
  };
  at_ = field(offsetof(RegionRows, at), b_.getPtrTy());
  row_steps_ = field(offsetof(RegionRows, row_steps), b_.getPtrTy());
  steps_ = field(offsetof(RegionRows, steps), b_.getPtrTy());
  rows_ = field(offsetof(RegionRows, rows), b_.getInt64Ty());
  n_ = field(offsetof(RegionRows, n), b_.getInt64Ty());
  AddOperands(signature);
  AddResults(signature);
}

void RowVectors::AddOperands(const Signature& signature) {
  std::vector<bool> is_read(signature.operands.size(), false);
  for (const auto& instruction : signature.code.instructions) {
    for (const RegionCode::Ref& ref : instruction.operands) {
      if (ref.kind == RegionCode::Ref::Kind::kOperand) {
        is_read[ref.index] = true;
      }
    }
  }
  for (size_t i = 0; i < signature.operands.size(); ++i) {
    Place place = {.array = signature.operands[i],
                   .index = static_cast<int>(i)};
    place.array.is_used = is_read[i];
    if (is_read[i]) AddBuffer(place);
    operands_.push_back(place);
  }
}

void RowVectors::AddResults(const Signature& signature) {
  for (size_t i = 0; i < signature.results.size(); ++i) {
    Place place = {.array = signature.results[i],
                   .index = static_cast<int>(signature.operands.size() + i),
                   .is_result = true};
    if (place.array.is_used) AddBuffer(place);
    results_.push_back(place);
  }
}

void RowVectors::AddBuffer(Place& place) {
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

RowVectors::Places RowVectors::Dense(std::vector<Place>& from, bool by_buffer) {
  Places places;
  for (Place& place : from) {
    if (!place.array.is_used || !place.is_dense()) continue;
    if ((place.buffer != nullptr) == by_buffer) places.push_back(&place);
  }
  return places;
}

RowVectors::Places RowVectors::Strided(std::vector<Place>& from) {
  Places places;
  for (Place& place : from) {
    if (place.buffer != nullptr && !place.is_dense()) places.push_back(&place);
  }
  return places;
}

llvm::Type* RowVectors::VectorOf(const Place& place) const {
  return w_.Vector(MemoryType(place.array.dtype));
}

Value* RowVectors::DenseAddress(const Place& place, Value* i) {
  return b_.CreateGEP(MemoryType(place.array.dtype), place.base, i);
}

Value* RowVectors::WholeVector(const Place& place, Value* i) {
  return b_.CreateAlignedLoad(VectorOf(place), DenseAddress(place, i),
                              llvm::Align(1));
}

Value* RowVectors::MaskedVector(const Place& place, Value* i) {
  Value* const mask = PartMask(PartialOf(w_.level, place.array.dtype), left_);
  return b_.CreateMaskedLoad(VectorOf(place), DenseAddress(place, i),
                             llvm::Align(1), mask,
                             llvm::Constant::getNullValue(VectorOf(place)));
}

Value* RowVectors::FromBuffer(const Place& place) {
  return b_.CreateAlignedLoad(VectorOf(place), place.buffer, llvm::Align(64));
}

void RowVectors::ToBuffer(const Place& place) {
  b_.CreateAlignedStore(place.in_memory, place.buffer, llvm::Align(64));
}

void RowVectors::CopyElements(const Places& places, Value* i, Value* count) {
  if (places.empty()) return;
  BasicBlock* const before = b_.GetInsertBlock();
  BasicBlock* const copy = w_.Block("copy");
  BasicBlock* const copied = w_.Block("copied");
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
    b_.CreateAlignedStore(b_.CreateAlignedLoad(type, from, llvm::Align(1)), to,
                          llvm::Align(1));
  }
  Value* const next = b_.CreateAdd(j, b_.getInt64(1));
  j->addIncoming(next, copy);
  b_.CreateCondBr(b_.CreateICmpSLT(next, count), copy, copied);
  b_.SetInsertPoint(copied);
}

void RowVectors::EitherWay(const std::function<void()>& full,
                           const std::function<void()>& part) {
  BasicBlock* const full_block = w_.Block("full");
  BasicBlock* const part_block = w_.Block("part");
  BasicBlock* const both = w_.Block("both");
  b_.CreateCondBr(is_full_, full_block, part_block,
                  llvm::MDBuilder(b_.getContext()).createLikelyBranchWeights());
  b_.SetInsertPoint(full_block);
  full();
  b_.CreateBr(both);
  b_.SetInsertPoint(part_block);
  part();
  b_.CreateBr(both);
  b_.SetInsertPoint(both);
}

void RowVectors::StartRow(Value* row) {
  for (auto* places : {&operands_, &results_}) {
    for (Place& place : *places) {
      if (!place.array.is_used) continue;
      Value* const first = Entry(at_, place.index, b_.getPtrTy());
      Value* const step = Entry(row_steps_, place.index, b_.getInt64Ty());
      place.base = b_.CreateGEP(b_.getInt8Ty(), first, b_.CreateMul(row, step));
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

void RowVectors::Load(Value* i) {
  left_ = b_.CreateSub(n_, i);
  Value* const lanes = b_.getInt64(w_.lanes);
  is_full_ = b_.CreateICmpSGE(left_, lanes);
  const Places strided = Strided(operands_);
  if (!strided.empty() || !Strided(results_).empty()) {
    count_ = b_.CreateSelect(is_full_, lanes, left_);
  }
  CopyElements(strided, i, count_);
  for (Place* place : strided) place->in_memory = FromBuffer(*place);

  const Places masked = Dense(operands_, false);
  const Places buffered = Dense(operands_, true);
  if (masked.empty() && buffered.empty()) return;
  std::vector<std::pair<Place*, Value*>> whole, part;
  BasicBlock* from_whole = nullptr;
  BasicBlock* from_part = nullptr;
  const auto load_whole = [&] {
    for (const Places* places : {&masked, &buffered}) {
      for (Place* place : *places) {
        whole.emplace_back(place, WholeVector(*place, i));
      }
    }
    from_whole = b_.GetInsertBlock();
  };
  const auto load_part = [&] {
    for (Place* place : masked) {
      part.emplace_back(place, MaskedVector(*place, i));
    }
    CopyElements(buffered, i, left_);
    for (Place* place : buffered) part.emplace_back(place, FromBuffer(*place));
    from_part = b_.GetInsertBlock();
  };
  EitherWay(load_whole, load_part);
  for (size_t k = 0; k < whole.size(); ++k) {
    llvm::PHINode* const phi = b_.CreatePHI(whole[k].second->getType(), 2);
    phi->addIncoming(whole[k].second, from_whole);
    phi->addIncoming(part[k].second, from_part);
    whole[k].first->in_memory = phi;
  }
}

void RowVectors::Store(Value* i) {
  const Places masked = Dense(results_, false);
  const Places buffered = Dense(results_, true);
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
          PartMask(PartialOf(w_.level, place->array.dtype), left_));
    }
    for (Place* place : buffered) ToBuffer(*place);
    CopyElements(buffered, i, left_);
  };
  if (!masked.empty() || !buffered.empty()) EitherWay(store_whole, store_part);
  const Places strided = Strided(results_);
  for (Place* place : strided) ToBuffer(*place);
  CopyElements(strided, i, count_);
}

}  // namespace mica::region::ir
