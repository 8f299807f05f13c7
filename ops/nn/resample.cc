// Planes made larger or smaller: interpolation, and padding that repeats them.

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/infer.h"
#include "ops/nn/backward.h"
#include "ops/nn/families.h"
#include "ops/nn/window.h"

namespace mica {
namespace {

// input_size is parameter 2 of a backward; output_size is parameter 1.
absl::StatusOr<Dims> ResampledDims(const OpCall& call,
                                   absl::Span<const int64_t> input) {
  const auto output = call.Ints(1);
  if (input.size() != 4 || output.size() != 2 || !AreExtents(input)) {
    return call.Wants("[n,c,h,w] and an output size of two");
  }
  for (int64_t size : {input[2], input[3], output[0], output[1]}) {
    if (size < 1 || size > kMaxExtent) {
      return call.Wants("planes of positive size");
    }
  }
  if (input[0] < 0 || input[1] < 0) return call.Wants("sizes of 0 or more");
  return Dims{input[0], input[1], output[0], output[1]};
}

absl::StatusOr<TensorTypes> InferResample(const OpCall& call) {
  const TensorType& x = call.Type(0);
  if (!IsFloating(x.dtype)) return call.Wants("a floating-point tensor");
  MICA_ASSIGN_OR_RETURN(Dims dims, ResampledDims(call, x.dims));
  return TensorTypes{FreshTensor(x.dtype, std::move(dims))};
}

absl::StatusOr<TensorTypes> InferResampleBackward(const OpCall& call) {
  const DType dtype = call.Type(0).dtype;
  if (!IsFloating(dtype)) return call.Wants("a floating-point tensor");
  MICA_ASSIGN_OR_RETURN(Dims dims, ResampledDims(call, call.Ints(2)));
  MICA_RETURN_IF_ERROR(CheckGradient(call, 0, dims, dtype));
  const auto input = call.Ints(2);
  return TensorTypes{FreshTensor(dtype, Dims(input.begin(), input.end()))};
}

enum class Border : uint8_t { kReflect, kReplicate };

// The dims of `x` padded by the list `param`: before and after, last axis
// first.
absl::StatusOr<Dims> PaddedDims(const OpCall& call, const TensorType& x,
                                int param, int num_axes, Border border) {
  const auto padding = call.Ints(param);
  if (static_cast<int>(padding.size()) != 2 * num_axes ||
      x.rank() < num_axes + 1 || x.rank() > num_axes + 2 ||
      !AreExtents(x.dims)) {
    return call.Wants(absl::StrCat("planes of ", num_axes,
                                   " axes and two paddings for each"));
  }
  Dims dims = x.dims;
  for (int i = 0; i < num_axes; ++i) {
    Dim& dim = dims[x.rank() - 1 - i];
    const int64_t before = padding[2 * i], after = padding[2 * i + 1];
    const bool reflects = border == Border::kReflect;
    // Reflection leaves out the border itself.
    const int64_t limit = reflects ? dim - 1 : kMaxExtent;
    // It reads what cutting leaves; replication clamps each index.
    const int64_t left =
        dim + std::min<int64_t>(before, 0) + std::min<int64_t>(after, 0);
    if (dim < 1 || before < -kMaxExtent || after < -kMaxExtent ||
        before > limit || after > limit || dim + before + after < 1 ||
        (reflects && left < 1)) {
      return call.Wants("paddings that planes of positive size allow");
    }
    dim += before + after;
  }
  return dims;
}

InferFn Padded(int num_axes, Border border) {
  return [=](const OpCall& call) -> absl::StatusOr<TensorTypes> {
    MICA_ASSIGN_OR_RETURN(Dims dims,
                          PaddedDims(call, call.Type(0), 1, num_axes, border));
    return TensorTypes{FreshTensor(call.Type(0).dtype, std::move(dims))};
  };
}

InferFn PaddedBackward(int num_axes, Border border) {
  return [=](const OpCall& call) -> absl::StatusOr<TensorTypes> {
    const TensorType& x = call.Type(1);
    MICA_ASSIGN_OR_RETURN(Dims dims, PaddedDims(call, x, 2, num_axes, border));
    MICA_RETURN_IF_ERROR(CheckGradient(call, 0, dims, x.dtype));
    if (!IsFloating(x.dtype)) return call.Wants("a floating-point tensor");
    return TensorTypes{FreshTensor(x.dtype, x.dims)};
  };
}

void AddPad(OpRegistry& registry, absl::string_view name, int num_axes,
            Border border) {
  const std::string size = absl::StrCat("SymInt[", 2 * num_axes, "] padding");
  const char* border_doc = border == Border::kReflect
                               ? "its mirror image beyond its last elements."
                               : "its last elements, repeated.";
  registry.Add(
      OpDef(absl::StrCat("aten::", name, "(Tensor self, ", size, ") -> Tensor"))
          .Doc(absl::StrCat("self, framed by ", border_doc))
          .Infer(Padded(num_axes, border)));
  registry.Add(
      OpDef(absl::StrCat("aten::", name,
                         "_backward(Tensor grad_output, Tensor self, ", size,
                         ") -> Tensor"))
          .Doc("grad_output, added up at the elements that it came from.")
          .Infer(PaddedBackward(num_axes, border)));
}

}  // namespace

void RegisterResampleOps(OpRegistry& registry) {
  for (absl::string_view name :
       {"upsample_nearest2d", "_upsample_nearest_exact2d"}) {
    registry.Add(
        OpDef(absl::StrCat("aten::", name,
                           "(Tensor self, SymInt[2] output_size, float? "
                           "scales_h=None, float? scales_w=None) -> Tensor"))
            .Doc("Each pixel is that of self nearest to it.")
            .Infer(InferResample));
    registry.Add(
        OpDef(absl::StrCat("aten::", name,
                           "_backward(Tensor grad_output, SymInt[2] "
                           "output_size, SymInt[4] input_size, float? "
                           "scales_h=None, float? scales_w=None) -> Tensor"))
            .Doc("grad_output, added up at the pixels that it came from.")
            .Infer(InferResampleBackward));
  }
  registry.Add(
      OpDef("aten::upsample_bilinear2d(Tensor self, SymInt[2] output_size, "
            "bool align_corners, float? scales_h=None, float? scales_w=None) "
            "-> Tensor")
          .Doc("Each pixel is a mean of the four of self around it, by "
               "distance.")
          .Infer(InferResample));
  registry.Add(
      OpDef("aten::upsample_bilinear2d_backward(Tensor grad_output, SymInt[2] "
            "output_size, SymInt[4] input_size, bool align_corners, float? "
            "scales_h=None, float? scales_w=None) -> Tensor")
          .Doc("grad_output, spread over the pixels that it came from.")
          .Infer(InferResampleBackward));
  AddPad(registry, "reflection_pad1d", 1, Border::kReflect);
  AddPad(registry, "reflection_pad2d", 2, Border::kReflect);
  AddPad(registry, "replication_pad1d", 1, Border::kReplicate);
  AddPad(registry, "replication_pad2d", 2, Border::kReplicate);
}

}  // namespace mica
