#include "tests/devices/fake_driver.h"

#include <cstdlib>
#include <cstring>

#include "absl/container/flat_hash_map.h"
#include "glog/logging.h"

namespace mica {
namespace {

constexpr int64_t kMemoryBytes = 1 << 20;

FakeDriver* current = nullptr;
absl::flat_hash_map<uintptr_t, int64_t> sizes;  // Of memory, by address.

}  // namespace

// The functions of the table.
struct FakeFunctions {
  using Kind = FakeCall::Kind;
  using R = cuda::Result;

  static R Count() {
    FakeDriver& f = *current;
    return f.num_calls_++ == f.fail_at_ ? f.fail_with_ : cuda::kSuccess;
  }
  // A new thing of the kind that T points to.
  template <typename T>
  static R Make(T* made) {
    if (const R result = Count()) return result;
    *made = reinterpret_cast<T>(current->next_++);
    ++current->num_alive_;
    return cuda::kSuccess;
  }
  static R Drop() {
    --current->num_alive_;
    return cuda::kSuccess;
  }
  static R Queue(Kind kind, cuda::Stream stream, cuda::Event event = nullptr) {
    if (const R result = Count()) return result;
    if (!current->is_capturing_) {
      current->calls_.push_back({kind, reinterpret_cast<uintptr_t>(stream),
                                 reinterpret_cast<uintptr_t>(event)});
    }
    return cuda::kSuccess;
  }

  static R Init(unsigned) { return Count(); }
  static R Version(int* version) {
    *version = 13'000;
    return Count();
  }
  static R DeviceCount(int* count) {
    *count = 1;
    return Count();
  }
  static R DeviceGet(cuda::Ordinal* ordinal, int index) {
    *ordinal = index;
    return Count();
  }
  static R Name(char* name, int size, cuda::Ordinal) {
    std::strncpy(name, "fake", static_cast<size_t>(size));
    return Count();
  }
  static R Attribute(int* value, int attribute, cuda::Ordinal) {
    *value = attribute == cuda::kMajor ? 9 : attribute == cuda::kMinor ? 0 : 8;
    return Count();
  }
  static R Retain(cuda::Context* context, cuda::Ordinal) {
    return Make(context);
  }
  static R Release(cuda::Ordinal) { return Drop(); }
  static R SetCurrent(cuda::Context) { return Count(); }
  static R MemInfo(size_t* free, size_t* all) {
    *free = static_cast<size_t>(kMemoryBytes - current->memory_bytes_);
    *all = kMemoryBytes;
    return cuda::kSuccess;
  }
  static R Alloc(cuda::Address* address, size_t size) {
    if (const R result = Count()) return result;
    const auto bytes = static_cast<int64_t>(size);
    if (current->memory_bytes_ + bytes > kMemoryBytes) {
      return cuda::kOutOfMemory;
    }
    *address = reinterpret_cast<cuda::Address>(std::aligned_alloc(512, size));
    sizes[*address] = bytes;
    current->memory_bytes_ += bytes;
    ++current->num_alive_;
    return cuda::kSuccess;
  }
  static R Free(cuda::Address address) {
    current->memory_bytes_ -= sizes.at(address);
    sizes.erase(address);
    std::free(reinterpret_cast<void*>(address));
    return Drop();
  }
  static R HostAlloc(void** data, size_t size, unsigned) {
    if (const R result = Count()) return result;
    *data = std::calloc(1, size);
    ++current->num_alive_;
    return cuda::kSuccess;
  }
  static R HostFree(void* data) {
    std::free(data);
    return Drop();
  }
  static R HostPointer(cuda::Address* address, void* data, unsigned) {
    *address = reinterpret_cast<cuda::Address>(data);
    return Count();
  }
  static R ToDevice(cuda::Address to, const void* from, size_t bytes,
                    cuda::Stream stream) {
    std::memcpy(reinterpret_cast<void*>(to), from, bytes);
    return Queue(Kind::kCopy, stream);
  }
  static R ToHost(void* to, cuda::Address from, size_t bytes,
                  cuda::Stream stream) {
    std::memcpy(to, reinterpret_cast<void*>(from), bytes);
    return Queue(Kind::kCopy, stream);
  }
  static R Within(cuda::Address, cuda::Address, size_t, cuda::Stream stream) {
    return Queue(Kind::kCopy, stream);
  }
  static R Set(cuda::Address, unsigned char, size_t, cuda::Stream stream) {
    return Queue(Kind::kLaunch, stream);
  }
  static R StreamCreate(cuda::Stream* stream, unsigned) { return Make(stream); }
  static R StreamDestroy(cuda::Stream) { return Drop(); }
  static R Synchronize(cuda::Stream) { return Count(); }
  static R WaitEvent(cuda::Stream stream, cuda::Event event, unsigned) {
    return Queue(Kind::kWait, stream, event);
  }
  static R EventCreate(cuda::Event* event, unsigned) { return Make(event); }
  static R EventDestroy(cuda::Event) { return Drop(); }
  static R EventRecord(cuda::Event event, cuda::Stream stream) {
    return Queue(Kind::kRecord, stream, event);
  }
  static R ModuleLoad(cuda::Module* module, const void*) {
    return Make(module);
  }
  static R ModuleUnload(cuda::Module) { return Drop(); }
  static R GetFunction(cuda::Function* function, cuda::Module, const char*) {
    if (const R result = Count()) return result;
    *function = reinterpret_cast<cuda::Function>(current->next_++);
    return cuda::kSuccess;
  }
  static R Launch(cuda::Function, unsigned, unsigned, unsigned, unsigned,
                  unsigned, unsigned, unsigned, cuda::Stream stream, void**,
                  void**) {
    return Queue(Kind::kLaunch, stream);
  }
  static R BeginCapture(cuda::Stream, int) {
    if (const R result = Count()) return result;
    current->is_capturing_ = true;
    return cuda::kSuccess;
  }
  static R EndCapture(cuda::Stream, cuda::Graph* graph) {
    current->is_capturing_ = false;
    return Make(graph);
  }
  static R Instantiate(cuda::GraphExec* exec, cuda::Graph, unsigned long long) {
    return Make(exec);
  }
  static R GraphLaunch(cuda::GraphExec, cuda::Stream stream) {
    return Queue(Kind::kGraph, stream);
  }
  static R GraphDestroy(cuda::Graph) { return Drop(); }
  static R ExecDestroy(cuda::GraphExec) { return Drop(); }
  static R ErrorName(R, const char** name) {
    *name = "FAKE_ERROR";
    return cuda::kSuccess;
  }
  static R ErrorString(R, const char** words) {
    *words = "as it was told";
    return cuda::kSuccess;
  }
};

FakeDriver::FakeDriver() {
  CHECK(current == nullptr) << "there is one already";
  current = this;
  using F = FakeFunctions;
  table_ = {.Init = F::Init,
            .DriverGetVersion = F::Version,
            .DeviceGetCount = F::DeviceCount,
            .DeviceGet = F::DeviceGet,
            .DeviceGetName = F::Name,
            .DeviceGetAttribute = F::Attribute,
            .DevicePrimaryCtxRetain = F::Retain,
            .DevicePrimaryCtxRelease = F::Release,
            .CtxSetCurrent = F::SetCurrent,
            .MemGetInfo = F::MemInfo,
            .MemAlloc = F::Alloc,
            .MemFree = F::Free,
            .MemHostAlloc = F::HostAlloc,
            .MemFreeHost = F::HostFree,
            .MemHostGetDevicePointer = F::HostPointer,
            .MemcpyHtoDAsync = F::ToDevice,
            .MemcpyDtoHAsync = F::ToHost,
            .MemcpyDtoDAsync = F::Within,
            .MemsetD8Async = F::Set,
            .StreamCreate = F::StreamCreate,
            .StreamDestroy = F::StreamDestroy,
            .StreamSynchronize = F::Synchronize,
            .StreamWaitEvent = F::WaitEvent,
            .EventCreate = F::EventCreate,
            .EventDestroy = F::EventDestroy,
            .EventRecord = F::EventRecord,
            .ModuleLoadData = F::ModuleLoad,
            .ModuleUnload = F::ModuleUnload,
            .ModuleGetFunction = F::GetFunction,
            .LaunchKernel = F::Launch,
            .StreamBeginCapture = F::BeginCapture,
            .StreamEndCapture = F::EndCapture,
            .GraphInstantiate = F::Instantiate,
            .GraphLaunch = F::GraphLaunch,
            .GraphDestroy = F::GraphDestroy,
            .GraphExecDestroy = F::ExecDestroy,
            .GetErrorName = F::ErrorName,
            .GetErrorString = F::ErrorString};
}

FakeDriver::~FakeDriver() { current = nullptr; }

}  // namespace mica
