// What a thread does between two looks at what it waits for.

#ifndef MICA_FRAMEWORK_BASE_SPIN_PAUSE_H_
#define MICA_FRAMEWORK_BASE_SPIN_PAUSE_H_

namespace mica {

// Leaves the core's resources to the thread that shares it, for a moment.
inline void SpinPause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");  // `yield` takes no time on most of these.
#endif
}

}  // namespace mica

#endif  // MICA_FRAMEWORK_BASE_SPIN_PAUSE_H_
