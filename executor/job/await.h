// Waiting for another thread.

#ifndef MICA_EXECUTOR_JOB_AWAIT_H_
#define MICA_EXECUTOR_JOB_AWAIT_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "absl/functional/function_ref.h"
#include "framework/base/spin_pause.h"

namespace mica {

// How often a thread looks for what it waits for before it sleeps; some ten
// microseconds altogether.
inline constexpr int kDefaultSpins = 4000;

// Returns when `value` isn't `old` any more; true to the order of acquire.
// Looks `spins` times, then sleeps: whoever changes it must notify.
template <typename T>
void AwaitChange(const std::atomic<T>& value, T old,
                 int spins = kDefaultSpins) {
  for (int i = 0; i < spins; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    SpinPause();
  }
  value.wait(old, std::memory_order_acquire);
}

// The same for a thread that has something to look after meanwhile: calls
// `look` again and again. It sleeps for moments, of a small share of the time
// that it has waited.
template <typename T>
void AwaitChange(const std::atomic<T>& value, T old,
                 absl::FunctionRef<void()> look) {
  for (int i = 0; i < kDefaultSpins; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    SpinPause();
  }
  const auto start = std::chrono::steady_clock::now();
  while (value.load(std::memory_order_acquire) == old) {
    look();
    std::chrono::nanoseconds waited = std::chrono::steady_clock::now() - start;
    std::this_thread::sleep_for(std::clamp<std::chrono::nanoseconds>(
        waited / 16, std::chrono::microseconds(10),
        std::chrono::milliseconds(5)));
  }
}

}  // namespace mica

#endif  // MICA_EXECUTOR_JOB_AWAIT_H_
