#include <atomic>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "framework/base/mutex.h"
#include "framework/base/status.h"
#include "framework/device/device.h"
#include "framework/tensor/tensor.h"

namespace mica {
namespace {

// Work runs where it is queued, so that every event has already happened.
class CpuDevice : public Device {
 public:
  Place place() const override { return {DeviceKind::kCpu, 0}; }

  absl::StatusOr<void*> Allocate(int64_t bytes) override {
    MICA_ASSIGN_OR_RETURN(Buffer buffer, Buffer::Allocate(bytes));
    void* data = buffer.data();
    MutexLock lock(&mutex_);
    buffers_.emplace(data, std::move(buffer));
    return data;
  }
  void Free(void* data) override {
    MutexLock lock(&mutex_);
    buffers_.erase(data);
  }
  absl::Status CopyFromHost(void* to, const void* from, int64_t bytes,
                            StreamId stream) override {
    return Enqueue(stream, [=] {
      std::memcpy(to, from, bytes);
      return absl::OkStatus();
    });
  }
  absl::Status CopyToHost(void* to, const void* from, int64_t bytes,
                          StreamId stream) override {
    return CopyFromHost(to, from, bytes, stream);
  }

  int num_streams() const override { return 1; }
  absl::Status Enqueue(StreamId stream,
                       std::function<absl::Status()> work) override {
    MICA_RETURN_IF_ERROR(CheckStream(stream));
    const absl::Status status = work();
    MutexLock lock(&mutex_);
    first_error_.Update(status);
    return status;
  }
  absl::StatusOr<EventId> CreateEvent() override { return next_event_++; }
  absl::Status Record(EventId, StreamId stream) override {
    return CheckStream(stream);
  }
  absl::Status Wait(StreamId stream, EventId) override {
    return CheckStream(stream);
  }
  absl::Status Synchronize(StreamId stream) override {
    MICA_RETURN_IF_ERROR(CheckStream(stream));
    MutexLock lock(&mutex_);
    return std::exchange(first_error_, absl::OkStatus());
  }

 private:
  static absl::Status CheckStream(StreamId stream) {
    if (stream == 0) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("cpu: wants stream 0, got ", stream));
  }

  Mutex mutex_;
  absl::flat_hash_map<void*, Buffer> buffers_ ABSL_GUARDED_BY(mutex_);
  absl::Status first_error_ ABSL_GUARDED_BY(mutex_);
  std::atomic<EventId> next_event_ = 0;
};

}  // namespace

std::unique_ptr<Device> MakeCpuDevice() {
  return std::make_unique<CpuDevice>();
}

}  // namespace mica
