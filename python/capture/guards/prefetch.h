// Memory asked for before its use.

#ifndef MICA_PYTHON_CAPTURE_GUARDS_PREFETCH_H_
#define MICA_PYTHON_CAPTURE_GUARDS_PREFETCH_H_

#include <cstddef>

namespace mica {

// Asks for the memory [at, at + bytes). After a model has run, all that a hit
// reads of its own is out of the caches; read one after the other, each line
// of it takes a trip to memory of its own.
inline void Prefetch(const void* at, size_t bytes) {
  constexpr size_t kLine = 64;
  const auto* line = static_cast<const char*>(at);
  for (size_t i = 0; i < bytes; i += kLine) __builtin_prefetch(line + i);
}

// The same, of what a vector holds, up to a bound.
template <typename Vector>
void PrefetchItems(const Vector& items) {
  constexpr size_t kMaxBytes = 2048;
  const size_t bytes = items.size() * sizeof(items[0]);
  Prefetch(items.data(), bytes < kMaxBytes ? bytes : kMaxBytes);
}

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_GUARDS_PREFETCH_H_
