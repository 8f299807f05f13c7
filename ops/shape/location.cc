#include "ops/shape/location.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/infer.h"

namespace mica {

View WholeView(const TensorType& type) {
  return View{.dims = type.dims, .strides = type.EffectiveStrides()};
}

absl::StatusOr<View> SelectView(const OpCall& call, const TensorType& type,
                                int64_t axis, int64_t index) {
  if (type.rank() == 0) return call.Wants("a tensor with dims");
  MICA_ASSIGN_OR_RETURN(const int at, NormalizeAxis(call, axis, type.rank()));
  const int64_t size = type.dims[at];
  if (index < -size || index >= size) {
    return call.Wants(
        absl::StrCat("an index below ", size, ", not ", index, ","));
  }
  View view = WholeView(type);
  view.offset = (index < 0 ? index + size : index) * view.strides[at];
  view.dims.erase(view.dims.begin() + at);
  view.strides.erase(view.strides.begin() + at);
  return view;
}

absl::StatusOr<View> SliceView(const OpCall& call, const TensorType& type,
                               SliceRange range) {
  if (type.rank() == 0) return call.Wants("a tensor with dims");
  MICA_ASSIGN_OR_RETURN(const int at,
                        NormalizeAxis(call, range.axis, type.rank()));
  if (range.step < 1) return call.Wants("a step of at least 1");
  const int64_t size = type.dims[at];
  auto clamp = [size](int64_t index, int64_t least) {
    if (index < 0) index += size;
    return std::clamp(index, least, size);
  };
  const int64_t start = clamp(range.start, 0);
  const int64_t end = clamp(range.end, start);
  View view = WholeView(type);
  view.offset = start * view.strides[at];
  view.dims[at] = end == start ? 0 : (end - start - 1) / range.step + 1;
  if (__builtin_mul_overflow(view.strides[at], range.step, &view.strides[at])) {
    return call.Wants("a smaller step");
  }
  return view;
}

absl::StatusOr<View> DiagonalView(const OpCall& call, const TensorType& type,
                                  DiagonalPlace place) {
  MICA_ASSIGN_OR_RETURN(const int a,
                        NormalizeAxis(call, place.axis1, type.rank()));
  MICA_ASSIGN_OR_RETURN(const int b,
                        NormalizeAxis(call, place.axis2, type.rank()));
  if (type.rank() < 2 || a == b) return call.Wants("two different axes");
  if (place.shift < -kMaxTensorBytes || place.shift > kMaxTensorBytes) {
    return call.Wants("a smaller offset");
  }
  View view = WholeView(type);
  const int64_t shift = place.shift;
  const int64_t rows = type.dims[a] + std::min<int64_t>(shift, 0);
  const int64_t columns = type.dims[b] - std::max<int64_t>(shift, 0);
  const int64_t size = std::max<int64_t>(std::min(rows, columns), 0);
  const int64_t stride = view.strides[a] + view.strides[b];
  if (size > 0) {
    view.offset =
        shift >= 0 ? shift * view.strides[b] : -shift * view.strides[a];
  }
  for (int axis : {std::max(a, b), std::min(a, b)}) {
    view.dims.erase(view.dims.begin() + axis);
    view.strides.erase(view.strides.begin() + axis);
  }
  view.dims.push_back(size);
  view.strides.push_back(stride);
  return view;
}

absl::StatusOr<View> WindowView(const OpCall& call, const TensorType& type,
                                absl::Span<const int64_t> dims,
                                absl::Span<const int64_t> strides,
                                int64_t offset) {
  if (dims.size() != strides.size()) return call.Wants("a stride for each dim");
  View view = {.dims = Dims(dims.begin(), dims.end()),
               .strides = Dims(strides.begin(), strides.end()),
               .offset = offset};
  const TensorType window = {
      .dtype = type.dtype, .dims = view.dims, .strides = view.strides};
  if (offset < 0 || offset > kMaxTensorBytes || !HasLegalSize(window)) {
    return call.Wants("a window with legal dims, strides and offset");
  }
  const int64_t bytes = window.extent_bytes();
  const int64_t element_bytes = ElementBytes(type.dtype);
  if (bytes > 0 && bytes + offset * element_bytes > type.extent_bytes()) {
    return call.Wants(absl::StrCat("a window inside the base's ",
                                   type.extent_bytes(), " bytes"));
  }
  return view;
}

}  // namespace mica
