#include "executor/job/queue_run.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "executor/job/await.h"
#include "kernels/cpu/team_size.h"

namespace mica {
namespace {

constexpr int32_t kNone = std::numeric_limits<int32_t>::max();  // No rank.

// A worker waits for a step's end, which is sooner than the next run.
constexpr int kPatience = 10;

void Push(std::vector<int32_t>& heap, int32_t rank) {
  heap.push_back(rank);
  std::push_heap(heap.begin(), heap.end(), std::greater<>());
}

int32_t PopLowest(std::vector<int32_t>& heap) {
  std::pop_heap(heap.begin(), heap.end(), std::greater<>());
  const int32_t rank = heap.back();
  heap.pop_back();
  return rank;
}

}  // namespace

QueueRun::QueueRun(const QueuePlan& plan, std::shared_ptr<Helpers> helpers)
    : plan_(plan),
      helpers_(std::move(helpers)),
      step_of_rank_(plan.num_steps()),
      num_before_(new std::atomic<int32_t>[plan.num_steps()]) {
  for (StepId step = 0; step < plan.num_steps(); ++step) {
    step_of_rank_[plan.ranks[step]] = step;
  }
  for (int i = 0; i <= helpers_->size(); ++i) {
    workers_.push_back(std::make_unique<Worker>());
    workers_.back()->queue = this;
  }
}

void QueueRun::Reset() {
  ready_for_caller_.clear();
  for (const auto& worker : workers_) worker->ready.clear();
  for (StepId step = 0; step < plan_.num_steps(); ++step) {
    num_before_[step].store(plan_.num_before[step], std::memory_order_relaxed);
    if (plan_.num_before[step] > 0) continue;
    Push(plan_.is_on_caller[step] ? ready_for_caller_ : workers_[0]->ready,
         plan_.ranks[step]);
  }
  num_left_.store(plan_.num_steps(), std::memory_order_relaxed);
}

absl::Status QueueRun::Run(Launch launch, Outcome& outcome) {
  Reset();
  const cpu::TeamSize one(1);
  helpers_->Run([&](int worker) { Work(worker, launch, outcome); });
  return outcome.status();
}

void QueueRun::Work(int worker, Launch launch, Outcome& outcome) {
  const cpu::TeamScope team(workers_[worker].get());
  StepId step = Take(worker);
  while (true) {
    const uint32_t seen = news_.load(std::memory_order_acquire);
    if (outcome.must_end()) {
      TellOthers();
      return;
    }
    // What came before `seen` was read.
    if (step < 0) step = Take(worker);
    if (step < 0) {
      if (num_left_.load(std::memory_order_acquire) == 0) return;
      if (!HelpOthers(worker))
        AwaitChange(news_, seen, kPatience * helpers_->spins());
      continue;
    }
    absl::Status status = launch(step, worker);
    if (!status.ok()) {
      outcome.Fail(std::move(status));
      continue;
    }
    step = TakeAfter(step, worker);
  }
}

StepId QueueRun::TakeAfter(StepId ended, int worker) {
  int32_t next = kNone;
  bool has_news = false;
  {
    const std::lock_guard lock(mutex_);
    if (ended >= 0) next = Release(ended, worker);
    if (next == kNone) next = Pop(worker);
    has_news = ended >= 0 && HasWorkForOthers(worker);
  }
  if (has_news) TellOthers();
  return next == kNone ? -1 : step_of_rank_[next];
}

int32_t QueueRun::Release(StepId ended, int worker) {
  int32_t first = kNone;
  for (StepId step : plan_.after(ended)) {
    if (num_before_[step].fetch_sub(1, std::memory_order_relaxed) > 1) continue;
    int32_t rank = plan_.ranks[step];
    if (plan_.is_on_caller[step]) {
      Push(ready_for_caller_, rank);
      continue;
    }
    if (rank < first) std::swap(rank, first);
    if (rank != kNone) Push(workers_[worker]->ready, rank);
  }
  num_left_.fetch_sub(1, std::memory_order_release);
  return first;
}

int32_t QueueRun::Pop(int worker) {
  std::vector<int32_t>* best = &workers_[worker]->ready;
  if (best->empty()) {
    for (const auto& other : workers_) {
      if (!other->ready.empty() &&
          (best->empty() || other->ready.front() < best->front())) {
        best = &other->ready;
      }
    }
  }
  if (worker == 0 && !ready_for_caller_.empty() &&
      (best->empty() || ready_for_caller_.front() < best->front())) {
    best = &ready_for_caller_;
  }
  return best->empty() ? kNone : PopLowest(*best);
}

bool QueueRun::HasWorkForOthers(int worker) const {
  if (num_left_.load(std::memory_order_relaxed) == 0) return true;
  if (worker != 0 && !ready_for_caller_.empty()) return true;
  return std::any_of(workers_.begin(), workers_.end(),
                     [](const auto& other) { return !other->ready.empty(); });
}

bool QueueRun::HelpOthers(int worker) {
  bool has_helped = false;
  for (size_t i = 0; i < workers_.size(); ++i) {
    if (static_cast<int>(i) != worker) {
      has_helped = workers_[i]->Help() || has_helped;
    }
  }
  return has_helped;
}

void QueueRun::WakeAll() {
  news_.fetch_add(1, std::memory_order_release);
  news_.notify_all();
}

void QueueRun::Worker::Run(int num_pieces, PieceFn run, const void* state) {
  run_ = run;
  state_ = state;
  num_pieces_ = num_pieces;
  next_piece_.store(0, std::memory_order_relaxed);
  door_.Open();
  queue->TellOthers();
  {
    // A piece is for one thread.
    const cpu::TeamScope alone(cpu::TeamOfOne());
    RunPieces();
  }
  door_.Close();
}

bool QueueRun::Worker::Help() {
  if (!door_.Enter()) return false;
  const bool is_of_use =
      next_piece_.load(std::memory_order_relaxed) < num_pieces_;
  if (is_of_use) {
    const cpu::TeamScope alone(cpu::TeamOfOne());
    RunPieces();
  }
  door_.Leave();
  return is_of_use;
}

void QueueRun::Worker::RunPieces() {
  for (int i = next_piece_.fetch_add(1, std::memory_order_relaxed);
       i < num_pieces_;
       i = next_piece_.fetch_add(1, std::memory_order_relaxed)) {
    run_(state_, i);
  }
}

}  // namespace mica
