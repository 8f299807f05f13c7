// The dimensions that a kernel loops over, as few as there can be.

#ifndef MICA_KERNELS_CPU_AXES_H_
#define MICA_KERNELS_CPU_AXES_H_

#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "framework/kernel/kernel.h"
#include "framework/tensor/tensor_type.h"

namespace mica::cpu {

// Sizes, outermost first, and for each array its strides over them in elements,
// 0 where one element meets all.
struct Axes {
  absl::InlinedVector<int64_t, 5> sizes;
  std::vector<absl::InlinedVector<int64_t, 5>> strides;  // By array.
};

// The axes of arrays that broadcast to `dims`, in the order of the first one's
// memory; neighbours that are one dimension for every array are joined, those
// of one element left out. Null stands for an array of one element.
Axes JoinedAxes(absl::Span<const Dim> dims,
                absl::Span<const TensorType* const> arrays);

// The axes given for `param`; none, or an empty list, means all.
std::vector<bool> MarkedAxes(const KernelRequest& request, int param, int rank);

// Axes around a loop, outermost first, and each array's steps over them in
// bytes, 0 where one element meets all.
struct AxisList {
  absl::InlinedVector<int64_t, 4> sizes;
  std::vector<absl::InlinedVector<int64_t, 4>> steps;  // By array.

  int64_t count() const;  // Of places.
  int64_t Offset(size_t array, int64_t place) const {
    return sizes.empty() ? 0 : OffsetOf(array, place);
  }

 private:
  int64_t OffsetOf(size_t array, int64_t place) const;
};

}  // namespace mica::cpu

#endif  // MICA_KERNELS_CPU_AXES_H_
