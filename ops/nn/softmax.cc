// Softmax and its logarithm.

#include "framework/base/status.h"
#include "ops/infer.h"
#include "ops/nn/families.h"

namespace mica {
namespace {

absl::StatusOr<TensorTypes> InferAlong(const OpCall& call, DType dtype) {
  const TensorType& self = call.Type(0);
  MICA_RETURN_IF_ERROR(NormalizeAxis(call, call.Int(1), self.rank()).status());
  if (!IsFloating(dtype)) return call.Wants("a floating-point tensor");
  return TensorTypes{FreshTensor(dtype, self.dims)};
}

// `half_to_float` is for devices that read f16 and write f32.
absl::StatusOr<TensorTypes> InferSoftmax(const OpCall& call) {
  const DType dtype = call.Type(0).dtype;
  return InferAlong(call, call.Bool(2) ? DType::kF32 : dtype);
}

absl::StatusOr<TensorTypes> InferSafeSoftmax(const OpCall& call) {
  return InferAlong(call, DTypeOr(call, 2, call.Type(0).dtype));
}

}  // namespace

void RegisterSoftmaxOps(OpRegistry& registry) {
  registry.Add(
      OpDef("aten::_softmax(Tensor self, int dim, bool half_to_float) -> "
            "Tensor")
          .Doc("exp(self) divided by its sum along dim.")
          .Infer(InferSoftmax));
  registry.Add(
      OpDef("aten::_log_softmax(Tensor self, int dim, bool half_to_float) -> "
            "Tensor")
          .Doc("self less the logarithm of the sum of exp(self) along dim.")
          .Infer(InferSoftmax));
  registry.Add(OpDef("aten::_safe_softmax(Tensor self, int dim, ScalarType? "
                     "dtype=None) -> Tensor")
                   .Doc("softmax, with zeros where all along dim is -inf.")
                   .Infer(InferSafeSoftmax));
}

}  // namespace mica
