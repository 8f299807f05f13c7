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

// Overwrites bytes of each slice of a Job's memory when the last step within
// its lifetime that touches them has ended, and the whole arena before each
// run, with bytes that are NaN in every floating type. What still reads a slice
// then, or never wrote it, gives other results than without.
//
// Works the same in launch order, on streams and with a queue: what may write
// the bytes next waits for all steps that touch them. It needn't wait for steps
// that touch other bytes of the slice, so bytes die part by part. One Job's.
class Poison : public StepObserver {
 public:
  explicit Poison(const Plan& plan) : Poison(plan, plan.slices()) {}
  // The same by other lifetimes, for tests.
  Poison(const Plan& plan, absl::Span<const PlanSlice> slices);

  void BeforeRun(const Job& job) override;
  void AfterStep(StepId step, int worker) override;

  // How many parts of slices have died since BeforeRun().
  int64_t num_deaths() const { return num_deaths_; }

 private:
  // Bytes of one slice that the same steps touch.
  struct Part {
    Location at;
    int64_t bytes = 0;
    int32_t num_steps = 0;  // That touch it.
  };

  const int64_t arena_bytes_;
  std::vector<Part> parts_;
  std::vector<std::vector<int32_t>> touched_;  // Parts, by step.
  std::unique_ptr<std::atomic<int32_t>[]> num_left_;
  std::atomic<int64_t> num_deaths_ = 0;
  const Job* job_ = nullptr;
};

}  // namespace mica

#endif  // MICA_EXECUTOR_WATCH_POISON_H_
