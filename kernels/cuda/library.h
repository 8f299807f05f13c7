// A shared library that may be missing.

#ifndef MICA_KERNELS_CUDA_LIBRARY_H_
#define MICA_KERNELS_CUDA_LIBRARY_H_

#include <initializer_list>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace mica::cuda {

// Stays loaded until the process ends.
class Library {
 public:
  // The first that the dynamic linker finds. Unavailable if it finds none: with
  // `what` it is, the names, and what the linker said.
  static absl::StatusOr<Library> Open(absl::string_view what,
                                      std::initializer_list<const char*> names);

  // Sets `function` to the one called `name`; Unavailable if there is none.
  template <typename F>
  absl::Status Find(const char* name, F*& function) const {
    void* found = FindSymbol(name);
    if (found == nullptr) return Missing(name);
    function = reinterpret_cast<F*>(found);
    return absl::OkStatus();
  }

 private:
  Library(void* handle, std::string name)
      : handle_(handle), name_(std::move(name)) {}
  void* FindSymbol(const char* name) const;
  absl::Status Missing(const char* name) const;

  void* handle_;
  std::string name_;
};

}  // namespace mica::cuda

#endif  // MICA_KERNELS_CUDA_LIBRARY_H_
