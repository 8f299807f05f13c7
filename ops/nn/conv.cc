// Convolution and pooling.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/infer.h"
#include "ops/nn/families.h"

namespace mica {
namespace {

// Windows and the dims they slide over are below this, so that no product of
// two overflows.
constexpr int64_t kMaxExtent = int64_t{1} << 30;

bool AreLegal(absl::Span<const Dim> dims) {
  return std::all_of(dims.begin(), dims.end(),
                     [](Dim dim) { return dim <= kMaxExtent; });
}

// Entry `i` of a list in which one number may stand for all.
int64_t Entry(absl::Span<const int64_t> list, int i) {
  return list.size() == 1 ? list[0] : list[i];
}

bool HasEntries(absl::Span<const int64_t> list, int count, int64_t least) {
  if (list.size() != 1 && static_cast<int>(list.size()) != count) return false;
  for (int64_t entry : list) {
    if (entry < least || entry > kMaxExtent) return false;
  }
  return true;
}

// One axis of a window that slides.
struct Window {
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t padding = 0;
  int64_t dilation = 1;
  int64_t reach() const { return dilation * (kernel - 1) + 1; }
};

int64_t NumPlaces(int64_t size, const Window& window, bool ceil_mode) {
  const int64_t room = size + 2 * window.padding - window.reach();
  if (room < 0) return 0;
  int64_t places = room / window.stride + 1;
  if (ceil_mode && room % window.stride != 0 &&
      places * window.stride < size + window.padding) {
    ++places;  // A last window that starts inside the tensor or its padding.
  }
  return places;
}

absl::StatusOr<TensorTypes> InferConvolution(const OpCall& call) {
  const TensorType& x = call.Type(0);
  const TensorType& weight = call.Type(1);
  const int axes = x.rank() - 2;
  const int64_t groups = call.Int(8);
  const bool is_transposed = call.Bool(6);
  if (axes < 1 || !AreLegal(x.dims) || !AreLegal(weight.dims) ||
      weight.rank() != x.rank() || weight.dtype != x.dtype || groups < 1 ||
      groups > kMaxExtent || !HasEntries(call.Ints(3), axes, 1) ||
      !HasEntries(call.Ints(4), axes, 0) ||
      !HasEntries(call.Ints(5), axes, 1) ||
      !HasEntries(call.Ints(7), axes, 0)) {
    return call.Wants("x[n,c,...] and weight[o,c/groups,...] of one rank");
  }
  const int64_t in = is_transposed ? weight.dims[0] : weight.dims[1] * groups;
  const int64_t out = is_transposed ? weight.dims[1] * groups : weight.dims[0];
  if (x.dims[1] != in || in % groups != 0 || out % groups != 0 ||
      (call.Has(2) && call.Type(2).dims != Dims{out})) {
    return call.Wants("channels that fit weight, groups and bias");
  }
  Dims dims = {x.dims[0], out};
  for (int i = 0; i < axes; ++i) {
    const Window window = {.kernel = weight.dims[i + 2],
                           .stride = Entry(call.Ints(3), i),
                           .padding = Entry(call.Ints(4), i),
                           .dilation = Entry(call.Ints(5), i)};
    const int64_t size = x.dims[i + 2];
    const int64_t places =
        is_transposed ? (size - 1) * window.stride - 2 * window.padding +
                            window.reach() + Entry(call.Ints(7), i)
                      : NumPlaces(size, window, /*ceil_mode=*/false);
    if (places < 1) return call.Wants("a kernel no larger than the input");
    dims.push_back(places);
  }
  return TensorTypes{FreshTensor(x.dtype, std::move(dims))};
}

// The dims after a 2-d pooling: params kernel 1, stride 2, padding 3;
// `dilation` is a parameter or -1.
absl::StatusOr<Dims> PooledDims(const OpCall& call, int dilation,
                                int ceil_mode) {
  const TensorType& x = call.Type(0);
  const auto stride = call.Ints(2).empty() ? call.Ints(1) : call.Ints(2);
  if (x.rank() < 3 || x.rank() > 4 || !AreLegal(x.dims) ||
      !HasEntries(call.Ints(1), 2, 1) || !HasEntries(stride, 2, 1) ||
      !HasEntries(call.Ints(3), 2, 0) ||
      (dilation >= 0 && !HasEntries(call.Ints(dilation), 2, 1))) {
    return call.Wants("[c,h,w] or [n,c,h,w] and windows of positive size");
  }
  Dims dims = x.dims;
  for (int i = 0; i < 2; ++i) {
    const Window window = {
        .kernel = Entry(call.Ints(1), i),
        .stride = Entry(stride, i),
        .padding = Entry(call.Ints(3), i),
        .dilation = dilation < 0 ? 1 : Entry(call.Ints(dilation), i)};
    Dim& dim = dims[x.rank() - 2 + i];
    if (2 * window.padding > window.kernel) {
      return call.Wants("padding of at most half the window");
    }
    dim = NumPlaces(dim, window, call.Bool(ceil_mode));
    if (dim < 1) return call.Wants("a window no larger than the input");
  }
  return dims;
}

absl::StatusOr<TensorTypes> InferMaxPool(const OpCall& call) {
  MICA_ASSIGN_OR_RETURN(Dims dims, PooledDims(call, 4, 5));
  return TensorTypes{FreshTensor(call.Type(0).dtype, dims),
                     FreshTensor(DType::kI64, dims)};
}

absl::StatusOr<TensorTypes> InferAveragePool(const OpCall& call) {
  MICA_ASSIGN_OR_RETURN(Dims dims, PooledDims(call, -1, 4));
  if (call.Has(6) && call.Int(6) == 0) {
    return call.Wants("divisor_override unequal to 0");
  }
  return TensorTypes{FreshTensor(call.Type(0).dtype, std::move(dims))};
}

absl::StatusOr<TensorTypes> InferAdaptivePool(const OpCall& call) {
  const TensorType& x = call.Type(0);
  if (x.rank() < 3 || x.rank() > 4 || !HasEntries(call.Ints(1), 2, 0) ||
      x.dims[x.rank() - 1] == 0 || x.dims[x.rank() - 2] == 0) {
    return call.Wants("[c,h,w] or [n,c,h,w] and an output size");
  }
  Dims dims = x.dims;
  dims[x.rank() - 2] = Entry(call.Ints(1), 0);
  dims[x.rank() - 1] = Entry(call.Ints(1), 1);
  return TensorTypes{FreshTensor(x.dtype, std::move(dims))};
}

}  // namespace

void RegisterConvOps(OpRegistry& registry) {
  registry.Add(
      OpDef("aten::convolution(Tensor input, Tensor weight, Tensor? bias, "
            "SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool "
            "transposed, SymInt[] output_padding, SymInt groups) -> Tensor")
          .Doc("Each output pixel is the product of weight with the window "
               "around it, plus bias; transposed, its adjoint.")
          .Infer(InferConvolution));
  registry.Add(
      OpDef("aten::max_pool2d_with_indices(Tensor self, int[2] kernel_size, "
            "int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool "
            "ceil_mode=False) -> (Tensor, Tensor)")
          .Doc("The largest element of each window and its place in the plane.")
          .Infer(InferMaxPool));
  registry.Add(
      OpDef("aten::avg_pool2d(Tensor self, int[2] kernel_size, int[2] "
            "stride=[], int[2] padding=0, bool ceil_mode=False, bool "
            "count_include_pad=True, int? divisor_override=None) -> Tensor")
          .Doc("The mean of each window.")
          .Infer(InferAveragePool));
  registry.Add(
      OpDef("aten::_adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> "
            "Tensor")
          .Doc("Means over windows that cut each plane in output_size parts.")
          .Infer(InferAdaptivePool));
}

}  // namespace mica
