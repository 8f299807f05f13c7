// A Plan's steps by workers that take them from a queue.

#ifndef MICA_EXECUTOR_JOB_QUEUE_RUN_H_
#define MICA_EXECUTOR_JOB_QUEUE_RUN_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "analysis/plan/plan.h"
#include "analysis/streams/queue_plan.h"
#include "executor/job/door.h"
#include "executor/job/helpers.h"
#include "executor/job/outcome.h"
#include "kernels/cpu/team.h"

namespace mica {

// Runs steps as a QueuePlan says: on the caller, and on helpers as long as
// they are free. A worker without a step helps with the pieces of one that is
// under way, so that wide steps use all workers and narrow ones run side by
// side, and no more threads are at work than there are workers. What is
// computed doesn't depend on who does it.
//
// Single-thread.
class QueueRun {
 public:
  // Runs a step on worker `worker`, 0 for the caller.
  using Launch = absl::FunctionRef<absl::Status(StepId step, int worker)>;

  // `plan` must outlive it.
  QueueRun(const QueuePlan& plan, std::shared_ptr<Helpers> helpers);

  int num_workers() const { return static_cast<int>(workers_.size()); }

  // The first error wins, and no further step starts after it. `outcome` may
  // fail meanwhile from elsewhere, which ends the run as well.
  absl::Status Run(Launch launch, Outcome& outcome);

  // Makes workers that sleep look at the outcome. Any thread.
  void WakeAll();

  // Steps that haven't ended, while a run is under way or after one that has
  // failed: how many others each still waits for. Any thread.
  int32_t num_awaited(StepId step) const {
    return num_before_[step].load(std::memory_order_relaxed);
  }

 private:
  // One worker's step, cut into pieces, with a door for those who help.
  class alignas(64) Worker : public cpu::Team {
   public:
    void Run(int num_pieces, PieceFn run, const void* state) override;
    // Runs pieces of the step under way, if there are any.
    bool Help();
    QueueRun* queue = nullptr;
    // A heap of ranks, lowest first: steps that ended last what they read here.
    // Of the queue's mutex.
    std::vector<int32_t> ready;

   private:
    void RunPieces();
    Door door_;  // To the following.
    PieceFn run_ = nullptr;
    const void* state_ = nullptr;
    int num_pieces_ = 0;
    std::atomic<int> next_piece_ = 0;
  };

  void Reset();
  void Work(int worker, Launch launch, Outcome& outcome);
  // The most urgent step that may start; -1 if there is none for this worker.
  StepId Take(int worker) { return TakeAfter(-1, worker); }
  // The same when `ended` has ended: what reads its results, while they are in
  // this core's caches, before what else is ready here, before others'.
  StepId TakeAfter(StepId ended, int worker);
  // Ranks, with the mutex. The most urgent that waited for `ended` alone by
  // now; the others of them are made ready.
  int32_t Release(StepId ended, int worker);
  int32_t Pop(int worker);
  bool HasWorkForOthers(int worker) const;
  bool HelpOthers(int worker);
  void TellOthers() { WakeAll(); }

  const QueuePlan& plan_;
  const std::shared_ptr<Helpers> helpers_;
  std::vector<StepId> step_of_rank_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::unique_ptr<std::atomic<int32_t>[]> num_before_;

  // Goes up with each change that somebody may wait for.
  std::atomic<uint32_t> news_ = 0;
  std::atomic<int32_t> num_left_ = 0;
  std::mutex mutex_;  // Of the following, and of the workers' heaps.
  std::vector<int32_t> ready_for_caller_;  // A heap like theirs.
};

}  // namespace mica

#endif  // MICA_EXECUTOR_JOB_QUEUE_RUN_H_
