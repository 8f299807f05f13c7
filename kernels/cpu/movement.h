// Copies, for kernels that are made of them, and what can be moved.

#ifndef MICA_KERNELS_CPU_MOVEMENT_H_
#define MICA_KERNELS_CPU_MOVEMENT_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "framework/kernel/kernel.h"

namespace mica::cpu {

// Types whose elements are numbers of 1, 2, 4 or 8 bytes.
inline constexpr DType kMovedTypes[] = {
    DType::kBool, DType::kU8,  DType::kI8,   DType::kI16, DType::kI32,
    DType::kI64,  DType::kF16, DType::kBF16, DType::kF32, DType::kF64};

// Operand 0 copied to result 0, converted if their types differ. The result
// may have gaps, which are left as they are.
Verdict PrepareCopy(const KernelRequest& request);

// An index that names none of so many rows.
absl::Status OutOfRange(absl::string_view op, int64_t index, int64_t num_rows);

// The axis that the one index tensor of a list, `param`, is for.
int IndexedAxis(const KernelRequest& request, int param);

}  // namespace mica::cpu

#endif  // MICA_KERNELS_CPU_MOVEMENT_H_
