#include "kernels/cuda/driver.h"

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "kernels/cuda/library.h"

namespace mica::cuda {
namespace {

// The driver's older functions of the same names take other types: those with
// a "_v2" are meant.
absl::Status Fill(const Library& library, Driver& d) {
  return library.Find({
      {"cuInit", d.Init},
      {"cuDriverGetVersion", d.DriverGetVersion},
      {"cuDeviceGetCount", d.DeviceGetCount},
      {"cuDeviceGet", d.DeviceGet},
      {"cuDeviceGetName", d.DeviceGetName},
      {"cuDeviceGetAttribute", d.DeviceGetAttribute},
      {"cuDevicePrimaryCtxRetain", d.DevicePrimaryCtxRetain},
      {"cuDevicePrimaryCtxRelease_v2", d.DevicePrimaryCtxRelease},
      {"cuCtxSetCurrent", d.CtxSetCurrent},
      {"cuMemGetInfo_v2", d.MemGetInfo},
      {"cuMemAlloc_v2", d.MemAlloc},
      {"cuMemFree_v2", d.MemFree},
      {"cuMemHostAlloc", d.MemHostAlloc},
      {"cuMemFreeHost", d.MemFreeHost},
      {"cuMemHostGetDevicePointer_v2", d.MemHostGetDevicePointer},
      {"cuMemcpyHtoDAsync_v2", d.MemcpyHtoDAsync},
      {"cuMemcpyDtoHAsync_v2", d.MemcpyDtoHAsync},
      {"cuMemcpyDtoDAsync_v2", d.MemcpyDtoDAsync},
      {"cuMemsetD8Async", d.MemsetD8Async},
      {"cuStreamCreate", d.StreamCreate},
      {"cuStreamDestroy_v2", d.StreamDestroy},
      {"cuStreamSynchronize", d.StreamSynchronize},
      {"cuStreamWaitEvent", d.StreamWaitEvent},
      {"cuEventCreate", d.EventCreate},
      {"cuEventDestroy_v2", d.EventDestroy},
      {"cuEventRecord", d.EventRecord},
      {"cuModuleLoadData", d.ModuleLoadData},
      {"cuModuleUnload", d.ModuleUnload},
      {"cuModuleGetFunction", d.ModuleGetFunction},
      {"cuLaunchKernel", d.LaunchKernel},
      {"cuStreamBeginCapture_v2", d.StreamBeginCapture},
      {"cuStreamEndCapture", d.StreamEndCapture},
      {"cuGraphInstantiateWithFlags", d.GraphInstantiate},
      {"cuGraphLaunch", d.GraphLaunch},
      {"cuGraphDestroy", d.GraphDestroy},
      {"cuGraphExecDestroy", d.GraphExecDestroy},
      {"cuGetErrorName", d.GetErrorName},
      {"cuGetErrorString", d.GetErrorString},
  });
}

absl::StatusOr<const Driver*> Load() {
  MICA_ASSIGN_OR_RETURN(
      const Library library,
      Library::Open("CUDA's driver", {"libcuda.so.1", "libcuda.so"}));
  static Driver driver;
  MICA_RETURN_IF_ERROR(Fill(library, driver));
  int version = 0;
  MICA_RETURN_IF_ERROR(
      ToStatus(driver, driver.DriverGetVersion(&version), "its version"));
  if (version < kLeastVersion) {
    return absl::UnavailableError(absl::StrCat(
        "CUDA's driver is too old: wants one for CUDA ", kLeastVersion / 1000,
        " or later, got one for ", version / 1000, ".", version % 1000 / 10));
  }
  const absl::Status started =
      ToStatus(driver, driver.Init(0), "CUDA's driver to start");
  if (!started.ok()) return absl::UnavailableError(started.message());
  return &driver;
}

}  // namespace

absl::StatusOr<const Driver*> FindDriver() {
  static const auto& driver = *new absl::StatusOr<const Driver*>(Load());
  return driver;
}

absl::Status ToStatus(const Driver& driver, Result result,
                      absl::string_view what) {
  if (result == kSuccess) return absl::OkStatus();
  const char* name = nullptr;
  const char* words = nullptr;
  driver.GetErrorName(result, &name);
  driver.GetErrorString(result, &words);
  const std::string message =
      absl::StrCat("asked for ", what, ", CUDA's driver gave error ", result,
                   ", ", name == nullptr ? "of no name" : name, ": ",
                   words == nullptr ? "" : words);
  return result == kOutOfMemory ? absl::ResourceExhaustedError(message)
                                : absl::InternalError(message);
}

}  // namespace mica::cuda
