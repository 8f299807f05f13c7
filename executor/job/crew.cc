#include "executor/job/crew.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "framework/trace/recorder.h"
#include "glog/logging.h"

namespace mica {

Crew::Crew(int size) : process_(getpid()) {
  CHECK_GE(size, 1);
  for (int i = 1; i < size; ++i) {
    threads_.emplace_back([this, i] { Work(i); });
  }
}

Crew::~Crew() {
  if (process_ != getpid()) {
    // Of a fork: there is nobody to wait for.
    for (std::thread& thread : threads_) thread.detach();
    return;
  }
  work_ = nullptr;
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

absl::Status Crew::Run(const std::function<void(int)>& work,
                       const std::function<void()>& look) {
  if (process_ != getpid()) {
    return absl::FailedPreconditionError(
        "the process was forked after its threads were made: what runs on "
        "several streams must be made anew in the child");
  }
  work_ = &work;
  num_busy_.store(static_cast<int32_t>(threads_.size()),
                  std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  work(0);
  for (int32_t busy = num_busy_.load(std::memory_order_acquire); busy != 0;
       busy = num_busy_.load(std::memory_order_acquire)) {
    if (look != nullptr) {
      AwaitChange(num_busy_, busy, look);
    } else {
      AwaitChange(num_busy_, busy);
    }
  }
  return absl::OkStatus();
}

void Crew::Work(int index) {
  NameThisThread(absl::StrCat("stream ", index));
  for (uint32_t seen = 0;; ++seen) {
    AwaitChange(round_, seen);
    if (work_ == nullptr) return;
    (*work_)(index);
    num_busy_.fetch_sub(1, std::memory_order_release);
    num_busy_.notify_one();
  }
}

}  // namespace mica
