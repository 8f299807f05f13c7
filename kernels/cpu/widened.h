// What kernels for numbers of 16 bits have in common: they run the float32
// kernel of their op on widened operands.

#ifndef MICA_KERNELS_CPU_WIDENED_H_
#define MICA_KERNELS_CPU_WIDENED_H_

#include <cstdint>
#include <optional>

#include "framework/kernel/kernel.h"
#include "kernels/cpu/simd_table.h"

namespace mica::cpu {

inline constexpr int64_t kFloatBytes = sizeof(float);

std::optional<Half> HalfOf(DType dtype);

// True if an operand or a result has 16 bits.
bool IsHalf(const KernelRequest& request);

// The request with float32 in place of 16 bits.
KernelRequest Widen(const KernelRequest& request);

// The first float32 kernel that takes the request.
std::optional<Prepared> PrepareWide(const KernelRequest& request);

// True for one that keeps nothing, needs nothing and never fails, so that it
// may run for pieces of the operands, on several threads.
bool IsPlain(const Prepared& prepared);

// Of any op: all operands are widened first.
Verdict PrepareWhole(const KernelRequest& request);

// Of an op along the last axes whose rows have nothing to do with each other:
// block by block of rows, so that what is widened stays in the first-level
// cache. The first operand and all results have the rows.
Verdict PrepareWidenedRows(const KernelRequest& request);

}  // namespace mica::cpu

#endif  // MICA_KERNELS_CPU_WIDENED_H_
