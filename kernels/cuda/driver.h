// The functions of CUDA's driver that Mica calls.
//
// They are found when a process asks for them, so that nothing of CUDA is
// needed to build or to start Mica. The names and numbers are those of the
// driver's own interface (CUDA Driver API, versions 12 and 13).

#ifndef MICA_KERNELS_CUDA_DRIVER_H_
#define MICA_KERNELS_CUDA_DRIVER_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace mica::cuda {

// What the driver calls CUresult, CUdeviceptr and so on.
using Result = int;
using Ordinal = int;
using Address = uint64_t;
using Context = struct ContextTag*;
using Stream = struct StreamTag*;
using Event = struct EventTag*;
using Module = struct ModuleTag*;
using Function = struct FunctionTag*;
using Graph = struct GraphTag*;
using GraphExec = struct GraphExecTag*;

inline constexpr Result kSuccess = 0;
inline constexpr Result kOutOfMemory = 2;

// Attributes of a device, and the least version of the driver, by the driver's
// numbers.
inline constexpr int kMultiprocessors = 16;
inline constexpr int kMajor = 75;
inline constexpr int kMinor = 76;
inline constexpr int kLeastVersion = 12'000;
inline constexpr unsigned kNonBlocking = 1;  // Of a stream.
inline constexpr unsigned kWithoutTime = 2;  // Of an event.
inline constexpr unsigned kMapped = 2;       // Of the host's memory.
inline constexpr int kCaptureOfThread = 1;   // What a capture forbids.

// A table that tests fill with functions of their own.
struct Driver {
  Result (*Init)(unsigned) = nullptr;
  Result (*DriverGetVersion)(int*) = nullptr;
  Result (*DeviceGetCount)(int*) = nullptr;
  Result (*DeviceGet)(Ordinal*, int) = nullptr;
  Result (*DeviceGetName)(char*, int, Ordinal) = nullptr;
  Result (*DeviceGetAttribute)(int*, int, Ordinal) = nullptr;
  Result (*DevicePrimaryCtxRetain)(Context*, Ordinal) = nullptr;
  Result (*DevicePrimaryCtxRelease)(Ordinal) = nullptr;
  Result (*CtxSetCurrent)(Context) = nullptr;
  Result (*MemGetInfo)(size_t*, size_t*) = nullptr;
  Result (*MemAlloc)(Address*, size_t) = nullptr;
  Result (*MemFree)(Address) = nullptr;
  Result (*MemHostAlloc)(void**, size_t, unsigned) = nullptr;
  Result (*MemFreeHost)(void*) = nullptr;
  Result (*MemHostGetDevicePointer)(Address*, void*, unsigned) = nullptr;
  Result (*MemcpyHtoDAsync)(Address, const void*, size_t, Stream) = nullptr;
  Result (*MemcpyDtoHAsync)(void*, Address, size_t, Stream) = nullptr;
  Result (*MemcpyDtoDAsync)(Address, Address, size_t, Stream) = nullptr;
  Result (*MemsetD8Async)(Address, unsigned char, size_t, Stream) = nullptr;
  Result (*StreamCreate)(Stream*, unsigned) = nullptr;
  Result (*StreamDestroy)(Stream) = nullptr;
  Result (*StreamSynchronize)(Stream) = nullptr;
  Result (*StreamWaitEvent)(Stream, Event, unsigned) = nullptr;
  Result (*EventCreate)(Event*, unsigned) = nullptr;
  Result (*EventDestroy)(Event) = nullptr;
  Result (*EventRecord)(Event, Stream) = nullptr;
  Result (*ModuleLoadData)(Module*, const void*) = nullptr;
  Result (*ModuleUnload)(Module) = nullptr;
  Result (*ModuleGetFunction)(Function*, Module, const char*) = nullptr;
  Result (*LaunchKernel)(Function, unsigned, unsigned, unsigned, unsigned,
                         unsigned, unsigned, unsigned, Stream, void**,
                         void**) = nullptr;
  Result (*StreamBeginCapture)(Stream, int) = nullptr;
  Result (*StreamEndCapture)(Stream, Graph*) = nullptr;
  Result (*GraphInstantiate)(GraphExec*, Graph, unsigned long long) = nullptr;
  Result (*GraphLaunch)(GraphExec, Stream) = nullptr;
  Result (*GraphDestroy)(Graph) = nullptr;
  Result (*GraphExecDestroy)(GraphExec) = nullptr;
  Result (*GetErrorName)(Result, const char**) = nullptr;
  Result (*GetErrorString)(Result, const char**) = nullptr;
};

// The machine's driver, initialised. Unavailable without one, and for one that
// is too old, with what was wanted and what there is. Thread-safe; looks once.
absl::StatusOr<const Driver*> FindDriver();

// OK for kSuccess; else the driver's own words, and `what` was asked of it:
// ResourceExhausted for a lack of memory, Internal for anything else.
absl::Status ToStatus(const Driver& driver, Result result,
                      absl::string_view what);

}  // namespace mica::cuda

#endif  // MICA_KERNELS_CUDA_DRIVER_H_
