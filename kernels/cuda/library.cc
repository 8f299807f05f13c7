#include "kernels/cuda/library.h"

#include <dlfcn.h>

#include <cstring>

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

absl::Status Library::Find(std::initializer_list<Symbol> symbols) const {
  for (const Symbol& symbol : symbols) {
    void* found = dlsym(handle_, symbol.name);
    if (found == nullptr) {
      return absl::UnavailableError(
          absl::StrCat(name_, " has no function ", symbol.name));
    }
    std::memcpy(symbol.pointer, &found, sizeof(found));
  }
  return absl::OkStatus();
}

}  // namespace mica::cuda
