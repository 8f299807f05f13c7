#include "executor/watch/poison.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>

namespace mica {
namespace {

constexpr int kPoison = 0xff;

// Where memory begins: whose, and at which byte.
std::tuple<Home, int32_t, int64_t> KeyOf(const Location& location) {
  return {location.home, location.home == Home::kArena ? 0 : location.index,
          location.offset};
}

}  // namespace

Poison::Poison(const Plan& plan, absl::Span<const PlanSlice> slices)
    : slices_(slices.begin(), slices.end()),
      arena_bytes_(plan.arena_bytes()),
      touched_(plan.steps().size()),
      num_steps_(slices.size(), 0),
      num_left_(new std::atomic<int32_t>[slices.size()]) {
  const size_t num_steps = plan.steps().size();
  std::vector<std::vector<int32_t>> births(num_steps), deaths(num_steps);
  for (size_t i = 0; i < slices_.size(); ++i) {
    if (slices_[i].bytes == 0) continue;
    births[slices_[i].first].push_back(static_cast<int32_t>(i));
    deaths[slices_[i].last].push_back(static_cast<int32_t>(i));
  }
  std::map<std::tuple<Home, int32_t, int64_t>, int32_t> alive;
  for (size_t id = 0; id < num_steps; ++id) {
    for (int32_t slice : births[id]) alive[KeyOf(slices_[slice].at)] = slice;
    const Step& step = plan.steps()[id];
    for (int32_t i = 0; i < step.num_args; ++i) {
      const Location& arg = plan.args()[step.first_arg + i];
      const auto next = alive.upper_bound(KeyOf(arg));
      if (next == alive.begin()) continue;
      const int32_t slice = std::prev(next)->second;
      const Location& at = slices_[slice].at;
      const bool is_inside =
          std::get<0>(KeyOf(arg)) == std::get<0>(KeyOf(at)) &&
          std::get<1>(KeyOf(arg)) == std::get<1>(KeyOf(at)) &&
          arg.offset < at.offset + slices_[slice].bytes;
      const auto& touched = touched_[id];
      if (!is_inside ||
          std::find(touched.begin(), touched.end(), slice) != touched.end()) {
        continue;
      }
      touched_[id].push_back(slice);
      ++num_steps_[slice];
    }
    for (int32_t slice : deaths[id]) {
      const auto it = alive.find(KeyOf(slices_[slice].at));
      if (it != alive.end() && it->second == slice) alive.erase(it);
    }
  }
}

void Poison::BeforeRun(const Job& job) {
  job_ = &job;
  num_deaths_ = 0;
  for (size_t i = 0; i < slices_.size(); ++i) num_left_[i] = num_steps_[i];
  if (arena_bytes_ > 0) std::memset(job.arena(), kPoison, arena_bytes_);
}

void Poison::AfterStep(StepId step, int) {
  for (int32_t i : touched_[step]) {
    if (--num_left_[i] > 0) continue;
    const PlanSlice& slice = slices_[i];
    void* base = slice.at.home == Home::kArena ? job_->arena()
                                               : job_->output(slice.at.index);
    std::memset(static_cast<char*>(base) + slice.at.offset, kPoison,
                slice.bytes);
    ++num_deaths_;
  }
}

}  // namespace mica
