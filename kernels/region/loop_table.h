// How the image of a region's code names the vector loops that it calls.
//
// An image ends with words of 8 bytes: one for each loop, and their number.
// Compiled, such a word is a LoopId(); whoever loads the image puts the loop's
// address there.

#ifndef MICA_KERNELS_REGION_LOOP_TABLE_H_
#define MICA_KERNELS_REGION_LOOP_TABLE_H_

#include <cstdint>

#include "framework/op/region_op_list.h"
#include "framework/tensor/dtype.h"

namespace mica::region {

// Of an operator on f32 or f64.
inline uint64_t LoopId(RegionOpId op, DType dtype) {
  return static_cast<uint64_t>(op) << 1 | (dtype == DType::kF64 ? 1 : 0);
}
inline constexpr uint64_t kNumLoopIds = 2 * kNumRegionOps;

}  // namespace mica::region

#endif  // MICA_KERNELS_REGION_LOOP_TABLE_H_
