// Elements chosen by index tensors.

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/infer.h"
#include "ops/shape/families.h"
#include "ops/shape/indexing.h"

namespace mica {
namespace {

absl::StatusOr<TensorTypes> InferIndex(const OpCall& call) {
  MICA_ASSIGN_OR_RETURN(Dims dims, IndexedDims(call, 1));
  return TensorTypes{FreshTensor(call.Type(0).dtype, std::move(dims))};
}

absl::StatusOr<TensorTypes> InferIndexSelect(const OpCall& call) {
  const TensorType& self = call.Type(0);
  const TensorType& index = call.Type(2);
  MICA_ASSIGN_OR_RETURN(const int at,
                        NormalizeAxis(call, call.Int(1), self.rank()));
  if (index.rank() > 1 || !IsIndexDType(index.dtype)) {
    return call.Wants("a list of i32 or i64 indices");
  }
  Dims dims = self.dims;
  if (self.rank() > 0) {
    dims[at] = index.num_elements();
  } else if (index.num_elements() != 1) {
    return call.Wants("one index for a tensor without dims");
  }
  return TensorTypes{FreshTensor(self.dtype, std::move(dims))};
}

absl::StatusOr<TensorTypes> InferGather(const OpCall& call) {
  const TensorType& self = call.Type(0);
  MICA_RETURN_IF_ERROR(CheckAlongAxis(call, self, call.Type(2), 1));
  return TensorTypes{FreshTensor(self.dtype, call.Type(2).dims)};
}

absl::StatusOr<TensorTypes> InferTake(const OpCall& call) {
  if (call.Type(1).dtype != DType::kI64) return call.Wants("i64 indices");
  return TensorTypes{FreshTensor(call.Type(0).dtype, call.Type(1).dims)};
}

}  // namespace

void RegisterIndexOps(OpRegistry& registry) {
  constexpr absl::string_view kDoc =
      "self[indices] as Python indexes: None keeps an axis, the others "
      "broadcast.";
  registry.Add(
      OpDef("aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor")
          .Doc(kDoc)
          .Infer(InferIndex)
          .RaisesByValues());
  registry.Add(OpDef("aten::_unsafe_index.Tensor(Tensor self, Tensor?[] "
                     "indices) -> Tensor")
                   .Doc(kDoc)
                   .Infer(InferIndex));
  registry.Add(OpDef("aten::index_select(Tensor self, int dim, Tensor index) "
                     "-> Tensor")
                   .Doc("The parts of axis dim that index lists.")
                   .Infer(InferIndexSelect)
                   .RaisesByValues());
  registry.Add(OpDef("aten::gather(Tensor self, int dim, Tensor index, *, bool "
                     "sparse_grad=False) -> Tensor")
                   .Doc("self with the index on axis dim replaced by index's "
                        "element, at each place of index.")
                   .Infer(InferGather)
                   .RaisesByValues());
  registry.Add(OpDef("aten::take(Tensor self, Tensor index) -> Tensor")
                   .Doc("Elements by their row-major number.")
                   .Infer(InferTake)
                   .RaisesByValues());
}

}  // namespace mica
