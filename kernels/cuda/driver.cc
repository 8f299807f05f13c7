#include "kernels/cuda/driver.h"

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "kernels/cuda/library.h"

namespace mica::cuda {
namespace {

// The driver's older functions of the same names take other types: those with
// a "_v2" are meant.
absl::Status Fill(const Library& library, Driver& d) {
  MICA_RETURN_IF_ERROR(library.Find("cuInit", d.Init));
  MICA_RETURN_IF_ERROR(library.Find("cuDriverGetVersion", d.DriverGetVersion));
  MICA_RETURN_IF_ERROR(library.Find("cuDeviceGetCount", d.DeviceGetCount));
  MICA_RETURN_IF_ERROR(library.Find("cuDeviceGet", d.DeviceGet));
  MICA_RETURN_IF_ERROR(library.Find("cuDeviceGetName", d.DeviceGetName));
  MICA_RETURN_IF_ERROR(
      library.Find("cuDeviceGetAttribute", d.DeviceGetAttribute));
  MICA_RETURN_IF_ERROR(
      library.Find("cuDevicePrimaryCtxRetain", d.DevicePrimaryCtxRetain));
  MICA_RETURN_IF_ERROR(
      library.Find("cuDevicePrimaryCtxRelease_v2", d.DevicePrimaryCtxRelease));
  MICA_RETURN_IF_ERROR(library.Find("cuCtxSetCurrent", d.CtxSetCurrent));
  MICA_RETURN_IF_ERROR(library.Find("cuMemGetInfo_v2", d.MemGetInfo));
  MICA_RETURN_IF_ERROR(library.Find("cuMemAlloc_v2", d.MemAlloc));
  MICA_RETURN_IF_ERROR(library.Find("cuMemFree_v2", d.MemFree));
  MICA_RETURN_IF_ERROR(library.Find("cuMemHostAlloc", d.MemHostAlloc));
  MICA_RETURN_IF_ERROR(library.Find("cuMemFreeHost", d.MemFreeHost));
  MICA_RETURN_IF_ERROR(
      library.Find("cuMemHostGetDevicePointer_v2", d.MemHostGetDevicePointer));
  MICA_RETURN_IF_ERROR(library.Find("cuMemcpyHtoDAsync_v2", d.MemcpyHtoDAsync));
  MICA_RETURN_IF_ERROR(library.Find("cuMemcpyDtoHAsync_v2", d.MemcpyDtoHAsync));
  MICA_RETURN_IF_ERROR(library.Find("cuMemcpyDtoDAsync_v2", d.MemcpyDtoDAsync));
  return library.Find("cuMemsetD8Async", d.MemsetD8Async);
}

absl::Status FillStreams(const Library& library, Driver& d) {
  MICA_RETURN_IF_ERROR(library.Find("cuStreamCreate", d.StreamCreate));
  MICA_RETURN_IF_ERROR(library.Find("cuStreamDestroy_v2", d.StreamDestroy));
  MICA_RETURN_IF_ERROR(
      library.Find("cuStreamSynchronize", d.StreamSynchronize));
  MICA_RETURN_IF_ERROR(library.Find("cuStreamWaitEvent", d.StreamWaitEvent));
  MICA_RETURN_IF_ERROR(library.Find("cuEventCreate", d.EventCreate));
  MICA_RETURN_IF_ERROR(library.Find("cuEventDestroy_v2", d.EventDestroy));
  MICA_RETURN_IF_ERROR(library.Find("cuEventRecord", d.EventRecord));
  MICA_RETURN_IF_ERROR(library.Find("cuEventElapsedTime", d.EventElapsedTime));
  MICA_RETURN_IF_ERROR(library.Find("cuModuleLoadData", d.ModuleLoadData));
  MICA_RETURN_IF_ERROR(library.Find("cuModuleUnload", d.ModuleUnload));
  MICA_RETURN_IF_ERROR(
      library.Find("cuModuleGetFunction", d.ModuleGetFunction));
  MICA_RETURN_IF_ERROR(library.Find("cuFuncSetAttribute", d.FuncSetAttribute));
  MICA_RETURN_IF_ERROR(library.Find("cuLaunchKernel", d.LaunchKernel));
  MICA_RETURN_IF_ERROR(
      library.Find("cuStreamBeginCapture_v2", d.StreamBeginCapture));
  MICA_RETURN_IF_ERROR(library.Find("cuStreamEndCapture", d.StreamEndCapture));
  MICA_RETURN_IF_ERROR(
      library.Find("cuGraphInstantiateWithFlags", d.GraphInstantiate));
  MICA_RETURN_IF_ERROR(library.Find("cuGraphLaunch", d.GraphLaunch));
  MICA_RETURN_IF_ERROR(library.Find("cuGraphDestroy", d.GraphDestroy));
  MICA_RETURN_IF_ERROR(library.Find("cuGraphExecDestroy", d.GraphExecDestroy));
  MICA_RETURN_IF_ERROR(library.Find("cuGetErrorName", d.GetErrorName));
  return library.Find("cuGetErrorString", d.GetErrorString);
}

absl::StatusOr<const Driver*> Load() {
  MICA_ASSIGN_OR_RETURN(
      const Library library,
      Library::Open("CUDA's driver", {"libcuda.so.1", "libcuda.so"}));
  static Driver driver;
  MICA_RETURN_IF_ERROR(Fill(library, driver));
  MICA_RETURN_IF_ERROR(FillStreams(library, driver));
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
