// An object file as one piece that needs no linker.

#ifndef MICA_KERNELS_LLVM_IMAGE_H_
#define MICA_KERNELS_LLVM_IMAGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace mica::region::ir {

struct Image {
  std::string bytes;  // May lie at any page's begin.
  int64_t entry = 0;
};

// What an object calls the table of loops at the image's end.
inline constexpr const char* kLoopTable = "mica_loops";

// Lays the sections of an ELF object one behind the other, code first, then the
// table of `loops` (kernels/region/loop_table.h), and resolves references.
// Internal, naming it, for a reference that isn't relative, or to what isn't in
// the object.
absl::StatusOr<Image> Flatten(absl::string_view object, absl::string_view entry,
                              const std::vector<uint64_t>& loops);

}  // namespace mica::region::ir

#endif  // MICA_KERNELS_LLVM_IMAGE_H_
