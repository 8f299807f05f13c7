#include "ops/shape/view.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/status.h"
#include "ops/infer.h"
#include "ops/shape/families.h"
#include "ops/shape/location.h"

namespace mica {
namespace {

// `size` with its one -1, if any, replaced by what fits the element count.
absl::StatusOr<Dims> ResolveSize(const OpCall& call,
                                 absl::Span<const int64_t> size) {
  const int64_t count = call.Type(0).num_elements();
  Dims dims(size.begin(), size.end());
  int unknown = -1;
  int64_t known = 1;
  for (int i = 0; i < static_cast<int>(dims.size()); ++i) {
    if (dims[i] == -1 && unknown < 0) {
      unknown = i;
    } else if (dims[i] < 0 || __builtin_mul_overflow(known, dims[i], &known)) {
      return call.Wants("legal sizes and at most one -1");
    }
  }
  if (unknown >= 0 && known > 0 && count % known == 0) {
    dims[unknown] = count / known;
    known = count;
  }
  if ((unknown >= 0 && dims[unknown] < 0) || known != count) {
    return call.Wants(absl::StrCat("a size of ", count, " elements, not [",
                                   absl::StrJoin(size, ","), "],"));
  }
  return dims;
}

// A run of axes whose elements are evenly spaced in row-major order.
struct EvenRun {
  int64_t count = 1;
  int64_t stride = 1;  // Between neighbours.
};

// The axes of `type` as such runs, the innermost first.
absl::InlinedVector<EvenRun, 5> EvenRuns(const TensorType& type) {
  const Dims strides = type.EffectiveStrides();
  absl::InlinedVector<EvenRun, 5> runs;
  for (int i = type.rank() - 1; i >= 0; --i) {
    const bool continues =
        !runs.empty() && (type.dims[i] == 1 ||
                          strides[i] == runs.back().count * runs.back().stride);
    if (!continues) runs.push_back({.stride = strides[i]});
    runs.back().count *= type.dims[i];
  }
  if (runs.empty()) runs.push_back({});
  return runs;
}

}  // namespace

bool ViewStrides(const TensorType& type, absl::Span<const Dim> dims,
                 Dims* strides) {
  if (type.num_elements() == 0) {
    *strides = absl::Span<const Dim>(type.dims) == dims
                   ? type.EffectiveStrides()
                   : RowMajorStrides(dims);
    return true;
  }
  strides->assign(dims.size(), 1);
  int axis = static_cast<int>(dims.size()) - 1;
  for (const EvenRun& run : EvenRuns(type)) {
    int64_t covered = 1;
    for (; axis >= 0 && (covered < run.count || dims[axis] == 1); --axis) {
      (*strides)[axis] = covered * run.stride;
      covered *= dims[axis];
    }
    if (covered != run.count) return false;
  }
  return true;
}

namespace {

absl::StatusOr<View> ViewOfSize(const OpCall& call) {
  MICA_ASSIGN_OR_RETURN(Dims dims, ResolveSize(call, call.Ints(1)));
  Dims strides;
  if (!ViewStrides(call.Type(0), dims, &strides)) {
    return call.Wants(absl::StrCat("strides that allow a view of [",
                                   absl::StrJoin(call.Ints(1), ","),
                                   "] without a copy"));
  }
  return View{.dims = std::move(dims), .strides = std::move(strides)};
}

absl::StatusOr<View> Same(const OpCall& call) {
  return WholeView(call.Type(0));
}

View Permuted(const TensorType& type, absl::Span<const int> order) {
  const View whole = WholeView(type);
  View view;
  for (int axis : order) {
    view.dims.push_back(whole.dims[axis]);
    view.strides.push_back(whole.strides[axis]);
  }
  return view;
}

absl::StatusOr<View> Permute(const OpCall& call) {
  const TensorType& self = call.Type(0);
  if (static_cast<int>(call.Ints(1).size()) != self.rank()) {
    return call.Wants("as many axes as dims");
  }
  MICA_RETURN_IF_ERROR(MarkAxes(call, call.Ints(1), self.rank()).status());
  absl::InlinedVector<int, 5> order;
  for (int64_t axis : call.Ints(1)) {
    order.push_back(static_cast<int>(axis < 0 ? axis + self.rank() : axis));
  }
  return Permuted(self, order);
}

absl::StatusOr<View> Swapped(const OpCall& call, int64_t axis0, int64_t axis1) {
  const TensorType& self = call.Type(0);
  MICA_ASSIGN_OR_RETURN(const int a, NormalizeAxis(call, axis0, self.rank()));
  MICA_ASSIGN_OR_RETURN(const int b, NormalizeAxis(call, axis1, self.rank()));
  View view = WholeView(self);
  if (self.rank() > 0) {
    std::swap(view.dims[a], view.dims[b]);
    std::swap(view.strides[a], view.strides[b]);
  }
  return view;
}

absl::StatusOr<View> Transpose(const OpCall& call) {
  return Swapped(call, call.Int(1), call.Int(2));
}

absl::StatusOr<View> MatrixTranspose(const OpCall& call) {
  const int rank = call.Type(0).rank();
  if (rank > 2) return call.Wants("at most two dims");
  return rank < 2 ? Same(call) : Swapped(call, 0, 1);
}

absl::StatusOr<View> Unsqueeze(const OpCall& call) {
  const TensorType& self = call.Type(0);
  MICA_ASSIGN_OR_RETURN(const int at,
                        NormalizeAxis(call, call.Int(1), self.rank() + 1));
  View view = WholeView(self);
  const int64_t stride =
      at < self.rank() ? view.dims[at] * view.strides[at] : 1;
  view.dims.insert(view.dims.begin() + at, 1);
  view.strides.insert(view.strides.begin() + at, stride);
  return view;
}

// Drops those of the marked axes that have size 1.
View Squeezed(const TensorType& type, absl::Span<const bool> marked) {
  const View whole = WholeView(type);
  View view;
  for (int i = 0; i < type.rank(); ++i) {
    if (marked[i] && whole.dims[i] == 1) continue;
    view.dims.push_back(whole.dims[i]);
    view.strides.push_back(whole.strides[i]);
  }
  return view;
}

absl::StatusOr<View> SqueezeAll(const OpCall& call) {
  const TensorType& self = call.Type(0);
  return Squeezed(self, absl::InlinedVector<bool, 5>(self.rank(), true));
}

absl::StatusOr<View> SqueezeOne(const OpCall& call) {
  const TensorType& self = call.Type(0);
  MICA_ASSIGN_OR_RETURN(const auto marked,
                        MarkAxes(call, {call.Int(1)}, self.rank()));
  return Squeezed(self, marked);
}

absl::StatusOr<View> SqueezeSome(const OpCall& call) {
  const TensorType& self = call.Type(0);
  MICA_ASSIGN_OR_RETURN(const auto marked,
                        MarkAxes(call, call.Ints(1), self.rank()));
  return Squeezed(self, marked);
}

absl::StatusOr<View> Select(const OpCall& call) {
  return SelectView(call, call.Type(0), call.Int(1), call.Int(2));
}

absl::StatusOr<View> Slice(const OpCall& call) {
  return SliceView(call, call.Type(0),
                   {.axis = call.Int(1),
                    .start = IntOr(call, 2, 0),
                    .end = IntOr(call, 3, INT64_MAX),
                    .step = call.Int(4)});
}

absl::StatusOr<View> Expand(const OpCall& call) {
  const TensorType& self = call.Type(0);
  const View whole = WholeView(self);
  const absl::Span<const int64_t> size = call.Ints(1);
  const int added = static_cast<int>(size.size()) - self.rank();
  if (added < 0) return call.Wants("a size with at least as many dims");
  View view = {.dims = Dims(size.size()), .strides = Dims(size.size())};
  for (int i = static_cast<int>(size.size()) - 1; i >= 0; --i) {
    const bool is_last = i + 1 == static_cast<int>(size.size());
    const int64_t own = i >= added ? whole.dims[i - added] : 1;
    int64_t stride = 0;
    if (i >= added) {
      stride = whole.strides[i - added];
    } else if (!is_last && self.rank() > 0) {
      stride = view.dims[i + 1] * view.strides[i + 1];
    }
    view.dims[i] = size[i] == -1 && i >= added ? own : size[i];
    if (view.dims[i] != own && own != 1) {
      return call.Wants(absl::StrCat("a size that extends dims of 1, not [",
                                     absl::StrJoin(size, ","), "],"));
    }
    view.strides[i] = view.dims[i] == own ? stride : 0;
    if (view.dims[i] < 0 || view.dims[i] > kMaxTensorBytes) {
      return call.Wants("legal sizes");
    }
  }
  return view;
}

absl::StatusOr<View> AsStrided(const OpCall& call) {
  return WindowView(call, call.Type(0), call.Ints(1), call.Ints(2),
                    IntOr(call, 3, 0));
}

absl::StatusOr<View> ReshapeAlias(const OpCall& call) {
  return WindowView(call, call.Type(0), call.Ints(1), call.Ints(2), 0);
}

absl::StatusOr<View> Diagonal(const OpCall& call) {
  return DiagonalView(
      call, call.Type(0),
      {.shift = call.Int(1), .axis1 = call.Int(2), .axis2 = call.Int(3)});
}

absl::StatusOr<View> Unfold(const OpCall& call) {
  const TensorType& self = call.Type(0);
  MICA_ASSIGN_OR_RETURN(const int at,
                        NormalizeAxis(call, call.Int(1), self.rank()));
  const int64_t size = call.Int(2);
  const int64_t step = call.Int(3);
  const int64_t room = (self.rank() == 0 ? 1 : self.dims[at]);
  if (size < 0 || size > room || step < 1 || step > kMaxTensorBytes) {
    return call.Wants(
        absl::StrCat("a window of at most ", room, " and a positive step"));
  }
  View view = WholeView(self);
  const int64_t stride = self.rank() == 0 ? 1 : view.strides[at];
  if (self.rank() > 0) {
    view.dims[at] = (room - size) / step + 1;
    if (__builtin_mul_overflow(view.strides[at], step, &view.strides[at])) {
      return call.Wants("a smaller step");
    }
  }
  view.dims.push_back(size);
  view.strides.push_back(stride);
  return view;
}

void RegisterAxisViews(OpRegistry& registry) {
  registry.Add(OpDef("aten::t(Tensor(a) self) -> Tensor(a)")
                   .Doc("The transposed matrix.")
                   .ViewOf(MatrixTranspose));
  registry.Add(
      OpDef("aten::transpose.int(Tensor(a) self, int dim0, int dim1) -> "
            "Tensor(a)")
          .Doc("Two axes swapped.")
          .ViewOf(Transpose));
  registry.Add(OpDef("aten::permute(Tensor(a) self, int[] dims) -> Tensor(a)")
                   .Doc("Axis i is axis dims[i] of self.")
                   .ViewOf(Permute));
  registry.Add(OpDef("aten::unsqueeze(Tensor(a) self, int dim) -> Tensor(a)")
                   .Doc("A new axis of size 1 at dim.")
                   .ViewOf(Unsqueeze));
  registry.Add(OpDef("aten::squeeze(Tensor(a) self) -> Tensor(a)")
                   .Doc("Without axes of size 1.")
                   .ViewOf(SqueezeAll));
  registry.Add(OpDef("aten::squeeze.dim(Tensor(a) self, int dim) -> Tensor(a)")
                   .Doc("Without axis dim if its size is 1.")
                   .ViewOf(SqueezeOne));
  registry.Add(
      OpDef("aten::squeeze.dims(Tensor(a) self, int[] dim) -> Tensor(a)")
          .Doc("Without those of the axes dim that have size 1.")
          .ViewOf(SqueezeSome));
}

void RegisterPartViews(OpRegistry& registry) {
  registry.Add(
      OpDef("aten::select.int(Tensor(a) self, int dim, SymInt index) -> "
            "Tensor(a)")
          .Doc("The part at one index of axis dim, without that axis.")
          .ViewOf(Select));
  registry.Add(
      OpDef("aten::slice.Tensor(Tensor(a) self, int dim=0, SymInt? start=None, "
            "SymInt? end=None, SymInt step=1) -> Tensor(a)")
          .Doc("Indices start, start + step, … below end of axis dim.")
          .ViewOf(Slice));
  registry.Add(
      OpDef("aten::diagonal(Tensor(a) self, int offset=0, int dim1=0, int "
            "dim2=1) -> Tensor(a)")
          .Doc("The elements with equal indices, offset aside, on two axes.")
          .ViewOf(Diagonal));
  registry.Add(
      OpDef("aten::unfold(Tensor(a) self, int dimension, int size, int step) "
            "-> Tensor(a)")
          .Doc("All windows of a size along an axis; a last axis goes through "
               "each.")
          .ViewOf(Unfold));
}

// Complex numbers as an axis of two parts, and back.

absl::StatusOr<View> AsReal(const OpCall& call) {
  const TensorType& self = call.Type(0);
  if (!IsComplex(self.dtype)) return call.Wants("a complex tensor");
  View view{.dims = self.dims,
            .strides = self.EffectiveStrides(),
            .dtype = RealDType(self.dtype)};
  for (Dim& stride : view.strides) {
    if (__builtin_mul_overflow(stride, 2, &stride)) {
      return call.Wants("smaller strides");
    }
  }
  view.dims.push_back(2);
  view.strides.push_back(1);
  return view;
}

absl::StatusOr<View> AsComplex(const OpCall& call) {
  const TensorType& self = call.Type(0);
  View view{.dims = self.dims, .strides = self.EffectiveStrides()};
  bool fits = self.rank() > 0 && self.dims.back() == 2 &&
              view.strides.back() == 1 &&
              (self.dtype == DType::kF32 || self.dtype == DType::kF64);
  if (fits) {
    view.dims.pop_back();
    view.strides.pop_back();
  }
  for (Dim& stride : view.strides) {
    fits = fits && stride % 2 == 0;
    stride /= 2;
  }
  if (!fits) {
    return call.Wants(
        "f32 or f64 with a last axis of 2 that lie side by side, and even "
        "strides");
  }
  view.dtype = self.dtype == DType::kF32 ? DType::kC64 : DType::kC128;
  return view;
}

void RegisterComplexViews(OpRegistry& registry) {
  registry.Add(OpDef("aten::view_as_real(Tensor(a) self) -> Tensor(a)")
                   .Doc("Real and imaginary parts on a last axis of 2.")
                   .ViewOf(AsReal));
  registry.Add(OpDef("aten::view_as_complex(Tensor(a) self) -> Tensor(a)")
                   .Doc("Complex numbers of which a last axis of 2 has the "
                        "parts.")
                   .ViewOf(AsComplex));
}

}  // namespace

void RegisterViewOps(OpRegistry& registry) {
  registry.Add(OpDef("aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)")
                   .Doc("The elements in row-major order under other dims.")
                   .ViewOf(ViewOfSize));
  registry.Add(OpDef("aten::_unsafe_view(Tensor self, SymInt[] size) -> Tensor")
                   .Doc("As view; nobody else holds self.")
                   .ViewOf(ViewOfSize));
  registry.Add(OpDef("aten::alias(Tensor(a) self) -> Tensor(a)")
                   .Doc("self.")
                   .ViewOf(Same));
  registry.Add(OpDef("aten::detach(Tensor(a) self) -> Tensor(a)")
                   .Doc("self, outside of differentiation.")
                   .ViewOf(Same));
  registry.Add(
      OpDef("mica::receive(Tensor(a) message, int device) -> Tensor(a)")
          .Doc("What a device of a Schedule sent, where the message lies.")
          .Label("device")
          .ViewOf(Same));
  registry.Add(OpDef("aten::lift_fresh(Tensor(a) self) -> Tensor(a)")
                   .Doc("self.")
                   .ViewOf(Same));
  registry.Add(OpDef("aten::expand(Tensor(a) self, SymInt[] size, *, bool "
                     "implicit=False) -> Tensor(a)")
                   .Doc("Axes of size 1 repeated; -1 keeps a size.")
                   .ViewOf(Expand));
  registry.Add(
      OpDef("aten::as_strided(Tensor(a) self, SymInt[] size, SymInt[] stride, "
            "SymInt? storage_offset=None) -> Tensor(a)")
          .Doc("Any window of self's memory; the offset counts from self's "
               "first element, not from its storage's.")
          .ViewOf(AsStrided));
  registry.Add(
      OpDef("aten::_reshape_alias(Tensor(a) self, SymInt[] size, SymInt[] "
            "stride) -> Tensor(a)")
          .Doc("The elements under dims and strides that the caller found.")
          .ViewOf(ReshapeAlias));
  RegisterAxisViews(registry);
  RegisterPartViews(registry);
  RegisterComplexViews(registry);
}

}  // namespace mica
