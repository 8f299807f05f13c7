#include "executor/job/helpers.h"

#include "absl/strings/str_cat.h"
#include "executor/job/fork.h"
#include "framework/trace/recorder.h"
#include "glog/logging.h"
#include "kernels/cpu/team_size.h"

namespace mica {

Helpers::Helpers(int num_helpers, int spins)
    : spins_(spins), generation_(ForkGeneration()) {
  CHECK_GE(num_helpers, 0);
  for (int i = 1; i <= num_helpers; ++i) {
    threads_.emplace_back([this, i] { Help(i); });
  }
}

Helpers::~Helpers() {
  if (generation_ != ForkGeneration()) {
    // There is nobody to wait for.
    for (std::thread& thread : threads_) thread.detach();
    return;
  }
  is_over_.store(true, std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Helpers::Run(absl::FunctionRef<void(int)> work) {
  // The lock of a forked process may be held for good.
  if (threads_.empty() || generation_ != ForkGeneration() ||
      !busy_.try_lock()) {
    work(0);
    return;
  }
  const std::lock_guard lock(busy_, std::adopt_lock);
  work_ = &work;
  door_.Open();
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  work(0);
  door_.Close();
}

void Helpers::Help(int index) {
  NameThisThread(absl::StrCat("worker ", index));
  const cpu::TeamSize one(1);
  uint32_t seen = 0;
  while (true) {
    AwaitChange(round_, seen, spins_);
    seen = round_.load(std::memory_order_acquire);
    if (is_over_.load(std::memory_order_relaxed)) return;
    if (!door_.Enter()) continue;
    (*work_)(index);
    door_.Leave();
  }
}

}  // namespace mica
