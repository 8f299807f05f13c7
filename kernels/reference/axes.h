// Which axes a reduction goes along.

#ifndef MICA_KERNELS_REFERENCE_AXES_H_
#define MICA_KERNELS_REFERENCE_AXES_H_

#include "absl/container/inlined_vector.h"
#include "framework/kernel/kernel.h"

namespace mica {

// One entry for each axis.
using AxisMask = absl::InlinedVector<bool, 5>;

// How an operator gives them.
struct AxesOf {
  int dim = -1;  // Parameter; -1 means all axes.
  bool empty_is_none = false;
};

// True for those that go, of an operand with `rank` axes.
AxisMask ReducedMask(const KernelRequest& request, AxesOf axes, int rank);

}  // namespace mica

#endif  // MICA_KERNELS_REFERENCE_AXES_H_
