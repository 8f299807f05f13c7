#include <vector>

#include "absl/strings/str_cat.h"
#include "analysis/memory/lifetime.h"
#include "analysis/plan/planner.h"
#include "framework/tensor/tensor.h"

namespace mica {
absl::Status Planner::TakeOffsets() {
  const auto damaged = [](absl::string_view what) {
    return absl::DataLossError(absl::StrCat("a stored Plan's ", what));
  };
  if (choices_->args.size() != arg_slices_.size()) return damaged("addresses");
  plan_->arena_bytes_ = choices_->arena_bytes;
  plan_->live_set_bytes_ = choices_->live_set_bytes;
  if (plan_->live_set_bytes_ < 0 || plan_->arena_bytes_ < 0 ||
      plan_->arena_bytes_ > kMaxTensorBytes) {
    return damaged("arena");
  }
  std::vector<int64_t> offsets(slices_.size(), -1);
  for (size_t i = 0; i < arg_slices_.size(); ++i) {
    Location& location = plan_->args_[i];
    const Location& stored = choices_->args[i];
    if (const SliceId slice = arg_slices_[i]; slice >= 0) {
      int64_t& offset = offsets[slice];
      const int64_t begin = stored.offset - location.offset;
      if (offset < 0) offset = begin;
      const bool fits = offset == begin && begin >= 0 &&
                        begin % kBufferAlignment == 0 &&
                        slices_[slice].bytes <= plan_->arena_bytes_ - begin;
      if (!fits) return damaged("offsets");
      location.offset = stored.offset;
    }
    if (!(location == stored)) return damaged("addresses");
  }
  NoteSlices(offsets);
  // What no step names takes no bytes.
  std::vector<Lifetime> used(slices_.begin(), slices_.end());
  for (size_t i = 0; i < used.size(); ++i) {
    if (offsets[i] >= 0) continue;
    used[i].bytes = 0;
    offsets[i] = 0;
  }
  if (!CheckOffsets(used, offsets, plan_->arena_bytes_, kBufferAlignment)
           .ok()) {
    return damaged("slices overlap");
  }
  return absl::OkStatus();
}

}  // namespace mica
