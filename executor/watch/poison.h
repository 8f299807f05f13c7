// Checks that nothing is read after the plan says that it died.

#ifndef MICA_EXECUTOR_WATCH_POISON_H_
#define MICA_EXECUTOR_WATCH_POISON_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "analysis/plan/plan.h"
#include "executor/job/job.h"
#include "executor/job/step_observer.h"

namespace mica {

// Overwrites each slice of a Job's memory when the last step within its
// lifetime that touches it has ended, and the whole arena before each run, with
// bytes that are NaN in every floating type. What still reads a slice then, or
// never wrote it, gives other results than without.
//
// Works the same in launch order, on streams and with a queue: what may write
// the bytes next waits for all steps that touch the slice. One Job's.
class Poison : public StepObserver {
 public:
  explicit Poison(const Plan& plan) : Poison(plan, plan.slices()) {}
  // The same by other lifetimes, for tests.
  Poison(const Plan& plan, absl::Span<const PlanSlice> slices);

  void BeforeRun(const Job& job) override;
  void AfterStep(StepId step, int worker) override;

  // How many slices have died since BeforeRun().
  int64_t num_deaths() const { return num_deaths_; }

 private:
  const std::vector<PlanSlice> slices_;
  const int64_t arena_bytes_;
  std::vector<std::vector<int32_t>> touched_;  // Slices, by step.
  std::vector<int32_t> num_steps_;             // That touch a slice.
  std::unique_ptr<std::atomic<int32_t>[]> num_left_;
  std::atomic<int64_t> num_deaths_ = 0;
  const Job* job_ = nullptr;
};

}  // namespace mica

#endif  // MICA_EXECUTOR_WATCH_POISON_H_
