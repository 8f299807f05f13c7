// An object file as one piece that needs no linker.

#ifndef MICA_KERNELS_LLVM_IMAGE_H_
#define MICA_KERNELS_LLVM_IMAGE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace mica::region::ir {

struct Image {
  std::string bytes;  // May lie at any page's begin.
  int64_t entry = 0;
};

// Lays the sections of an ELF object one behind the other, code first, and
// resolves references between them. Internal, naming it, for a reference that
// isn't relative, or to what isn't in the object.
absl::StatusOr<Image> Flatten(absl::string_view object,
                              absl::string_view entry);

}  // namespace mica::region::ir

#endif  // MICA_KERNELS_LLVM_IMAGE_H_
