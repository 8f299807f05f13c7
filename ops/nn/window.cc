#include "ops/nn/window.h"

#include <algorithm>
#include <utility>

#include "framework/base/status.h"
#include "ops/infer.h"

namespace mica {
namespace {

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

}  // namespace

bool AreExtents(absl::Span<const Dim> dims) {
  return std::all_of(dims.begin(), dims.end(),
                     [](Dim dim) { return dim <= kMaxExtent; });
}

bool HasEntries(absl::Span<const int64_t> list, int count, int64_t least) {
  if (list.size() != 1 && static_cast<int>(list.size()) != count) return false;
  for (int64_t entry : list) {
    if (entry < least || entry > kMaxExtent) return false;
  }
  return true;
}

absl::StatusOr<Dims> ConvolvedDims(const OpCall& call, int input) {
  const TensorType& x = call.Type(input);
  const TensorType& weight = call.Type(input + 1);
  const int axes = x.rank() - 2;
  const auto stride = call.Ints(input + 3), padding = call.Ints(input + 4);
  const auto dilation = call.Ints(input + 5), added = call.Ints(input + 7);
  const bool is_transposed = call.Bool(input + 6);
  const int64_t groups = call.Int(input + 8);
  if (axes < 1 || !AreExtents(x.dims) || !AreExtents(weight.dims) ||
      weight.rank() != x.rank() || weight.dtype != x.dtype || groups < 1 ||
      groups > kMaxExtent || !HasEntries(stride, axes, 1) ||
      !HasEntries(padding, axes, 0) || !HasEntries(dilation, axes, 1) ||
      !HasEntries(added, axes, 0)) {
    return call.Wants("x[n,c,...] and weight[o,c/groups,...] of one rank");
  }
  const int64_t in = is_transposed ? weight.dims[0] : weight.dims[1] * groups;
  const int64_t out = is_transposed ? weight.dims[1] * groups : weight.dims[0];
  if (x.dims[1] != in || in % groups != 0 || out % groups != 0) {
    return call.Wants("channels that fit weight, groups and bias");
  }
  Dims dims = {x.dims[0], out};
  for (int i = 0; i < axes; ++i) {
    const Window window = {.kernel = weight.dims[i + 2],
                           .stride = Entry(stride, i),
                           .padding = Entry(padding, i),
                           .dilation = Entry(dilation, i)};
    const int64_t size = x.dims[i + 2];
    const int64_t places =
        is_transposed ? (size - 1) * window.stride - 2 * window.padding +
                            window.reach() + Entry(added, i)
                      : NumPlaces(size, window, /*ceil_mode=*/false);
    if (places < 1) return call.Wants("a kernel no larger than the input");
    dims.push_back(places);
  }
  return dims;
}

absl::StatusOr<Dims> PooledDims(const OpCall& call, const PoolParams& params) {
  const TensorType& x = call.Type(params.input);
  const auto kernel = call.Ints(params.kernel);
  const auto padding = call.Ints(params.kernel + 2);
  const auto stride = call.Ints(params.kernel + 1).empty()
                          ? kernel
                          : call.Ints(params.kernel + 1);
  const int dilation = params.dilation;
  if (x.rank() < 3 || x.rank() > 4 || !AreExtents(x.dims) ||
      !HasEntries(kernel, 2, 1) || !HasEntries(stride, 2, 1) ||
      !HasEntries(padding, 2, 0) ||
      (dilation >= 0 && !HasEntries(call.Ints(dilation), 2, 1))) {
    return call.Wants("[c,h,w] or [n,c,h,w] and windows of positive size");
  }
  Dims dims = x.dims;
  for (int i = 0; i < 2; ++i) {
    const Window window = {
        .kernel = Entry(kernel, i),
        .stride = Entry(stride, i),
        .padding = Entry(padding, i),
        .dilation = dilation < 0 ? 1 : Entry(call.Ints(dilation), i)};
    Dim& dim = dims[x.rank() - 2 + i];
    if (2 * window.padding > window.kernel) {
      return call.Wants("padding of at most half the window");
    }
    dim = NumPlaces(dim, window, call.Bool(params.ceil_mode));
    if (dim < 1) return call.Wants("a window no larger than the input");
  }
  return dims;
}

}  // namespace mica
