// A vector, and a string, for tables with an entry for each op or value of a
// Program.

#ifndef MICA_FRAMEWORK_BASE_LARGE_VECTOR_H_
#define MICA_FRAMEWORK_BASE_LARGE_VECTOR_H_

#include <cstddef>
#include <string>
#include <vector>

namespace mica {

// Memory for the large tables of a large Program: from kLargeBytes on in huge
// pages, where the system has them, and kept for the next table when one is
// gone. The first touch of a page costs about as much as analysis does in the
// ops that a small page has room for.
inline constexpr size_t kLargeBytes = size_t{256} << 10;

// `bytes` is at least kLargeBytes. Aborts if there are none, as new does.
// Thread-safe.
void* AllocateLarge(size_t bytes);
// Gives back what AllocateLarge(bytes) gave.
void FreeLarge(void* memory, size_t bytes);

template <typename T>
class LargeAllocator {
 public:
  using value_type = T;

  LargeAllocator() = default;
  template <typename Other>
  LargeAllocator(const LargeAllocator<Other>&) {}  // NOLINT: converts.

  T* allocate(size_t count) {
    return static_cast<T*>(count < kLargeCount
                               ? ::operator new(count * sizeof(T))
                               : AllocateLarge(count * sizeof(T)));
  }
  void deallocate(T* memory, size_t count) {
    if (count < kLargeCount) {
      ::operator delete(memory);
    } else {
      FreeLarge(memory, count * sizeof(T));
    }
  }

  template <typename Other>
  bool operator==(const LargeAllocator<Other>&) const {
    return true;
  }

 private:
  static constexpr size_t kLargeCount = (kLargeBytes - 1) / sizeof(T) + 1;
};

template <typename T>
using LargeVector = std::vector<T, LargeAllocator<T>>;
using LargeString =
    std::basic_string<char, std::char_traits<char>, LargeAllocator<char>>;

}  // namespace mica

#endif  // MICA_FRAMEWORK_BASE_LARGE_VECTOR_H_
