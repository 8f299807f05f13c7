// How the loops of a region with reductions run through memory.

#ifndef MICA_KERNELS_CPU_REDUCE_LAYOUT_H_
#define MICA_KERNELS_CPU_REDUCE_LAYOUT_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "framework/tensor/tensor_type.h"
#include "kernels/cpu/axes.h"

namespace mica::cpu {

// Rows of columns, the columns next to each other in the first array's memory.
// One of the two is reduced and the other kept, or both are reduced if there
// are few columns; the axes that are left are around them.
struct ReduceLayout {
  bool reduces_columns = true;  // Else rows.
  bool reduces_both = false;    // If it reduces columns.
  int64_t rows = 1, columns = 1;
  std::vector<int64_t> row_steps, column_steps;  // By array, in bytes.
  AxisList kept, reduced;

  int64_t num_kept() const { return kept.count() * kept_size(); }
  int64_t num_reduced() const {
    return reduced.count() * reduced_size() * (reduces_both ? columns : 1);
  }
  // Of rows and columns: kept places, and what is reduced, of both whole rows.
  int64_t kept_size() const {
    return reduces_both ? 1 : reduces_columns ? rows : columns;
  }
  int64_t reduced_size() const {
    return reduces_columns && !reduces_both ? columns : rows;
  }
  // The step of an array from one kept place to the next.
  int64_t kept_step(size_t array) const {
    return (reduces_columns ? row_steps : column_steps)[array];
  }
};

// Of arrays that broadcast to `dims`, in the order of the first one's memory.
ReduceLayout LayOutReduction(absl::Span<const Dim> dims,
                             const std::vector<bool>& is_reduced,
                             absl::Span<const TensorType* const> arrays);

}  // namespace mica::cpu

#endif  // MICA_KERNELS_CPU_REDUCE_LAYOUT_H_
