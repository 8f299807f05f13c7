// Where a view lies in a result that an operator writes through it.

#ifndef MICA_KERNELS_REFERENCE_WINDOW_H_
#define MICA_KERNELS_REFERENCE_WINDOW_H_

#include <cstdint>
#include <string>

#include "kernels/reference/reference.h"
#include "kernels/reference/strided.h"

namespace mica {

// `dims` of the result, from `offset` in `strides`.
struct Window {
  Dims dims, strides;
  int64_t offset = 0;
};

// A window whose offset a run decides, in elements: where in `base` that is.
class MovedWindow {
 public:
  // Of mica.window_at and mica.write_window_at: `offset` is the parameter.
  MovedWindow(const KernelRequest& request, int offset);
  // InvalidArgument in `context`, and false, where it leaves the base.
  bool Locate(void* const* args, int64_t* offset, LaunchContext& context) const;

  const Window& window() const { return window_; }

 private:
  std::string op_;
  Lane offset_;       // A number of any dtype.
  int64_t last_ = 0;  // The largest offset.
  Window window_;     // From 0 on.
};

// Of the operators whose parameters from number 2 on are those of the view:
// its scatter and its gradient.
Window SliceWindow(const KernelRequest& request);     // dim, start, end, step
Window SelectWindow(const KernelRequest& request);    // dim, index
Window DiagonalWindow(const KernelRequest& request);  // offset, dim1, dim2

}  // namespace mica

#endif  // MICA_KERNELS_REFERENCE_WINDOW_H_
