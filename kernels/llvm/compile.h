// From a region's signature to machine code.

#ifndef MICA_KERNELS_LLVM_COMPILE_H_
#define MICA_KERNELS_LLVM_COMPILE_H_

#include "absl/status/statusor.h"
#include "kernels/llvm/image.h"
#include "kernels/llvm/ir_lanes.h"
#include "kernels/region/region_rows.h"

namespace mica::region::ir {

// Internal, with LLVM's words, if it can't; ResourceExhausted for what would
// take it long.
absl::StatusOr<Image> Compile(const Signature& signature, Level level);

}  // namespace mica::region::ir

#endif  // MICA_KERNELS_LLVM_COMPILE_H_
