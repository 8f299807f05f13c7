#include "framework/base/large_vector.h"

#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <new>

#include "absl/base/thread_annotations.h"
#include "framework/base/mutex.h"
#include "framework/base/trim_large.h"
#include "glog/logging.h"

namespace mica {
namespace {

// Ranges are whole granules of regions, which are whole huge pages.
constexpr size_t kGranule = size_t{64} << 10;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kRegion = 2 * kHugePage;
// What is free beyond this goes back to the system.
constexpr size_t kMostKept = size_t{512} << 20;

size_t RoundUp(size_t bytes, size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

// Free memory that had a table before. The system may take it back where it
// lacks some (MADV_FREE), else the next table has it as it is: no page of it is
// cleared again.
class LargePool {
 public:
  // Never destroyed: tables may outlive whatever is.
  static LargePool& Get() {
    static LargePool& pool = *new LargePool;
    return pool;
  }

  char* Take(size_t bytes) {
    const MutexLock lock(&mutex_);
    // The smallest that has room: large ones are for large tables.
    auto best = free_.end();
    for (auto it = free_.begin(); it != free_.end(); ++it) {
      if (it->second < bytes) continue;
      if (best == free_.end() || it->second < best->second) best = it;
    }
    if (best == free_.end()) best = AddRegion(bytes);
    const auto [begin, size] = *best;
    free_.erase(best);
    if (size > bytes) free_.emplace(begin + bytes, size - bytes);
    kept_ -= bytes;
    return begin;
  }

  void Give(char* begin, size_t bytes) {
    char* const first = FirstPage(begin);
    char* const last = LastPage(begin + bytes);
    if (first < last) madvise(first, last - first, MADV_FREE);
    const MutexLock lock(&mutex_);
    const auto range = Insert(begin, bytes);
    if (kept_ > kMostKept) Unmap(range);
  }

  void Trim() {
    const MutexLock lock(&mutex_);
    for (const auto& [begin, size] : Ranges(free_)) Unmap(free_.find(begin));
  }

 private:
  using Ranges = std::map<char*, size_t>;  // Bytes by where they begin.

  LargePool() {
    // Who forks while another thread is in here must not lock it for ever.
    pthread_atfork(&Lock, &Unlock, &Unlock);
  }

  static void Lock() ABSL_NO_THREAD_SAFETY_ANALYSIS { Get().mutex_.Lock(); }
  static void Unlock() ABSL_NO_THREAD_SAFETY_ANALYSIS { Get().mutex_.Unlock(); }

  static char* FirstPage(char* begin) {
    const auto address = reinterpret_cast<uintptr_t>(begin);
    return begin + (RoundUp(address, kHugePage) - address);
  }
  static char* LastPage(char* end) {
    return end - reinterpret_cast<uintptr_t>(end) % kHugePage;
  }

  // As one with those that it touches.
  Ranges::iterator Insert(char* begin, size_t bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    kept_ += bytes;
    auto next = free_.upper_bound(begin);
    if (next != free_.end() && begin + bytes == next->first) {
      bytes += next->second;
      next = free_.erase(next);
    }
    if (next != free_.begin()) {
      const auto before = std::prev(next);
      if (before->first + before->second == begin) {
        before->second += bytes;
        return before;
      }
    }
    return free_.emplace_hint(next, begin, bytes);
  }

  Ranges::iterator AddRegion(size_t bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const size_t size = RoundUp(std::max(bytes, kRegion), kHugePage);
    void* const mapped =
        mmap(nullptr, size + kHugePage, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(mapped != MAP_FAILED) << "no memory for " << size << " bytes";
    char* const all = static_cast<char*>(mapped);
    char* const begin = FirstPage(all);
    if (begin > all) munmap(all, begin - all);
    if (begin < all + kHugePage) munmap(begin + size, all + kHugePage - begin);
    // If it doesn't, small pages are as good, only slower.
    madvise(begin, size, MADV_HUGEPAGE);
    return Insert(begin, size);
  }

  // Gives the system the whole pages of a free range.
  void Unmap(Ranges::iterator range) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    char* const begin = range->first;
    char* const end = begin + range->second;
    char* const first = FirstPage(begin);
    char* const last = LastPage(end);
    if (first >= last) return;
    munmap(first, last - first);
    kept_ -= last - first;
    free_.erase(range);
    if (begin < first) free_.emplace(begin, first - begin);
    if (last < end) free_.emplace(last, end - last);
  }

  Mutex mutex_;
  Ranges free_ ABSL_GUARDED_BY(mutex_);
  size_t kept_ ABSL_GUARDED_BY(mutex_) = 0;  // Bytes in free_.
};

// A sanitizer sees what becomes of each table only where each is its own.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kPools = false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool kPools = false;
#else
constexpr bool kPools = true;
#endif
#else
constexpr bool kPools = true;
#endif

}  // namespace

void* AllocateLarge(size_t bytes) {
  if (!kPools) return ::operator new(bytes);
  return LargePool::Get().Take(RoundUp(bytes, kGranule));
}

void FreeLarge(void* memory, size_t bytes) {
  if (!kPools) return ::operator delete(memory);
  LargePool::Get().Give(static_cast<char*>(memory), RoundUp(bytes, kGranule));
}

void TrimLarge() { LargePool::Get().Trim(); }

}  // namespace mica
