// Waiting for another thread.

#ifndef MICA_EXECUTOR_JOB_AWAIT_H_
#define MICA_EXECUTOR_JOB_AWAIT_H_

#include <atomic>

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
    __builtin_ia32_pause();
  }
  value.wait(old, std::memory_order_acquire);
}

}  // namespace mica

#endif  // MICA_EXECUTOR_JOB_AWAIT_H_
