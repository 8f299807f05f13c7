// What Python computes with numbers on the host, between two ops.

#ifndef MICA_KERNELS_REFERENCE_HOST_ARITHMETIC_H_
#define MICA_KERNELS_REFERENCE_HOST_ARITHMETIC_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace mica {

// Whole numbers below this, of either sign, are the same as float64.
inline constexpr double kHostIntLimit = 9007199254740992.0;  // 2**53.

// Null if `result` is bit for bit what Python gives, else what it raises, or
// why the result can't be held. `b` counts for nothing with one operand.
using HostFunction = const char* (*)(double a, double b, double* result);

struct HostOp {
  absl::string_view name;  // "mica.scalar_add".
  HostFunction compute = nullptr;
  // Python raises for some operands.
  bool may_raise = false;
  // In Python the result is one of the operands, the object itself.
  bool gives_operand = false;
};
// All mica.scalar_* (of floats) and mica.int_* (of whole numbers).
absl::Span<const HostOp> HostOps();
// Null if there is none of that name.
const HostOp* FindHostOp(absl::string_view name);

}  // namespace mica

#endif  // MICA_KERNELS_REFERENCE_HOST_ARITHMETIC_H_
