// What kernels of aten.convolution, its gradients and mica.convolution know of
// their calls.

#ifndef MICA_KERNELS_CPU_CONVOLUTION_CALL_H_
#define MICA_KERNELS_CPU_CONVOLUTION_CALL_H_

#include <algorithm>
#include <cstdint>

#include "absl/types/span.h"
#include "kernels/cpu/simd_table.h"

namespace mica::cpu {

// Positions in the schemas; mica.convolution has two more than aten's, and
// mica.scaled_convolution two more than that.
struct ConvolutionParam {
  enum : int {
    kX,
    kWeight,
    kBias,
    kStride,
    kPadding,
    kDilation,
    kTransposed,
    kOutputPadding,
    kGroups,
    kResidual,
    kActivation,
    kScale,
    kShift,
  };
};

// Positions in aten.convolution_backward's schema, and of its results.
struct ConvolutionBackwardParam {
  enum : int {
    kGrad,
    kInput,
    kWeight,
    kBiasSizes,
    kWindow,  // The first of five: stride, padding, dilation, …
    kStride = kWindow,
    kPadding,
    kDilation,
    kTransposed,
    kOutputPadding,
    kGroups,
    kMask,
  };
  enum : int { kGradInput, kGradWeight, kGradBias };
};

// Of axis `i`; a list of one entry is for all axes.
inline int64_t Entry(absl::Span<const int64_t> list, int i) {
  return list.size() == 1 ? list[0] : list[i];
}

// Whether it is `value` along every axis.
inline bool IsAll(absl::Span<const int64_t> list, int64_t value) {
  return std::all_of(list.begin(), list.end(),
                     [value](int64_t entry) { return entry == value; });
}

// Columns begin..end of the weight, `depth` floats each, and of all that goes
// with them.
inline ConvolutionArgs Columns(ConvolutionArgs args, int64_t begin, int64_t end,
                               int64_t depth) {
  args.weight += begin * depth;
  if (args.bias != nullptr) args.bias += begin;
  if (args.residual != nullptr) args.residual += begin;
  args.window.out += begin;
  args.columns = end - begin;
  return args;
}

}  // namespace mica::cpu

#endif  // MICA_KERNELS_CPU_CONVOLUTION_CALL_H_
