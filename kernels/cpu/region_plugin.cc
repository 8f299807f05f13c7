#include "kernels/cpu/region_plugin.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <climits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/status.h"
#include "kernels/region/version.h"

namespace mica::cpu {
namespace {

constexpr const char* kFile = "libmica_llvm.so";

// The folder of the object that this code is in; "" if that isn't known.
std::string OwnFolder() {
  Dl_info info;
  link_map* object = nullptr;
  if (::dladdr1(reinterpret_cast<const void*>(&OwnFolder), &info,
                reinterpret_cast<void**>(&object), RTLD_DL_LINKMAP) == 0 ||
      object == nullptr) {
    return "";
  }
  std::string path = object->l_name;
  if (path.empty()) {  // The program itself.
    path.resize(PATH_MAX);
    const ssize_t bytes =
        ::readlink("/proc/self/exe", path.data(), path.size());
    path.resize(bytes < 0 ? 0 : static_cast<size_t>(bytes));
  }
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

absl::StatusOr<std::string> FindFile(const std::string& path) {
  std::vector<std::string> places = {path};
  if (path.empty()) {
    const std::string folder = OwnFolder();
    places = {absl::StrCat(folder, "/", kFile),
              absl::StrCat(folder, "/../lib/", kFile)};
  }
  for (const std::string& place : places) {
    if (::access(place.c_str(), R_OK) == 0) return place;
  }
  return absl::NotFoundError(
      absl::StrCat("there is no ", absl::StrJoin(places, " and no ")));
}

void Take(void* context, const char* bytes, size_t num_bytes, int64_t entry) {
  *static_cast<CodeImage*>(context) = {.bytes = std::string(bytes, num_bytes),
                                       .entry = entry};
}

}  // namespace

absl::StatusOr<RegionPlugin> RegionPlugin::Load(const std::string& path) {
  MICA_ASSIGN_OR_RETURN(const std::string file, FindFile(path));
  void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return absl::FailedPreconditionError(::dlerror());
  }
  auto* const version =
      reinterpret_cast<MicaLlvmVersionFn*>(::dlsym(library, MICA_LLVM_VERSION));
  auto* const name =
      reinterpret_cast<MicaLlvmNameFn*>(::dlsym(library, MICA_LLVM_NAME));
  auto* const compile =
      reinterpret_cast<MicaLlvmCompileFn*>(::dlsym(library, MICA_LLVM_COMPILE));
  if (version == nullptr || name == nullptr || compile == nullptr) {
    ::dlclose(library);
    return absl::FailedPreconditionError(
        absl::StrCat(file, " doesn't compile regions"));
  }
  const std::string theirs = version();
  if (theirs != region::EmitterVersion()) {
    // It stays loaded: it is never ready to go.
    return absl::FailedPreconditionError(
        absl::StrCat(file, " is of other sources: wants emitter ",
                     region::EmitterVersion(), ", got ", theirs));
  }
  return RegionPlugin(compile, name());
}

absl::StatusOr<CodeImage> RegionPlugin::Compile(absl::string_view text,
                                                const char* level) const {
  CodeImage image;
  if (compile_(text.data(), text.size(), level, &image, Take) != 0) {
    return absl::InternalError(image.bytes);
  }
  return image;
}

}  // namespace mica::cpu
