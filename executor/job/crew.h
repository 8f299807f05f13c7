// Threads that do one piece of work each at the same time, again and again.

#ifndef MICA_EXECUTOR_JOB_CREW_H_
#define MICA_EXECUTOR_JOB_CREW_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "executor/job/await.h"

namespace mica {

// A caller and size - 1 threads of its own. They look for work for a moment
// after the last, then sleep.
//
// Run() is for one thread at a time.
class Crew {
 public:
  // Requires a size of at least 1.
  explicit Crew(int size);
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  // Calls `work(i)` for 0 <= i < size at once, for 0 on the calling thread, and
  // returns when all have returned. FailedPrecondition, before any call, in a
  // process that was forked after the threads were made: they aren't there.
  // `look`, unless empty, is called now and then while this thread waits.
  absl::Status Run(const std::function<void(int)>& work,
                   const std::function<void()>& look = nullptr);

 private:
  void Work(int index);

  const int64_t process_;
  std::vector<std::thread> threads_;
  const std::function<void(int)>* work_ = nullptr;  // Null: go home.
  std::atomic<uint32_t> round_ = 0;
  std::atomic<int32_t> num_busy_ = 0;
};

}  // namespace mica

#endif  // MICA_EXECUTOR_JOB_CREW_H_
