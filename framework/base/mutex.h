// A mutex of which ThreadSanitizer knows.

#ifndef MICA_FRAMEWORK_BASE_MUTEX_H_
#define MICA_FRAMEWORK_BASE_MUTEX_H_

#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"

namespace mica {

// Abseil's comes from a system's library, which no sanitizer was built into:
// what it orders looks like a race. This is std's, with Abseil's annotations
// and conditions.
class ABSL_LOCKABLE Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() {
    const bool is_awaited = num_waiting_ > 0;
    mutex_.unlock();
    if (is_awaited) changed_.notify_all();
  }
  // Lets go of it until `condition`, which is looked at whenever another thread
  // has unlocked it, holds. Requires that this thread has locked it.
  void Await(absl::FunctionRef<bool()> condition) {
    std::unique_lock lock(mutex_, std::adopt_lock);
    ++num_waiting_;
    changed_.wait(lock, condition);
    --num_waiting_;
    lock.release();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int num_waiting_ = 0;  // Of the mutex.
};

// Locked as long as this lives.
class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex* mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex)
      : mutex_(mutex) {
    mutex_->Lock();
  }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_->Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex* const mutex_;
};

}  // namespace mica

#endif  // MICA_FRAMEWORK_BASE_MUTEX_H_
