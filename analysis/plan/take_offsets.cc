#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analysis/plan/planner.h"
#include "framework/tensor/tensor.h"

namespace mica {
namespace {

// False if two slices that are alive at once overlap in bytes.
bool AreApart(absl::Span<const Lifetime> slices,
              absl::Span<const int64_t> offsets) {
  // Events in order of time: at one step slices begin before others end.
  std::vector<std::pair<int64_t, size_t>> events;
  for (size_t i = 0; i < slices.size(); ++i) {
    if (slices[i].bytes == 0) continue;
    events.emplace_back(int64_t{slices[i].first} * 2, i);
    events.emplace_back(int64_t{slices[i].last} * 2 + 1, i);
  }
  std::sort(events.begin(), events.end());
  std::map<int64_t, int64_t> alive;  // From first byte to the one after the
                                     // last.
  for (const auto& [time, slice] : events) {
    const int64_t begin = offsets[slice];
    if (time % 2 != 0) {
      alive.erase(begin);
      continue;
    }
    const int64_t end = begin + slices[slice].bytes;
    const auto next = alive.lower_bound(begin);
    if (next != alive.end() && next->first < end) return false;
    if (next != alive.begin() && std::prev(next)->second > begin) return false;
    alive.emplace(begin, end);
  }
  return true;
}

}  // namespace

absl::Status Planner::TakeOffsets() {
  const auto damaged = [](absl::string_view what) {
    return absl::DataLossError(absl::StrCat("a stored Plan's ", what));
  };
  if (choices_->args.size() != args_.size()) return damaged("addresses");
  plan_->arena_bytes_ = choices_->arena_bytes;
  plan_->live_set_bytes_ = choices_->live_set_bytes;
  if (plan_->live_set_bytes_ < 0 || plan_->arena_bytes_ < 0 ||
      plan_->arena_bytes_ > kMaxTensorBytes) {
    return damaged("arena");
  }
  std::vector<int64_t> offsets(slices_.size(), -1);
  for (size_t i = 0; i < args_.size(); ++i) {
    Place& place = args_[i];
    const Location& stored = choices_->args[i];
    if (place.slice >= 0) {
      int64_t& offset = offsets[place.slice];
      const int64_t begin = stored.offset - place.location.offset;
      if (offset < 0) offset = begin;
      const bool fits =
          offset == begin && begin >= 0 && begin % kBufferAlignment == 0 &&
          slices_[place.slice].bytes <= plan_->arena_bytes_ - begin;
      if (!fits) return damaged("offsets");
      place.location.offset = stored.offset;
    }
    if (!(place.location == stored)) return damaged("addresses");
    if (place.location.home == Home::kFolded) {
      plan_->folded_[place.location.index].is_read = true;
    }
    plan_->args_.push_back(place.location);
  }
  // What no step names takes no bytes.
  std::vector<Lifetime> used(slices_.begin(), slices_.end());
  for (size_t i = 0; i < used.size(); ++i) {
    if (offsets[i] < 0) used[i].bytes = 0;
  }
  if (!AreApart(used, offsets)) return damaged("slices overlap");
  return absl::OkStatus();
}

}  // namespace mica
