// Copies of a tensor with some elements replaced.

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/infer.h"
#include "ops/shape/families.h"
#include "ops/shape/indexing.h"
#include "ops/shape/location.h"

namespace mica {
namespace {

// self, parameter 0, with `src`, parameter 1, written through `view`.
absl::StatusOr<TensorTypes> InferWritten(const OpCall& call,
                                         absl::StatusOr<View> view) {
  if (!view.ok()) return view.status();
  if (!BroadcastsTo(call.Type(1).dims, view->dims)) {
    return call.Wants(
        absl::StrCat("src that broadcasts to ",
                     FreshTensor(call.Type(1).dtype, view->dims).ToString()));
  }
  return SameTypeAs(0)(call);
}

absl::StatusOr<TensorTypes> InferSliceScatter(const OpCall& call) {
  return InferWritten(call, SliceView(call, call.Type(0),
                                      {.axis = call.Int(2),
                                       .start = IntOr(call, 3, 0),
                                       .end = IntOr(call, 4, INT64_MAX),
                                       .step = call.Int(5)}));
}

absl::StatusOr<TensorTypes> InferSelectScatter(const OpCall& call) {
  return InferWritten(call,
                      SelectView(call, call.Type(0), call.Int(2), call.Int(3)));
}

absl::StatusOr<TensorTypes> InferDiagonalScatter(const OpCall& call) {
  return InferWritten(call, DiagonalView(call, call.Type(0),
                                         {.shift = call.Int(2),
                                          .axis1 = call.Int(3),
                                          .axis2 = call.Int(4)}));
}

// The result has the base's strides too, since `stride` counts in them.
absl::StatusOr<TensorTypes> InferScatterView(const OpCall& call) {
  const TensorType& base = call.Type(0);
  if (!base.is_dense() || base.dtype != call.Type(1).dtype) {
    return call.Wants("a dense base and src of its dtype");
  }
  MICA_ASSIGN_OR_RETURN(
      TensorTypes types,
      InferWritten(call, WindowView(call, base, call.Ints(2), call.Ints(3),
                                    call.Int(4))));
  types[0].strides = base.strides;
  return types;
}

// The window is anywhere in the base's memory where it fits: which place that
// is shows in a run.
absl::Status CheckMovedWindow(const OpCall& call, int size, int offset) {
  if (!call.IsValue(offset) || !call.Type(offset).is_scalar) {
    return call.Wants("a host scalar as offset");
  }
  return WindowView(call, call.Type(0), call.Ints(size), call.Ints(size + 1), 0)
      .status();
}

absl::StatusOr<TensorTypes> InferWindowAt(const OpCall& call) {
  MICA_RETURN_IF_ERROR(CheckMovedWindow(call, 1, 3));
  return TensorTypes{FreshTensor(
      call.Type(0).dtype, Dims(call.Ints(1).begin(), call.Ints(1).end()))};
}

absl::StatusOr<TensorTypes> InferWriteWindowAt(const OpCall& call) {
  MICA_RETURN_IF_ERROR(CheckMovedWindow(call, 2, 4));
  const TensorType& base = call.Type(0);
  if (!base.is_dense() || base.dtype != call.Type(1).dtype) {
    return call.Wants("a dense base and src of its dtype");
  }
  MICA_ASSIGN_OR_RETURN(TensorTypes types,
                        InferWritten(call, WindowView(call, base, call.Ints(2),
                                                      call.Ints(3), 0)));
  types[0].strides = base.strides;
  return types;
}

// scatter with a tensor: `src` is at least as large as the index.
absl::StatusOr<TensorTypes> InferScatter(const OpCall& call) {
  const TensorType& self = call.Type(0);
  const TensorType& index = call.Type(2);
  const TensorType& src = call.Type(3);
  MICA_RETURN_IF_ERROR(CheckAlongAxis(call, self, index, 1));
  if (src.dtype != self.dtype) return call.Wants("src of self's dtype");
  if (index.num_elements() > 0 &&
      std::max(src.rank(), 1) != std::max(index.rank(), 1)) {
    return call.Wants("src with as many dims as the index");
  }
  const bool is_empty = index.num_elements() == 0;
  for (int i = 0; !is_empty && i < std::min(index.rank(), src.rank()); ++i) {
    if (index.dims[i] > src.dims[i]) {
      return call.Wants("src no smaller than the index");
    }
  }
  return SameTypeAs(0)(call);
}

absl::StatusOr<TensorTypes> InferScatterReduce(const OpCall& call) {
  const std::string& reduce = call.String(4);
  if (reduce != "sum" && reduce != "prod" && reduce != "mean" &&
      reduce != "amax" && reduce != "amin") {
    return call.Wants("reduce sum, prod, mean, amax or amin");
  }
  return InferScatter(call);
}

absl::StatusOr<TensorTypes> InferScatterValue(const OpCall& call) {
  MICA_RETURN_IF_ERROR(CheckAlongAxis(call, call.Type(0), call.Type(2), 1));
  if (call.IsValue(3) && call.Type(3).rank() != 0) {
    return call.Wants("a number as value");
  }
  return SameTypeAs(0)(call);
}

// index_add, index_copy: `source` is self with axis dim replaced by the index.
absl::StatusOr<TensorTypes> InferIndexWrite(const OpCall& call) {
  const TensorType& self = call.Type(0);
  const TensorType& index = call.Type(2);
  const TensorType& source = call.Type(3);
  MICA_ASSIGN_OR_RETURN(const int at,
                        NormalizeAxis(call, call.Int(1), self.rank()));
  Dims wanted = self.dims;
  if (self.rank() > 0) wanted[at] = index.num_elements();
  const bool fits =
      source.dims == wanted || (self.rank() == 0 && source.num_elements() == 1);
  if (index.rank() > 1 || !IsIndexDType(index.dtype) || !fits ||
      source.dtype != self.dtype) {
    return call.Wants("a list of indices and one slice of source for each");
  }
  return SameTypeAs(0)(call);
}

absl::StatusOr<TensorTypes> InferIndexFill(const OpCall& call) {
  MICA_RETURN_IF_ERROR(
      NormalizeAxis(call, call.Int(1), call.Type(0).rank()).status());
  if (call.Type(2).rank() > 1 || !IsIndexDType(call.Type(2).dtype)) {
    return call.Wants("a list of i32 or i64 indices");
  }
  if (call.IsValue(3) && call.Type(3).rank() != 0) {
    return call.Wants("a number as value");
  }
  return SameTypeAs(0)(call);
}

// How many elements one mask chooses shows in a run alone: values that vary
// along them are counted there.
absl::StatusOr<TensorTypes> InferPutByMask(const OpCall& call) {
  const TensorType& self = call.Type(0);
  const TensorType& values = call.Type(2);
  const std::vector<const TensorType*> indices = call.Types(1);
  auto is_given = [](const TensorType* index) { return index != nullptr; };
  const auto first = std::find_if(indices.begin(), indices.end(), is_given);
  if (std::any_of(first + 1, indices.end(), is_given)) {
    return absl::UnimplementedError(
        absl::StrCat(call.def().name(), ": a mask beside other indices"));
  }
  const TensorType* mask = *first;
  const int lead = static_cast<int>(first - indices.begin());
  if (lead + mask->rank() > self.rank() ||
      !std::equal(mask->dims.begin(), mask->dims.end(),
                  self.dims.begin() + lead)) {
    return call.Wants("a mask of the dims that it is for");
  }
  Dims chosen(self.dims.begin(), self.dims.begin() + lead);
  const int place = values.rank() - (self.rank() - lead - mask->rank()) - 1;
  chosen.push_back(place >= 0 ? values.dims[place] : 1);
  chosen.insert(chosen.end(), self.dims.begin() + lead + mask->rank(),
                self.dims.end());
  if (!BroadcastsTo(values.dims, chosen)) {
    return call.Wants("values that broadcast to the indexed elements");
  }
  return SameTypeAs(0)(call);
}

absl::StatusOr<TensorTypes> InferIndexPut(const OpCall& call) {
  const TensorType& self = call.Type(0);
  const TensorType& values = call.Type(2);
  if (values.dtype != self.dtype) return call.Wants("values of self's dtype");
  if (HasMask(call, 1)) return InferPutByMask(call);
  MICA_ASSIGN_OR_RETURN(Dims dims, IndexedDims(call, 1));
  if (!BroadcastsTo(values.dims, dims)) {
    return call.Wants("values that broadcast to the indexed elements");
  }
  return SameTypeAs(0)(call);
}

// What is written where an index says is read there: self, dim and index lead
// all of these operators' parameters. Not so index_fill's, whose index may
// count from the end.
PartWrite ReadBy(const char* reader, const char* writer) {
  return {.reader = reader,
          .reader_params = {0, 1, 2},
          .writer = writer,
          .writer_params = {0, 1, 2, PartWrite::kPart}};
}
PartWrite Slices() { return ReadBy("aten.index_select", "aten.index_copy"); }
PartWrite Elements() { return ReadBy("aten.gather", "aten.scatter.src"); }

void RegisterWindowWrites(OpRegistry& registry) {
  registry.Add(
      OpDef("aten::slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? "
            "start=None, SymInt? end=None, SymInt step=1) -> Tensor")
          .Doc("self with a slice replaced by src.")
          .Infer(InferSliceScatter));
  registry.Add(OpDef("aten::select_scatter(Tensor self, Tensor src, int dim, "
                     "SymInt index) -> Tensor")
                   .Doc("self with the part at one index replaced by src.")
                   .Infer(InferSelectScatter));
  registry.Add(
      OpDef("aten::diagonal_scatter(Tensor self, Tensor src, int offset=0, int "
            "dim1=0, int dim2=1) -> Tensor")
          .Doc("self with a diagonal replaced by src.")
          .Infer(InferDiagonalScatter));
  registry.Add(
      OpDef("mica::scatter_view(Tensor base, Tensor src, int[] size, "
            "int[] stride, int storage_offset) -> Tensor")
          .Doc("base with the window of its memory that size, stride "
               "and offset say, in elements, replaced by src.")
          .Infer(InferScatterView)
          .WritesPart({.reader = "aten.as_strided",
                       .reader_params = {0, 2, 3, 4},
                       .writer = "mica.scatter_view",
                       .writer_params = {0, PartWrite::kPart, 2, 3, 4}}));
  registry.Add(
      OpDef("mica::window_at(Tensor base, SymInt[] size, SymInt[] stride, "
            "Scalar storage_offset) -> Tensor")
          .Doc("A copy of the window of base's memory that size and stride "
               "say, in elements, from an offset on that a run decides.")
          .Infer(InferWindowAt));
  registry.Add(
      OpDef("mica::write_window_at(Tensor base, Tensor src, SymInt[] size, "
            "SymInt[] stride, Scalar storage_offset) -> Tensor")
          .Doc("base with that window replaced by src.")
          .Infer(InferWriteWindowAt)
          .WritesPart({.reader = "mica.window_at",
                       .reader_params = {0, 2, 3, 4},
                       .writer = "mica.write_window_at",
                       .writer_params = {0, PartWrite::kPart, 2, 3, 4}}));
}

}  // namespace

void RegisterScatterOps(OpRegistry& registry) {
  registry.Add(OpDef("aten::scatter.src(Tensor self, int dim, Tensor index, "
                     "Tensor src) -> Tensor")
                   .Doc("self with each element of src written where its index "
                        "on axis dim is index's element.")
                   .Infer(InferScatter)
                   .WritesPart(Elements())
                   .RaisesByValues());
  registry.Add(OpDef("aten::scatter.value(Tensor self, int dim, Tensor index, "
                     "Scalar value) -> Tensor")
                   .Doc("As scatter.src with one number.")
                   .Infer(InferScatterValue)
                   .WritesPart(Elements())
                   .RaisesByValues());
  registry.Add(OpDef("aten::scatter_add(Tensor self, int dim, Tensor index, "
                     "Tensor src) -> Tensor")
                   .Doc("As scatter.src, but added.")
                   .Infer(InferScatter)
                   .WritesPart(Elements())
                   .RaisesByValues());
  registry.Add(
      OpDef("aten::scatter_reduce.two(Tensor self, int dim, Tensor index, "
            "Tensor src, str reduce, *, bool include_self=True) -> Tensor")
          .Doc("As scatter.src, but combined by sum, prod, mean, amax or amin.")
          .Infer(InferScatterReduce)
          .WritesPart(Elements())
          .RaisesByValues());
  registry.Add(OpDef("aten::index_add(Tensor self, int dim, Tensor index, "
                     "Tensor source, *, Scalar alpha=1) -> Tensor")
                   .Doc("alpha times the slices of source added at index.")
                   .Infer(InferIndexWrite)
                   .WritesPart(Slices())
                   .RaisesByValues());
  registry.Add(OpDef("aten::index_copy(Tensor self, int dim, Tensor index, "
                     "Tensor source) -> Tensor")
                   .Doc("self with the slices at index replaced by source's.")
                   .Infer(InferIndexWrite)
                   .WritesPart(Slices())
                   .RaisesByValues());
  registry.Add(OpDef("aten::index_fill.int_Scalar(Tensor self, int dim, Tensor "
                     "index, Scalar value) -> Tensor")
                   .Doc("self with the slices at index filled.")
                   .Infer(InferIndexFill)
                   .RaisesByValues());
  registry.Add(OpDef("aten::index_put(Tensor self, Tensor?[] indices, Tensor "
                     "values, bool accumulate=False) -> Tensor")
                   .Doc("self with self[indices] replaced by, or increased by, "
                        "values.")
                   .Infer(InferIndexPut)
                   .WritesPart({.reader = "aten.index.Tensor",
                                .reader_params = {0, 1},
                                .writer = "aten.index_put",
                                .writer_params = {0, 1, PartWrite::kPart}})
                   .RaisesByValues());
  RegisterWindowWrites(registry);
}

}  // namespace mica
