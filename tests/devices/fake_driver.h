// A driver of CUDA's that runs nothing and remembers what it was asked for.

#ifndef MICA_TESTS_DEVICES_FAKE_DRIVER_H_
#define MICA_TESTS_DEVICES_FAKE_DRIVER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/cuda/driver.h"

namespace mica {

// One thing that was queued on a stream.
struct FakeCall {
  enum class Kind : uint8_t { kLaunch, kCopy, kRecord, kWait, kGraph };
  Kind kind = Kind::kLaunch;
  uintptr_t stream = 0;
  uintptr_t event = 0;  // Of kRecord and kWait.
};

// There is one at a time: its functions are what a cuda::Driver calls. Memory
// is the host's, 1 MiB of it at most.
class FakeDriver {
 public:
  FakeDriver();
  ~FakeDriver();
  FakeDriver(const FakeDriver&) = delete;
  FakeDriver& operator=(const FakeDriver&) = delete;

  const cuda::Driver& table() const { return table_; }

  // Call number `call` from now on, of those that tell a result, fails with
  // that result; -1 for none.
  void FailAt(int64_t call, cuda::Result result) {
    fail_at_ = call;
    fail_with_ = result;
    num_calls_ = 0;
  }
  int64_t num_calls() const { return num_calls_; }

  // What was queued, less what was captured for graphs.
  std::vector<FakeCall>& calls() { return calls_; }
  // Pieces of memory, streams, events, graphs and contexts that there are.
  int64_t num_alive() const { return num_alive_; }
  int64_t memory_bytes() const { return memory_bytes_; }

 private:
  friend struct FakeFunctions;
  cuda::Driver table_;
  int64_t fail_at_ = -1, num_calls_ = 0;
  cuda::Result fail_with_ = 0;
  std::vector<FakeCall> calls_;
  int64_t num_alive_ = 0, memory_bytes_ = 0;
  uintptr_t next_ = 1;
  bool is_capturing_ = false;
};

}  // namespace mica

#endif  // MICA_TESTS_DEVICES_FAKE_DRIVER_H_
