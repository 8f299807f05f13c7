// Lets threads into a piece of work while it goes on.

#ifndef MICA_EXECUTOR_JOB_DOOR_H_
#define MICA_EXECUTOR_JOB_DOOR_H_

#include <sched.h>

#include <atomic>
#include <cstdint>

#include "framework/base/spin_pause.h"

namespace mica {

// The owner opens it when what lies behind is ready, and closes it before that
// goes away: Close() returns when all who had entered have left. Nobody waits
// for those who didn't come.
class Door {
 public:
  void Open() { is_open_.store(true, std::memory_order_seq_cst); }
  void Close() {
    is_open_.store(false, std::memory_order_seq_cst);
    constexpr int kSpins = 1000;  // What is behind it ends soon.
    for (int i = 0; num_inside_.load(std::memory_order_seq_cst) != 0; ++i) {
      if (i < kSpins) {
        SpinPause();
      } else {
        sched_yield();
      }
    }
  }

  // False if it isn't open. Who got in must Leave().
  bool Enter() {
    if (!is_open_.load(std::memory_order_relaxed)) return false;
    num_inside_.fetch_add(1, std::memory_order_seq_cst);
    if (is_open_.load(std::memory_order_seq_cst)) return true;
    Leave();
    return false;
  }
  void Leave() { num_inside_.fetch_sub(1, std::memory_order_release); }

 private:
  std::atomic<bool> is_open_ = false;
  std::atomic<int32_t> num_inside_ = 0;
};

}  // namespace mica

#endif  // MICA_EXECUTOR_JOB_DOOR_H_
