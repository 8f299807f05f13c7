// Threads that help others with their work.

#ifndef MICA_EXECUTOR_JOB_HELPERS_H_
#define MICA_EXECUTOR_JOB_HELPERS_H_

#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "executor/job/await.h"
#include "executor/job/door.h"

namespace mica {

// Threads that join a caller's work while it goes on. All help one caller at a
// time; another one works alone meanwhile, so that several Jobs at once don't
// run on more threads than there are helpers and callers. The same goes for a
// process that was forked: the helpers aren't there.
//
// After the work they look for more for a moment, then sleep. Each uses one
// OpenMP thread. Thread-safe.
class Helpers {
 public:
  // `spins`: see AwaitChange(); 0 to sleep at once.
  explicit Helpers(int num_helpers, int spins = kDefaultSpins);
  ~Helpers();
  Helpers(const Helpers&) = delete;
  Helpers& operator=(const Helpers&) = delete;

  int size() const { return static_cast<int>(threads_.size()); }
  int spins() const { return spins_; }

  // Calls `work(0)` on this thread and, on helpers that come before it has
  // returned, `work(i)` for 1 <= i <= size(); returns when all have returned.
  // `work(0)` must get everything done alone.
  void Run(absl::FunctionRef<void(int)> work);

 private:
  void Help(int index);

  const int spins_;
  const int32_t generation_;  // Of forks.
  std::vector<std::thread> threads_;
  std::mutex busy_;  // Of the caller whom they help.
  const absl::FunctionRef<void(int)>* work_ = nullptr;
  Door door_;  // To `work_`.
  std::atomic<uint32_t> round_ = 0;
  std::atomic<bool> is_over_ = false;
};

}  // namespace mica

#endif  // MICA_EXECUTOR_JOB_HELPERS_H_
