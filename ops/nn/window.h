// Windows that slide over planes: what convolution and pooling share.

#ifndef MICA_OPS_NN_WINDOW_H_
#define MICA_OPS_NN_WINDOW_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/op/op_def.h"

namespace mica {

// Windows and the dims they slide over are no longer than this, so that no
// product of two overflows.
inline constexpr int64_t kMaxExtent = int64_t{1} << 30;

// True if every dim is at most kMaxExtent.
bool AreExtents(absl::Span<const Dim> dims);

// Entry `i` of a list in which one number may stand for all.
inline int64_t Entry(absl::Span<const int64_t> list, int i) {
  return list.size() == 1 ? list[0] : list[i];
}
// True if `list` has one entry or `count`, each from `least` to kMaxExtent.
bool HasEntries(absl::Span<const int64_t> list, int count, int64_t least);

// The result dims of a convolution whose input is parameter `input`, weight
// the next one, and, two further on, stride, padding, dilation, transposed,
// output_padding and groups.
absl::StatusOr<Dims> ConvolvedDims(const OpCall& call, int input);

// Where a 2-d pooling's parameters are: from `kernel` on its size, stride and
// padding; `dilation` may be none.
struct PoolParams {
  int input = 0;
  int kernel = 1;
  int dilation = -1;
  int ceil_mode = -1;
};
// The result dims of a pooling of [c,h,w] or [n,c,h,w].
absl::StatusOr<Dims> PooledDims(const OpCall& call, const PoolParams& params);

}  // namespace mica

#endif  // MICA_OPS_NN_WINDOW_H_
