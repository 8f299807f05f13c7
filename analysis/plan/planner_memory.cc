// Where slices lie: in outputs, in what these lend, in the arena.

#include <utility>
#include <vector>

#include "analysis/memory/lending.h"
#include "analysis/plan/planner.h"
#include "framework/tensor/tensor.h"

namespace mica {

void Planner::NoteWrite(const Location& location, StepId step) {
  if (location.home != Home::kOutput) return;
  StepId& first = first_writes_[location.index];
  if (first < 0 || step < first) first = step;
}

void Planner::MoveToOutputs() {
  if (output_slices_.empty()) return;
  constexpr int32_t kInArena = -1;
  LargeVector<int32_t> output_of(slices_.size(), kInArena);
  for (const auto& [slice, output] : output_slices_) output_of[slice] = output;
  for (size_t i = 0; i < arg_slices_.size(); ++i) {
    const SliceId slice = arg_slices_[i];
    if (slice < 0 || output_of[slice] == kInArena) continue;
    Location& location = plan_->args_[i];
    location = {.home = Home::kOutput,
                .index = output_of[slice],
                .offset = location.offset};
    arg_slices_[i] = -1;
    NoteWrite(location, slices_[slice].first);
  }
  // No step names them any more.
  for (const auto& [slice, output] : output_slices_) slices_[slice] = {};
}

void Planner::LendOutputs() {
  std::vector<Lender> lenders;
  for (size_t i = 0; i < program().outputs().size(); ++i) {
    lenders.push_back(
        {.bytes = plan_->output_type(static_cast<int>(i)).extent_bytes(),
         .first_write = current_step()});
  }
  for (size_t i = 0; i < first_writes_.size(); ++i) {
    if (first_writes_[i] >= 0) lenders[i].first_write = first_writes_[i];
  }
  const std::vector<Loan> loans =
      LendMemory(slices_, lenders, options_.lend_above_bytes);
  if (loans.empty()) return;
  const auto at = [&](SliceId slice, int64_t offset) -> Location {
    return {.home = Home::kOutput,
            .index = loans[slice].lender,
            .offset = loans[slice].offset + offset};
  };
  for (size_t i = 0; i < arg_slices_.size(); ++i) {
    const SliceId slice = arg_slices_[i];
    if (slice < 0 || loans[slice].lender < 0) continue;
    plan_->args_[i] = at(slice, plan_->args_[i].offset);
    arg_slices_[i] = -1;
  }
  for (SliceId i = 0; i < static_cast<SliceId>(slices_.size()); ++i) {
    if (loans[i].lender < 0) continue;
    lent_.push_back({i,
                     {.first = slices_[i].first,
                      .last = slices_[i].last,
                      .at = at(i, 0),
                      .bytes = slices_[i].bytes}});
    slices_[i].bytes = 0;
  }
}

void Planner::NoteSlices(absl::Span<const int64_t> offsets) {
  plan_->slices_.reserve(slices_.size());
  for (size_t i = 0; i < slices_.size(); ++i) {
    PlanSlice slice{.first = slices_[i].first,
                    .last = slices_[i].last,
                    .bytes = slices_[i].bytes};
    if (offsets[i] >= 0) {
      slice.at = {.home = Home::kArena, .offset = offsets[i]};
    }
    plan_->slices_.push_back(slice);
  }
  for (const auto& [id, slice] : lent_) plan_->slices_[id] = slice;
}

// Large slices of whole pages, one behind the other, would have equal elements
// in the same sets of the caches: two matrices that are gone through by columns
// drive each other out. A line between them is enough.
void Planner::SpreadOverCacheSets() {
  constexpr int64_t kLarge = int64_t{64} << 10, kPage = 4096, kLine = 64;
  for (Lifetime& slice : slices_) {
    if (slice.bytes >= kLarge && AlignUp(slice.bytes) % kPage == 0) {
      slice.bytes = AlignUp(slice.bytes) + kLine;
    }
  }
}

void Planner::AssignOffsets() {
  SpreadOverCacheSets();
  const ArenaPlan arena = PlanArena(slices_);
  plan_->arena_bytes_ = arena.arena_bytes;
  plan_->live_set_bytes_ = arena.live_set_bytes;
  for (size_t i = 0; i < arg_slices_.size(); ++i) {
    const SliceId slice = arg_slices_[i];
    if (slice >= 0) plan_->args_[i].offset += arena.offsets[slice];
  }
  NoteSlices(arena.offsets);
}

void Planner::MarkReadFolds() {
  if (plan_->folded_.empty()) return;
  for (const Location& location : plan_->args_) {
    if (location.home == Home::kFolded) {
      plan_->folded_[location.index].is_read = true;
    }
  }
}

}  // namespace mica
