#include "kernels/cuda/library.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace mica::cuda {

absl::StatusOr<Library> Library::Open(
    absl::string_view what, std::initializer_list<const char*> names) {
  std::string reason;
  for (const char* name : names) {
    void* handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) return Library(handle, name);
    const char* error = dlerror();
    if (reason.empty() && error != nullptr) reason = error;
  }
  return absl::UnavailableError(absl::StrCat(what, " was not found: wants ",
                                             absl::StrJoin(names, " or "), "; ",
                                             reason));
}

void* Library::FindSymbol(const char* name) const {
  return dlsym(handle_, name);
}

absl::Status Library::Missing(const char* name) const {
  return absl::UnavailableError(absl::StrCat(name_, " has no function ", name));
}

}  // namespace mica::cuda
