// How a run ends.

#ifndef MICA_EXECUTOR_JOB_OUTCOME_H_
#define MICA_EXECUTOR_JOB_OUTCOME_H_

#include <atomic>
#include <functional>
#include <mutex>
#include <utility>

#include "absl/status/status.h"

namespace mica {

// Somebody outside who may want a run to end.
struct Interrupt {
  // Not 0 when it is to be asked; null for nobody.
  const std::atomic<int>* flag = nullptr;
  // Called between steps, on each thread that runs some; an error ends the run.
  absl::Status (*ask)() = nullptr;
};

// The first error of a run; the others are dropped. Thread-safe but for the
// setters, which are for before the run.
class Outcome {
 public:
  void set_interrupt(const Interrupt& interrupt) {
    if (interrupt.flag != nullptr) interrupt_ = interrupt;
  }
  // Called when an asked thread had nothing against the run going on, so that
  // another one of the run, which may sleep, looks at must_end(), too.
  void set_wake(std::function<void()> wake) { wake_ = std::move(wake); }
  bool is_interruptible() const { return interrupt_.ask != nullptr; }

  void Reset() {
    if (!has_failed()) return;
    const std::lock_guard lock(mutex_);
    status_ = absl::OkStatus();
    has_failed_.store(false, std::memory_order_release);
  }
  void Fail(absl::Status status) {
    const std::lock_guard lock(mutex_);
    if (!status_.ok()) return;
    status_ = std::move(status);
    has_failed_.store(true, std::memory_order_release);
  }
  bool has_failed() const {
    return has_failed_.load(std::memory_order_acquire);
  }
  // Whether no further step may start. For between steps.
  bool must_end() {
    if (interrupt_.flag->load(std::memory_order_relaxed) != 0) Ask();
    return has_failed();
  }
  absl::Status status() const {
    if (!has_failed()) return absl::OkStatus();
    const std::lock_guard lock(mutex_);
    return status_;
  }

 private:
  void Ask() {
    absl::Status status = interrupt_.ask();
    if (!status.ok()) Fail(std::move(status));
    if (wake_ != nullptr) wake_();
  }

  static inline const std::atomic<int> kNever = 0;

  Interrupt interrupt_ = {.flag = &kNever};
  std::function<void()> wake_;
  std::atomic<bool> has_failed_ = false;
  mutable std::mutex mutex_;
  absl::Status status_;  // Of the mutex.
};

}  // namespace mica

#endif  // MICA_EXECUTOR_JOB_OUTCOME_H_
