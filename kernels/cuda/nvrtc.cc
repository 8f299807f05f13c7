#include "kernels/cuda/nvrtc.h"

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/trace/recorder.h"
#include "kernels/cuda/library.h"

namespace mica::cuda {
namespace {

using NvrtcProgram = struct NvrtcProgramTag*;

// NVRTC's functions, each of which returns 0 if all went well.
struct Nvrtc {
  int (*Version)(int* major, int* minor) = nullptr;
  int (*CreateProgram)(NvrtcProgram*, const char* source, const char* name,
                       int num_headers, const char* const* headers,
                       const char* const* header_names) = nullptr;
  int (*DestroyProgram)(NvrtcProgram*) = nullptr;
  int (*CompileProgram)(NvrtcProgram, int num_options,
                        const char* const* options) = nullptr;
  int (*GetCubinSize)(NvrtcProgram, size_t*) = nullptr;
  int (*GetCubin)(NvrtcProgram, char*) = nullptr;
  int (*GetLogSize)(NvrtcProgram, size_t*) = nullptr;
  int (*GetLog)(NvrtcProgram, char*) = nullptr;
};

absl::StatusOr<const Nvrtc*> Load() {
  MICA_ASSIGN_OR_RETURN(
      const Library library,
      Library::Open("NVRTC, CUDA's run-time compiler,",
                    {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"}));
  static Nvrtc n;
  MICA_RETURN_IF_ERROR(library.Find({
      {"nvrtcVersion", n.Version},
      {"nvrtcCreateProgram", n.CreateProgram},
      {"nvrtcDestroyProgram", n.DestroyProgram},
      {"nvrtcCompileProgram", n.CompileProgram},
      {"nvrtcGetCUBINSize", n.GetCubinSize},
      {"nvrtcGetCUBIN", n.GetCubin},
      {"nvrtcGetProgramLogSize", n.GetLogSize},
      {"nvrtcGetProgramLog", n.GetLog},
  }));
  return &n;
}

absl::StatusOr<const Nvrtc*> FindNvrtc() {
  static const auto& nvrtc = *new absl::StatusOr<const Nvrtc*>(Load());
  return nvrtc;
}

std::string LogOf(const Nvrtc& nvrtc, NvrtcProgram program) {
  size_t size = 0;
  if (nvrtc.GetLogSize(program, &size) != 0) return "";
  std::string log(size, '\0');
  nvrtc.GetLog(program, log.data());
  return log;
}

}  // namespace

absl::Status FindCompiler() { return FindNvrtc().status(); }

absl::StatusOr<std::string> Compile(const std::string& source, int arch) {
  MICA_ASSIGN_OR_RETURN(const Nvrtc* nvrtc, FindNvrtc());
  TraceSpan span("analysis", "compile a kernel", "");
  NvrtcProgram program = nullptr;
  if (nvrtc->CreateProgram(&program, source.c_str(), "mica.cu", 0, nullptr,
                           nullptr) != 0) {
    return absl::InternalError("NVRTC takes no program");
  }
  const absl::Cleanup destroy = [&] { nvrtc->DestroyProgram(&program); };
  const std::string target = absl::StrCat("--gpu-architecture=sm_", arch);
  // Without what no kernel uses, such as textures, a kernel takes two thirds of
  // the time. Earlier versions don't know the option.
  const char* const options[] = {target.c_str(), "--std=c++17", "--minimal"};
  int major = 0, minor = 0;
  nvrtc->Version(&major, &minor);
  const int result =
      nvrtc->CompileProgram(program, major >= 13 ? 3 : 2, options);
  size_t size = 0;
  if (result != 0 || nvrtc->GetCubinSize(program, &size) != 0) {
    return absl::InternalError(absl::StrCat("NVRTC gave error ", result, ": ",
                                            LogOf(*nvrtc, program), "\nfor\n",
                                            source));
  }
  std::string cubin(size, '\0');
  nvrtc->GetCubin(program, cubin.data());
  return cubin;
}

}  // namespace mica::cuda
