// Which elements become one in a reduction, as tiles that vector loops take.

#ifndef MICA_KERNELS_CPU_FOLD_PLAN_H_
#define MICA_KERNELS_CPU_FOLD_PLAN_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "framework/tensor/tensor_type.h"

namespace mica::cpu {

// The results, row-major, are `outer` groups of `tile_results` neighbours each.
// A group's elements are tiles, one for each index of the outer reduced axes:
// by rows a result's elements of a tile lie next to each other, by columns the
// results do. Strides are in elements.
struct FoldPlan {
  struct Axis {
    int64_t size = 1, stride = 0;
  };
  using AxisList = absl::InlinedVector<Axis, 4>;

  bool by_columns = false;
  Axis kept;     // Results of a group; by columns of stride 1.
  Axis reduced;  // Elements of a tile for each; by rows of stride 1.
  AxisList outer_kept, outer_reduced;
  int64_t groups = 1;    // Of results.
  int64_t tiles = 1;     // Of a group.
  int64_t elements = 1;  // That become one.

  // Nothing if neither the results nor what becomes one are neighbours, or
  // there is nothing to reduce.
  static std::optional<FoldPlan> Of(const TensorType& x,
                                    const std::vector<bool>& reduced);

  // Where the first element of that group, or of a group's tile, lies.
  static int64_t OffsetOf(const AxisList& axes, int64_t index);
};

}  // namespace mica::cpu

#endif  // MICA_KERNELS_CPU_FOLD_PLAN_H_
