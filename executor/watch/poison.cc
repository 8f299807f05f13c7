#include "executor/watch/poison.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace mica {
namespace {

constexpr int kPoison = 0xff;

// Where memory begins: whose, and at which byte.
std::tuple<Home, int32_t, int64_t> KeyOf(const Location& location) {
  return {location.home, location.home == Home::kArena ? 0 : location.index,
          location.offset};
}

// Bytes of a slice, from its start on, that a step touches.
struct Touch {
  StepId step = 0;
  int64_t begin = 0;
  int64_t end = 0;
};

// What each step touches, by slice.
std::vector<std::vector<Touch>> FindTouches(
    const Plan& plan, absl::Span<const PlanSlice> slices) {
  const size_t num_steps = plan.steps().size();
  std::vector<std::vector<int32_t>> births(num_steps), deaths(num_steps);
  for (size_t i = 0; i < slices.size(); ++i) {
    if (slices[i].bytes == 0) continue;
    births[slices[i].first].push_back(static_cast<int32_t>(i));
    deaths[slices[i].last].push_back(static_cast<int32_t>(i));
  }
  std::vector<std::vector<Touch>> touches(slices.size());
  std::map<std::tuple<Home, int32_t, int64_t>, int32_t> alive;
  for (size_t id = 0; id < num_steps; ++id) {
    for (int32_t slice : births[id]) alive[KeyOf(slices[slice].at)] = slice;
    const Step& step = plan.steps()[id];
    for (int32_t i = 0; i < step.num_args; ++i) {
      const Location& arg = plan.args()[step.first_arg + i];
      const auto next = alive.upper_bound(KeyOf(arg));
      if (next == alive.begin()) continue;
      const int32_t slice = std::prev(next)->second;
      const Location& at = slices[slice].at;
      const int64_t begin = arg.offset - at.offset;
      const bool is_inside =
          std::get<0>(KeyOf(arg)) == std::get<0>(KeyOf(at)) &&
          std::get<1>(KeyOf(arg)) == std::get<1>(KeyOf(at)) &&
          begin < slices[slice].bytes;
      if (!is_inside) continue;
      const int64_t bytes = plan.arg_bytes()[step.first_arg + i];
      touches[slice].push_back(
          {.step = static_cast<StepId>(id),
           .begin = begin,
           .end = std::min(begin + bytes, slices[slice].bytes)});
    }
    for (int32_t slice : deaths[id]) {
      const auto it = alive.find(KeyOf(slices[slice].at));
      if (it != alive.end() && it->second == slice) alive.erase(it);
    }
  }
  return touches;
}

}  // namespace

Poison::Poison(const Plan& plan, absl::Span<const PlanSlice> slices)
    : arena_bytes_(plan.arena_bytes()), touched_(plan.steps().size()) {
  const std::vector<std::vector<Touch>> touches = FindTouches(plan, slices);
  for (size_t i = 0; i < slices.size(); ++i) {
    std::set<int64_t> cuts;
    for (const Touch& touch : touches[i]) {
      cuts.insert(touch.begin);
      cuts.insert(touch.end);
    }
    for (auto cut = cuts.begin(); cut != cuts.end(); ++cut) {
      const auto next = std::next(cut);
      if (next == cuts.end()) break;
      Part part{.at = slices[i].at, .bytes = *next - *cut};
      part.at.offset += *cut;
      for (const Touch& touch : touches[i]) {
        if (touch.begin > *cut || touch.end < *next) continue;
        std::vector<int32_t>& touched = touched_[touch.step];
        const auto id = static_cast<int32_t>(parts_.size());
        if (!touched.empty() && touched.back() == id) continue;
        touched.push_back(id);
        ++part.num_steps;
      }
      if (part.num_steps > 0) parts_.push_back(std::move(part));
    }
  }
  num_left_.reset(new std::atomic<int32_t>[parts_.size()]);
}

void Poison::BeforeRun(const Job& job) {
  job_ = &job;
  num_deaths_ = 0;
  for (size_t i = 0; i < parts_.size(); ++i) {
    num_left_[i] = parts_[i].num_steps;
  }
  if (arena_bytes_ > 0) std::memset(job.arena(), kPoison, arena_bytes_);
}

void Poison::AfterStep(StepId step, int) {
  for (int32_t i : touched_[step]) {
    if (--num_left_[i] > 0) continue;
    const Part& part = parts_[i];
    void* base = part.at.home == Home::kArena ? job_->arena()
                                              : job_->output(part.at.index);
    std::memset(static_cast<char*>(base) + part.at.offset, kPoison, part.bytes);
    ++num_deaths_;
  }
}

}  // namespace mica
