// A GPU by CUDA's driver.

#ifndef MICA_KERNELS_CUDA_CUDA_DEVICE_H_
#define MICA_KERNELS_CUDA_CUDA_DEVICE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/base/mutex.h"
#include "framework/device/device.h"
#include "kernels/cuda/blas.h"
#include "kernels/cuda/driver.h"
#include "kernels/cuda/target.h"

namespace mica::cuda {

class CudaDevice;

// What LaunchContext::stream is.
struct CudaStream {
  CudaDevice* device = nullptr;
  Stream handle = nullptr;
  void* workspace = nullptr;  // Of products; null until the first.
  bool has_work = false;      // Since it was synchronised last.
};

// Errors that only data can cause are told by kernels in one word of the host's
// memory: the step's number + 1 above, which of DataError below.
enum class DataError : uint32_t { kNone, kIndexOutOfRange };

// Memory that was freed is kept for who asks for as much.
class CudaDevice : public Device {
 public:
  // Unavailable if there is no such device. `driver` must outlive it.
  static absl::StatusOr<std::shared_ptr<CudaDevice>> Create(
      const Driver& driver, int index);
  ~CudaDevice() override;

  Place place() const override { return {DeviceKind::kCuda, index_}; }
  absl::StatusOr<void*> Allocate(int64_t bytes) override;
  void Free(void* data) override;
  absl::StatusOr<StreamId> CreateStream() override;
  void DestroyStream(StreamId stream) override;
  absl::StatusOr<EventId> CreateEvent() override;
  void DestroyEvent(EventId event) override;
  absl::Status Copy(void* to, const void* from, int64_t bytes, CopyKind kind,
                    StreamId stream) override;
  absl::Status Launch(const DeviceLaunch& launch, StreamId stream) override;
  absl::Status Record(EventId event, StreamId stream) override;
  absl::Status Wait(StreamId stream, EventId event) override;
  DeviceError Synchronize(StreamId stream) override;
  absl::Status BeginCapture(StreamId stream) override;
  absl::StatusOr<std::unique_ptr<DeviceGraph>> EndCapture(
      StreamId stream) override;

  absl::Status LaunchGraph(GraphExec graph, StreamId stream);

  const Driver& driver() const { return driver_; }
  const std::string& name() const { return name_; }  // "NVIDIA H100 80GB HBM3".
  // What its kernels are compiled for, by NVRTC.
  Target target() const;
  // The function `entry` of machine code that the device keeps.
  absl::StatusOr<Function> Load(const char* machine_code,
                                const char* entry) const;
  // Where kernels tell an error of data, as the device sees it.
  Address error_word() const { return error_word_on_device_; }
  // For products on `stream`.
  absl::StatusOr<const Blas*> PrepareBlas(CudaStream& stream);

 private:
  CudaDevice(const Driver& driver, int index)
      : driver_(driver), index_(index) {}
  absl::Status Open();
  absl::Status MakeCurrent() const;
  absl::Status Check(Result result, absl::string_view what) const {
    return ToStatus(driver_, result, what);
  }
  CudaStream& FindStream(StreamId id) const;
  Event FindEvent(EventId id) const;
  void AwaitAll();
  void ReleaseKept() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Driver& driver_;
  const int index_;
  std::string name_;
  Ordinal ordinal_ = 0;
  Context context_ = nullptr;
  int arch_ = 0;
  int num_processors_ = 0;
  volatile uint64_t* error_word_ = nullptr;
  Address error_word_on_device_ = 0;
  std::unique_ptr<Blas> blas_;
  mutable Mutex mutex_;
  // By id; null: free.
  std::vector<std::unique_ptr<CudaStream>> streams_ ABSL_GUARDED_BY(mutex_);
  std::vector<Event> events_ ABSL_GUARDED_BY(mutex_);
  // By size: memory that nobody uses.
  std::multimap<int64_t, Address> kept_ ABSL_GUARDED_BY(mutex_);
  std::map<Address, int64_t> sizes_ ABSL_GUARDED_BY(mutex_);
  mutable std::vector<Module> modules_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace mica::cuda

#endif  // MICA_KERNELS_CUDA_CUDA_DEVICE_H_
