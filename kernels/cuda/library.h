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

  // A pointer to the function called `name`.
  struct Symbol {
    template <typename F>
    Symbol(const char* name, F*& function) : name(name), pointer(&function) {}
    const char* name;
    void* pointer;
  };
  // Sets all pointers; Unavailable, naming it, for a function there isn't.
  absl::Status Find(std::initializer_list<Symbol> symbols) const;

 private:
  Library(void* handle, std::string name)
      : handle_(handle), name_(std::move(name)) {}

  void* handle_;
  std::string name_;
};

}  // namespace mica::cuda

#endif  // MICA_KERNELS_CUDA_LIBRARY_H_
