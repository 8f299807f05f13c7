// The same bytes at two addresses, of which the host may use one.

#ifndef MICA_EXECUTOR_DEVICE_TWIN_MEMORY_H_
#define MICA_EXECUTOR_DEVICE_TWIN_MEMORY_H_

#include <cstdint>
#include <map>
#include <memory>

#include "absl/status/statusor.h"
#include "framework/base/mutex.h"

namespace mica {

// Thread-safe.
class TwinMemory {
 public:
  // Takes no memory before it is written. ResourceExhausted if the system
  // doesn't give the addresses.
  static absl::StatusOr<std::unique_ptr<TwinMemory>> Create(int64_t bytes);
  ~TwinMemory();
  TwinMemory(const TwinMemory&) = delete;
  TwinMemory& operator=(const TwinMemory&) = delete;

  // An address that nobody can read or write. ResourceExhausted with the bytes
  // asked and free.
  absl::StatusOr<void*> Allocate(int64_t bytes);
  void Free(void* data);

  // Where the bytes can be read and written that lie at `data`; another address
  // than this memory's is its own.
  void* Open(void* data) const {
    auto* at = static_cast<char*>(data);
    return at >= closed_ && at < closed_ + bytes_ ? open_ + (at - closed_)
                                                  : data;
  }
  const void* Open(const void* data) const {
    return Open(const_cast<void*>(data));
  }

 private:
  TwinMemory() = default;

  int64_t bytes_ = 0;
  int file_ = -1;
  char* closed_ = nullptr;
  char* open_ = nullptr;
  Mutex mutex_;
  std::map<int64_t, int64_t> free_ ABSL_GUARDED_BY(mutex_);  // Offset: bytes.
  std::map<int64_t, int64_t> used_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace mica

#endif  // MICA_EXECUTOR_DEVICE_TWIN_MEMORY_H_
