// Results whose size depends on data.

#include <algorithm>

#include "framework/base/status.h"
#include "ops/infer.h"
#include "ops/shape/families.h"

namespace mica {
namespace {

// The most that there can be: every element.
TensorType Places(const TensorType& self) {
  return FreshTensor(DType::kI64, {self.num_elements(), self.rank()});
}

absl::StatusOr<TensorTypes> InferNonzero(const OpCall& call) {
  return TensorTypes{Places(call.Type(0))};
}

absl::StatusOr<TensorType> Chosen(const OpCall& call) {
  const TensorType& self = call.Type(0);
  const TensorType& mask = call.Type(1);
  Dims dims;
  if (mask.dtype != DType::kBool ||
      !BroadcastDims(self.dims, mask.dims, &dims)) {
    return call.Wants("a mask of bool that broadcasts with self");
  }
  const TensorType all = FreshTensor(self.dtype, std::move(dims));
  return FreshTensor(self.dtype, {all.num_elements()});
}

absl::StatusOr<TensorTypes> InferMaskedSelect(const OpCall& call) {
  MICA_ASSIGN_OR_RETURN(TensorType chosen, Chosen(call));
  return TensorTypes{std::move(chosen)};
}

absl::StatusOr<TensorTypes> InferBoundedNonzero(const OpCall& call) {
  return TensorTypes{Places(call.Type(0)), FreshTensor(DType::kI64, {})};
}

absl::StatusOr<TensorTypes> InferBoundedMaskedSelect(const OpCall& call) {
  MICA_ASSIGN_OR_RETURN(TensorType chosen, Chosen(call));
  return TensorTypes{std::move(chosen), FreshTensor(DType::kI64, {})};
}

}  // namespace

void RegisterBoundedOps(OpRegistry& registry) {
  registry.Add(
      OpDef("aten::nonzero(Tensor self) -> Tensor")
          .Doc("The indices of the elements that aren't 0, a row each.")
          .Infer(InferNonzero)
          .Bounded());
  registry.Add(OpDef("aten::masked_select(Tensor self, Tensor mask) -> Tensor")
                   .Doc("The elements of self where mask is true.")
                   .Infer(InferMaskedSelect)
                   .Bounded());
  registry.Add(OpDef("mica::nonzero(Tensor self) -> (Tensor places, Tensor "
                     "count)")
                   .Doc("aten.nonzero with a row for every element, 0 behind "
                        "the last that there is, and how many there are.")
                   .Infer(InferBoundedNonzero));
  registry.Add(OpDef("mica::masked_select(Tensor self, Tensor mask) -> (Tensor "
                     "chosen, Tensor count)")
                   .Doc("aten.masked_select with room for every element, 0 "
                        "behind the last that is chosen, and how many are.")
                   .Infer(InferBoundedMaskedSelect));
}

}  // namespace mica
