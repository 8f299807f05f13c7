#include "kernels/cuda/cuda_device.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/tensor/tensor.h"
#include "kernels/cuda/nvrtc.h"

namespace mica::cuda {
namespace {

// The driver gives memory in pieces of so many bytes anyway.
constexpr int64_t kPiece = 512;

Address ToAddress(const void* data) { return reinterpret_cast<Address>(data); }

class CudaGraph : public DeviceGraph {
 public:
  CudaGraph(CudaDevice& device, GraphExec graph, const Driver& driver)
      : device_(device), graph_(graph), driver_(driver) {}
  ~CudaGraph() override { driver_.GraphExecDestroy(graph_); }
  absl::Status Launch(StreamId stream) override;

 private:
  CudaDevice& device_;
  const GraphExec graph_;
  const Driver& driver_;
};

absl::Status CudaGraph::Launch(StreamId stream) {
  return device_.LaunchGraph(graph_, stream);
}

absl::Status ErrorOf(DataError error) {
  switch (error) {
    case DataError::kIndexOutOfRange:
      return absl::InvalidArgumentError("an index is out of range");
    case DataError::kNone:
      break;
  }
  return absl::InternalError("a kernel told an error that nobody knows");
}

}  // namespace

absl::StatusOr<std::shared_ptr<CudaDevice>> CudaDevice::Create(
    const Driver& driver, int index) {
  std::shared_ptr<CudaDevice> device(new CudaDevice(driver, index));
  MICA_RETURN_IF_ERROR(device->Open());
  return device;
}

absl::Status CudaDevice::Open() {
  int count = 0;
  MICA_RETURN_IF_ERROR(
      Check(driver_.DeviceGetCount(&count), "how many devices there are"));
  if (index_ < 0 || index_ >= count) {
    return absl::UnavailableError(
        absl::StrCat("wants device ", place().ToString(),
                     ", CUDA's driver has ", count, " of them"));
  }
  MICA_RETURN_IF_ERROR(Check(driver_.DeviceGet(&ordinal_, index_), "a device"));
  char name[256] = "";
  MICA_RETURN_IF_ERROR(
      Check(driver_.DeviceGetName(name, sizeof(name), ordinal_), "its name"));
  name_ = name;
  const auto ask = [this](int attribute, int& value) {
    return Check(driver_.DeviceGetAttribute(&value, attribute, ordinal_),
                 "an attribute of a device");
  };
  int major = 0, minor = 0;
  MICA_RETURN_IF_ERROR(ask(kMajor, major));
  MICA_RETURN_IF_ERROR(ask(kMinor, minor));
  MICA_RETURN_IF_ERROR(ask(kMultiprocessors, num_processors_));
  arch_ = major * 10 + minor;
  MICA_RETURN_IF_ERROR(Check(
      driver_.DevicePrimaryCtxRetain(&context_, ordinal_), "its context"));
  MICA_RETURN_IF_ERROR(MakeCurrent());
  void* word = nullptr;
  MICA_RETURN_IF_ERROR(
      Check(driver_.MemHostAlloc(&word, sizeof(uint64_t), kMapped),
            "memory that host and device share"));
  error_word_ = static_cast<volatile uint64_t*>(word);
  *error_word_ = 0;
  return Check(driver_.MemHostGetDevicePointer(&error_word_on_device_, word, 0),
               "the address of memory that host and device share");
}

CudaDevice::~CudaDevice() {
  if (context_ == nullptr) return;
  MakeCurrent().IgnoreError();
  for (size_t i = 0; i < streams_.size(); ++i) {
    if (streams_[i] != nullptr) DestroyStream(static_cast<StreamId>(i));
  }
  for (Event event : events_) {
    if (event != nullptr) driver_.EventDestroy(event);
  }
  blas_ = nullptr;
  for (Module module : modules_) driver_.ModuleUnload(module);
  {
    const MutexLock lock(&mutex_);
    ReleaseKept();
  }
  if (error_word_ != nullptr) {
    driver_.MemFreeHost(const_cast<uint64_t*>(error_word_));
  }
  driver_.DevicePrimaryCtxRelease(ordinal_);
}

absl::Status CudaDevice::MakeCurrent() const {
  return Check(driver_.CtxSetCurrent(context_), "a context");
}

Target CudaDevice::target() const {
  return {.arch = arch_, .num_processors = num_processors_, .compile = Compile};
}

absl::StatusOr<void*> CudaDevice::Allocate(int64_t bytes) {
  MICA_RETURN_IF_ERROR(MakeCurrent());
  const int64_t size =
      std::max((bytes + kPiece - 1) / kPiece, int64_t{1}) * kPiece;
  const MutexLock lock(&mutex_);
  // What is kept serves whoever needs most of it.
  const auto kept = kept_.lower_bound(size);
  if (kept != kept_.end() && kept->first <= size + size / 4) {
    const Address address = kept->second;
    kept_.erase(kept);
    return reinterpret_cast<void*>(address);
  }
  Address address = 0;
  Result result = driver_.MemAlloc(&address, static_cast<size_t>(size));
  if (result == kOutOfMemory && !kept_.empty()) {
    ReleaseKept();
    result = driver_.MemAlloc(&address, static_cast<size_t>(size));
  }
  if (result == kOutOfMemory) {
    size_t free = 0, all = 0;
    driver_.MemGetInfo(&free, &all);
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory on ", place().ToString(), ": ", bytes,
                     " bytes asked, ", free, " bytes free of ", all));
  }
  MICA_RETURN_IF_ERROR(Check(result, "memory"));
  sizes_[address] = size;
  return reinterpret_cast<void*>(address);
}

void CudaDevice::Free(void* data) {
  if (data == nullptr) return;
  MakeCurrent().IgnoreError();
  AwaitAll();
  const MutexLock lock(&mutex_);
  const auto address = ToAddress(data);
  kept_.emplace(sizes_.at(address), address);
}

void CudaDevice::ReleaseKept() {
  for (const auto& [size, address] : kept_) {
    driver_.MemFree(address);
    sizes_.erase(address);
  }
  kept_.clear();
}

void CudaDevice::AwaitAll() {
  const MutexLock lock(&mutex_);
  for (const auto& stream : streams_) {
    if (stream == nullptr || !stream->has_work) continue;
    driver_.StreamSynchronize(stream->handle);
    stream->has_work = false;
  }
}

CudaStream& CudaDevice::FindStream(StreamId id) const {
  const MutexLock lock(&mutex_);
  return *streams_[id];
}

Event CudaDevice::FindEvent(EventId id) const {
  const MutexLock lock(&mutex_);
  return events_[id];
}

absl::StatusOr<StreamId> CudaDevice::CreateStream() {
  MICA_RETURN_IF_ERROR(MakeCurrent());
  auto stream = std::make_unique<CudaStream>();
  stream->device = this;
  MICA_RETURN_IF_ERROR(
      Check(driver_.StreamCreate(&stream->handle, kNonBlocking), "a stream"));
  const MutexLock lock(&mutex_);
  auto at = absl::c_find(streams_, nullptr);
  if (at == streams_.end()) at = streams_.emplace(streams_.end());
  *at = std::move(stream);
  return static_cast<StreamId>(at - streams_.begin());
}

void CudaDevice::DestroyStream(StreamId id) {
  std::unique_ptr<CudaStream> stream;
  {
    const MutexLock lock(&mutex_);
    stream = std::move(streams_[id]);
  }
  MakeCurrent().IgnoreError();
  driver_.StreamSynchronize(stream->handle);
  driver_.StreamDestroy(stream->handle);
  Free(stream->workspace);
}

absl::StatusOr<EventId> CudaDevice::CreateEvent() {
  MICA_RETURN_IF_ERROR(MakeCurrent());
  Event event = nullptr;
  MICA_RETURN_IF_ERROR(
      Check(driver_.EventCreate(&event, kWithoutTime), "an event"));
  const MutexLock lock(&mutex_);
  auto at = absl::c_find(events_, nullptr);
  if (at == events_.end()) at = events_.emplace(events_.end());
  *at = event;
  return static_cast<EventId>(at - events_.begin());
}

void CudaDevice::DestroyEvent(EventId id) {
  MakeCurrent().IgnoreError();
  const MutexLock lock(&mutex_);
  driver_.EventDestroy(std::exchange(events_[id], nullptr));
}

absl::Status CudaDevice::Copy(void* to, const void* from, int64_t bytes,
                              CopyKind kind, StreamId id) {
  if (bytes == 0) return absl::OkStatus();
  MICA_RETURN_IF_ERROR(MakeCurrent());
  CudaStream& stream = FindStream(id);
  stream.has_work = true;
  const auto size = static_cast<size_t>(bytes);
  switch (kind) {
    case CopyKind::kToDevice:
      return Check(
          driver_.MemcpyHtoDAsync(ToAddress(to), from, size, stream.handle),
          "a copy to the device");
    case CopyKind::kToHost:
      return Check(
          driver_.MemcpyDtoHAsync(to, ToAddress(from), size, stream.handle),
          "a copy to the host");
    case CopyKind::kWithin:
      break;
  }
  return Check(driver_.MemcpyDtoDAsync(ToAddress(to), ToAddress(from), size,
                                       stream.handle),
               "a copy within the device");
}

absl::Status CudaDevice::Launch(const DeviceLaunch& launch, StreamId id) {
  MICA_RETURN_IF_ERROR(MakeCurrent());
  CudaStream& stream = FindStream(id);
  stream.has_work = true;
  LaunchContext context{.stream = &stream, .step = launch.step};
  if (launch.fn(launch.state, launch.args.data(), context)) {
    return absl::OkStatus();
  }
  return context.status;
}

absl::Status CudaDevice::LaunchGraph(GraphExec graph, StreamId id) {
  MICA_RETURN_IF_ERROR(MakeCurrent());
  CudaStream& stream = FindStream(id);
  stream.has_work = true;
  return Check(driver_.GraphLaunch(graph, stream.handle), "a graph to run");
}

absl::Status CudaDevice::Record(EventId event, StreamId id) {
  MICA_RETURN_IF_ERROR(MakeCurrent());
  return Check(driver_.EventRecord(FindEvent(event), FindStream(id).handle),
               "an event to happen");
}

absl::Status CudaDevice::Wait(StreamId id, EventId event) {
  MICA_RETURN_IF_ERROR(MakeCurrent());
  return Check(
      driver_.StreamWaitEvent(FindStream(id).handle, FindEvent(event), 0),
      "a stream to wait");
}

DeviceError CudaDevice::Synchronize(StreamId id) {
  DeviceError error{.status = MakeCurrent()};
  if (!error.status.ok()) return error;
  CudaStream& stream = FindStream(id);
  error.status =
      Check(driver_.StreamSynchronize(stream.handle), "a stream's end");
  if (!error.status.ok()) return error;
  stream.has_work = false;
  const uint64_t word = *error_word_;
  if (word == 0) return error;
  *error_word_ = 0;
  return {ErrorOf(static_cast<DataError>(word & 0xffffffff)),
          static_cast<int32_t>(word >> 32) - 1};
}

absl::Status CudaDevice::BeginCapture(StreamId id) {
  MICA_RETURN_IF_ERROR(MakeCurrent());
  return Check(
      driver_.StreamBeginCapture(FindStream(id).handle, kCaptureOfThread),
      "a graph to be captured");
}

absl::StatusOr<std::unique_ptr<DeviceGraph>> CudaDevice::EndCapture(
    StreamId id) {
  Graph graph = nullptr;
  MICA_RETURN_IF_ERROR(
      Check(driver_.StreamEndCapture(FindStream(id).handle, &graph),
            "a graph that was captured"));
  GraphExec exec = nullptr;
  const absl::Status status =
      Check(driver_.GraphInstantiate(&exec, graph, 0), "a graph that can run");
  driver_.GraphDestroy(graph);
  MICA_RETURN_IF_ERROR(status);
  return std::make_unique<CudaGraph>(*this, exec, driver_);
}

absl::StatusOr<Function> CudaDevice::Load(const char* machine_code,
                                          const char* entry) const {
  MICA_RETURN_IF_ERROR(MakeCurrent());
  Module module = nullptr;
  MICA_RETURN_IF_ERROR(
      Check(driver_.ModuleLoadData(&module, machine_code), "a kernel's code"));
  {
    const MutexLock lock(&mutex_);
    modules_.push_back(module);
  }
  Function function = nullptr;
  MICA_RETURN_IF_ERROR(
      Check(driver_.ModuleGetFunction(&function, module, entry), "a kernel"));
  return function;
}

absl::StatusOr<const Blas*> CudaDevice::PrepareBlas(CudaStream& stream) {
  if (stream.workspace == nullptr) {
    MICA_ASSIGN_OR_RETURN(stream.workspace, Allocate(Blas::kWorkspaceBytes));
  }
  const MutexLock lock(&mutex_);
  if (blas_ == nullptr) {
    MICA_ASSIGN_OR_RETURN(blas_, Blas::Create());
  }
  return blas_.get();
}

}  // namespace mica::cuda
