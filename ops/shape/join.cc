// Several tensors in one.

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/tensor/promotion.h"
#include "ops/infer.h"
#include "ops/shape/families.h"

namespace mica {
namespace {

// torch lets an empty list of numbers join tensors of any rank.
bool IsSkipped(const TensorType& type) {
  return type.rank() == 1 && type.dims[0] == 0;
}

absl::StatusOr<TensorTypes> InferCat(const OpCall& call) {
  const std::vector<const TensorType*> types = call.Types(0);
  if (types.empty()) return call.Wants("at least one tensor");
  const TensorType* first = types[0];
  Promotion promotion;
  for (const TensorType* type : types) {
    promotion.Add(*type);
    if (IsSkipped(*first)) first = type;
  }
  if (first->rank() == 0) return call.Wants("tensors with dims");
  MICA_ASSIGN_OR_RETURN(const int at,
                        NormalizeAxis(call, call.Int(1), first->rank()));
  Dims dims = first->dims;
  dims[at] = 0;
  for (const TensorType* type : types) {
    if (IsSkipped(*type)) continue;
    Dims others = type->dims;
    if (type->rank() == first->rank()) others[at] = dims[at];
    if (others != dims) return call.Wants("equal dims but the joined one");
    dims[at] += type->dims[at];
  }
  return TensorTypes{FreshTensor(promotion.dtype(), std::move(dims))};
}

absl::StatusOr<TensorTypes> InferStack(const OpCall& call) {
  const std::vector<const TensorType*> types = call.Types(0);
  if (types.empty()) return call.Wants("at least one tensor");
  Promotion promotion;
  for (const TensorType* type : types) {
    promotion.Add(*type);
    if (type->dims != types[0]->dims) return call.Wants("equal dims");
  }
  MICA_ASSIGN_OR_RETURN(const int at,
                        NormalizeAxis(call, call.Int(1), types[0]->rank() + 1));
  Dims dims = types[0]->dims;
  dims.insert(dims.begin() + at, static_cast<int64_t>(types.size()));
  return TensorTypes{FreshTensor(promotion.dtype(), std::move(dims))};
}

}  // namespace

void RegisterJoinOps(OpRegistry& registry) {
  registry.Add(OpDef("aten::cat(Tensor[] tensors, int dim=0) -> Tensor")
                   .Doc("The tensors one after another along an axis.")
                   .Infer(InferCat));
  registry.Add(OpDef("aten::stack(Tensor[] tensors, int dim=0) -> Tensor")
                   .Doc("The tensors along a new axis.")
                   .Infer(InferStack));
}

}  // namespace mica
