// Where a view lies in a result that an operator writes through it.

#ifndef MICA_KERNELS_REFERENCE_WINDOW_H_
#define MICA_KERNELS_REFERENCE_WINDOW_H_

#include <cstdint>

#include "kernels/reference/reference.h"
#include "kernels/reference/strided.h"

namespace mica {

// `dims` of the result, from `offset` in `strides`.
struct Window {
  Dims dims, strides;
  int64_t offset = 0;
};

// Of the operators whose parameters from number 2 on are those of the view:
// its scatter and its gradient.
Window SliceWindow(const KernelRequest& request);     // dim, start, end, step
Window SelectWindow(const KernelRequest& request);    // dim, index
Window DiagonalWindow(const KernelRequest& request);  // offset, dim1, dim2

}  // namespace mica

#endif  // MICA_KERNELS_REFERENCE_WINDOW_H_
