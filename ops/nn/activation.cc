// Activation functions.

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/infer.h"
#include "ops/nn/families.h"

namespace mica {
namespace {

absl::StatusOr<TensorTypes> InferGelu(const OpCall& call) {
  if (call.String(1) != "none" && call.String(1) != "tanh") {
    return call.Wants("approximate \"none\" or \"tanh\"");
  }
  return Pointwise({.accepts = Accepts::kFloating})(call);
}

// Half of the axis: the first part times the sigmoid of the second.
absl::StatusOr<TensorTypes> InferGlu(const OpCall& call) {
  const TensorType& self = call.Type(0);
  MICA_ASSIGN_OR_RETURN(const int axis,
                        NormalizeAxis(call, call.Int(1), self.rank()));
  if (self.rank() == 0 || self.dims[axis] % 2 != 0 || !IsFloating(self.dtype)) {
    return call.Wants("a floating-point tensor of even size along dim");
  }
  Dims dims = self.dims;
  dims[axis] /= 2;
  return TensorTypes{FreshTensor(self.dtype, std::move(dims))};
}

absl::StatusOr<TensorTypes> InferLogSigmoid(const OpCall& call) {
  const TensorType& self = call.Type(0);
  if (!IsFloating(self.dtype)) return call.Wants("a floating-point tensor");
  return TensorTypes(2, FreshTensor(self.dtype, self.dims));
}

}  // namespace

void RegisterActivationOps(OpRegistry& registry) {
  const PointwiseRule any = {};
  const PointwiseRule floating = {.accepts = Accepts::kFloating};
  registry.Add(PointwiseOp("aten::relu(Tensor self) -> Tensor", "max(self, 0).",
                           {.accepts = Accepts::kNoBool}));
  registry.Add(
      OpDef("aten::gelu(Tensor self, *, str approximate=\"none\") -> Tensor")
          .Doc("self times the normal distribution's P(X <= self), by erf or "
               "by a tanh formula.")
          .Infer(InferGelu)
          .Elementwise());
  registry.Add(PointwiseOp("aten::silu(Tensor self) -> Tensor",
                           "self * sigmoid(self).", floating));
  registry.Add(PointwiseOp("aten::mish(Tensor self) -> Tensor",
                           "self * tanh(softplus(self)).", floating));
  registry.Add(PointwiseOp(
      "aten::leaky_relu(Tensor self, Scalar negative_slope=0.01) -> Tensor",
      "self above 0, else negative_slope * self.", any));
  registry.Add(PointwiseOp(
      "aten::elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar "
      "input_scale=1) -> Tensor",
      "scale * self above 0, else scale * alpha * expm1(input_scale * self).",
      floating));
  registry.Add(PointwiseOp("aten::celu(Tensor self, Scalar alpha=1.) -> Tensor",
                           "self above 0, else alpha * expm1(self / alpha).",
                           floating));
  registry.Add(PointwiseOp(
      "aten::hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> "
      "Tensor",
      "self moved into [min_val, max_val].", any));
  registry.Add(PointwiseOp("aten::hardswish(Tensor self) -> Tensor",
                           "self * hardsigmoid(self).", floating));
  registry.Add(PointwiseOp("aten::hardsigmoid(Tensor self) -> Tensor",
                           "(self + 3) / 6 moved into [0, 1].", floating));
  registry.Add(
      PointwiseOp("aten::hardshrink(Tensor self, Scalar lambd=0.5) -> Tensor",
                  "0 where |self| <= lambd, else self.", floating));
  registry.Add(
      PointwiseOp("aten::softshrink(Tensor self, Scalar lambd=0.5) -> Tensor",
                  "self moved by lambd towards 0.", floating));
  registry.Add(PointwiseOp(
      "aten::softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> "
      "Tensor",
      "log(1 + exp(beta * self)) / beta; self where beta * self > threshold.",
      floating));
  registry.Add(PointwiseOp(
      "aten::threshold(Tensor self, Scalar threshold, Scalar value) -> Tensor",
      "self above threshold, else value.", any));
  registry.Add(
      PointwiseOp("aten::_prelu_kernel(Tensor self, Tensor weight) -> Tensor",
                  "self above 0, else weight * self.", {.operands = {0, 1}}));
  registry.Add(
      OpDef("aten::log_sigmoid_forward(Tensor self) -> (Tensor output, Tensor "
            "buffer)")
          .Doc("log(sigmoid(self)), and exp(-|self|).")
          .Infer(InferLogSigmoid));
  registry.Add(
      OpDef("aten::glu(Tensor self, int dim=-1) -> Tensor")
          .Doc("The first half along dim times the sigmoid of the second.")
          .Infer(InferGlu));
}

}  // namespace mica
