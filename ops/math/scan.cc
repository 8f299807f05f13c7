// Running sums, and orders of the elements along an axis.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/infer.h"
#include "ops/math/families.h"

namespace mica {
namespace {

// cumsum, cumprod: integers widen to i64.
absl::StatusOr<TensorTypes> InferScan(const OpCall& call) {
  const TensorType& self = call.Type(0);
  MICA_RETURN_IF_ERROR(NormalizeAxis(call, call.Int(1), self.rank()).status());
  const DType own = IsFloating(self.dtype) ? self.dtype : DType::kI64;
  return TensorTypes{FreshTensor(DTypeOr(call, 2, own), self.dims)};
}

// Values and indices along parameter `dim`.
InferFn SortAlong(int dim) {
  return [dim](const OpCall& call) -> absl::StatusOr<TensorTypes> {
    const TensorType& self = call.Type(0);
    MICA_RETURN_IF_ERROR(
        NormalizeAxis(call, call.Int(dim), self.rank()).status());
    return TensorTypes{FreshTensor(self.dtype, self.dims),
                       FreshTensor(DType::kI64, self.dims)};
  };
}

absl::StatusOr<TensorTypes> InferTopk(const OpCall& call) {
  const TensorType& self = call.Type(0);
  MICA_ASSIGN_OR_RETURN(const int axis,
                        NormalizeAxis(call, call.Int(2), self.rank()));
  const int64_t k = call.Int(1);
  if (k < 0 || k > (self.rank() == 0 ? 1 : self.dims[axis])) {
    return call.Wants(
        absl::StrCat("k between 0 and the axis's size, not ", k, ","));
  }
  Dims dims = self.dims;
  if (self.rank() > 0) dims[axis] = k;
  return TensorTypes{FreshTensor(self.dtype, dims),
                     FreshTensor(DType::kI64, dims)};
}

}  // namespace

void RegisterScanOps(OpRegistry& registry) {
  registry.Add(OpDef("aten::cumsum(Tensor self, int dim, *, ScalarType? "
                     "dtype=None) -> Tensor")
                   .Doc("Sums up to and including each element along dim.")
                   .Infer(InferScan));
  registry.Add(OpDef("aten::cumprod(Tensor self, int dim, *, ScalarType? "
                     "dtype=None) -> Tensor")
                   .Doc("Products up to and including each element along dim.")
                   .Infer(InferScan));
  registry.Add(OpDef("aten::sort(Tensor self, int dim=-1, bool "
                     "descending=False) -> (Tensor values, Tensor indices)")
                   .Doc("The elements along dim in order, equal ones in their "
                        "old order, and where they stood.")
                   .Infer(SortAlong(1)));
  registry.Add(
      OpDef("aten::sort.stable(Tensor self, *, bool? stable, int dim=-1, bool "
            "descending=False) -> (Tensor values, Tensor indices)")
          .Doc("As sort.")
          .Infer(SortAlong(2)));
  registry.Add(OpDef("aten::topk(Tensor self, SymInt k, int dim=-1, bool "
                     "largest=True, bool sorted=True) -> (Tensor values, "
                     "Tensor indices)")
                   .Doc("The k largest or smallest elements along dim, best "
                        "first, and where they stood.")
                   .Infer(InferTopk));
}

}  // namespace mica
