// Memory asked for before its use.

#ifndef MICA_FRAMEWORK_BASE_PREFETCH_H_
#define MICA_FRAMEWORK_BASE_PREFETCH_H_

#include <cstddef>

namespace mica {

// Bytes of a line of the caches.
inline constexpr size_t kCacheLine = 64;

// Asks for the line that `at` lies in, which needn't be there. After a model
// has run, all that a hit reads of its own is out of the caches; read one after
// the other, each line of it takes a trip to memory of its own.
//
// Into the second cache: the first can't wait for so many at one time.
inline void PrefetchLine(const void* at) {
  __builtin_prefetch(at, /*rw=*/0, /*locality=*/2);
  // GCC takes a function that does nothing else for one without effect, and
  // drops the calls of it.
  asm volatile("");
}

// The same of the memory [at, at + bytes).
inline void Prefetch(const void* at, size_t bytes) {
  const auto* line = static_cast<const char*>(at);
  for (size_t i = 0; i < bytes; i += kCacheLine) PrefetchLine(line + i);
}

// The same of what a vector holds, up to a bound: the processor sees for itself
// that more is read in a row.
template <typename Vector>
void PrefetchItems(const Vector& items) {
  constexpr size_t kMaxBytes = 2048;
  const size_t bytes = items.size() * sizeof(items[0]);
  Prefetch(items.data(), bytes < kMaxBytes ? bytes : kMaxBytes);
}

}  // namespace mica

#endif  // MICA_FRAMEWORK_BASE_PREFETCH_H_
