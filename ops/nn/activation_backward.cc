// Gradients of activation functions: of the loss with respect to the input,
// from that with respect to the result.

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/infer.h"
#include "ops/nn/families.h"

namespace mica {
namespace {

absl::StatusOr<TensorTypes> InferGluBackward(const OpCall& call) {
  const TensorType& grad = call.Type(0);
  const TensorType& self = call.Type(1);
  MICA_ASSIGN_OR_RETURN(const int axis,
                        NormalizeAxis(call, call.Int(2), self.rank()));
  if (self.rank() == 0 || self.dims[axis] % 2 != 0 || !IsFloating(self.dtype)) {
    return call.Wants("a floating-point tensor of even size along dim");
  }
  Dims half = self.dims;
  half[axis] /= 2;
  if (grad.dims != half || grad.dtype != self.dtype) {
    return call.Wants("a gradient of half self's size along dim");
  }
  return TensorTypes{FreshTensor(self.dtype, self.dims)};
}

// Gradients of both operands, before the weight's is summed to its size.
absl::StatusOr<TensorTypes> InferPreluBackward(const OpCall& call) {
  MICA_ASSIGN_OR_RETURN(
      TensorTypes types,
      Pointwise({.operands = {0, 1, 2}, .accepts = Accepts::kFloating})(call));
  types.push_back(types[0]);
  return types;
}

// A negative slope turns signs around, so that the result doesn't tell the
// input's.
absl::StatusOr<TensorTypes> InferLeakyReluBackward(const OpCall& call) {
  if (call.Bool(3) && (call.IsValue(2) || call.Number(2) < 0)) {
    return call.Wants("a slope that is not negative, to work from the result");
  }
  return Pointwise({.operands = {0, 1}})(call);
}

absl::StatusOr<TensorTypes> InferEluBackward(const OpCall& call) {
  if (call.Bool(4) && (call.IsValue(1) || call.Number(1) < 0)) {
    return call.Wants("an alpha that is not negative, to work from the result");
  }
  return Pointwise({.operands = {0, 5}, .accepts = Accepts::kFloating})(call);
}

void AddGradient(OpRegistry& registry, absl::string_view schema,
                 absl::string_view doc, ParamList operands = {0, 1}) {
  registry.Add(PointwiseOp(
      schema, doc,
      {.operands = std::move(operands), .accepts = Accepts::kFloating}));
}

void RegisterRectifierBackwardOps(OpRegistry& registry) {
  registry.Add(PointwiseOp(
      "aten::threshold_backward(Tensor grad_output, Tensor self, Scalar "
      "threshold) -> Tensor",
      "0 where self <= threshold, else grad_output.",
      {.operands = {0, 1}, .accepts = Accepts::kNoBool}));
  AddGradient(registry,
              "aten::hardtanh_backward(Tensor grad_output, Tensor self, Scalar "
              "min_val, Scalar max_val) -> Tensor",
              "grad_output where min_val < self < max_val, else 0.");
  registry.Add(
      OpDef("aten::leaky_relu_backward(Tensor grad_output, Tensor self, Scalar "
            "negative_slope, bool self_is_result) -> Tensor")
          .Doc("grad_output, times negative_slope where self <= 0.")
          .Infer(InferLeakyReluBackward)
          .Elementwise());
  AddGradient(registry,
              "aten::hardswish_backward(Tensor grad_output, Tensor self) -> "
              "Tensor",
              "grad_output times 0 below -3, self/3 + 1/2 up to 3, 1 above.");
  AddGradient(registry,
              "aten::hardsigmoid_backward(Tensor grad_output, Tensor self) -> "
              "Tensor",
              "grad_output / 6 where -3 < self < 3, else 0.");
  AddGradient(registry,
              "aten::hardshrink_backward(Tensor grad_out, Tensor self, Scalar "
              "lambd) -> Tensor",
              "0 where |self| <= lambd, else grad_out.");
  AddGradient(registry,
              "aten::softshrink_backward(Tensor grad_output, Tensor self, "
              "Scalar lambd) -> Tensor",
              "0 where |self| <= lambd, else grad_output.");
  registry.Add(
      OpDef("aten::_prelu_kernel_backward(Tensor grad_output, Tensor self, "
            "Tensor weight) -> (Tensor, Tensor)")
          .Doc("Gradients of self and of weight, each element by itself.")
          .Infer(InferPreluBackward));
}

void RegisterSmoothBackwardOps(OpRegistry& registry) {
  AddGradient(registry,
              "aten::sigmoid_backward(Tensor grad_output, Tensor output) -> "
              "Tensor",
              "grad_output * output * (1 - output).");
  AddGradient(
      registry,
      "aten::tanh_backward(Tensor grad_output, Tensor output) -> Tensor",
      "grad_output * (1 - output²).");
  AddGradient(registry,
              "aten::silu_backward(Tensor grad_output, Tensor self) -> Tensor",
              "grad_output * s * (1 + self * (1 - s)), s = sigmoid(self).");
  AddGradient(registry,
              "aten::mish_backward(Tensor grad_output, Tensor self) -> Tensor",
              "grad_output times the slope of self * tanh(softplus(self)).");
  registry.Add(
      OpDef("aten::elu_backward(Tensor grad_output, Scalar alpha, Scalar "
            "scale, Scalar input_scale, bool is_result, Tensor "
            "self_or_result) -> Tensor")
          .Doc("grad_output times elu's slope, from its input or its result.")
          .Infer(InferEluBackward)
          .Elementwise());
  AddGradient(registry,
              "aten::softplus_backward(Tensor grad_output, Tensor self, Scalar "
              "beta, Scalar threshold) -> Tensor",
              "grad_output * sigmoid(beta * self); grad_output where beta * "
              "self > threshold.");
  AddGradient(registry,
              "aten::log_sigmoid_backward(Tensor grad_output, Tensor self, "
              "Tensor buffer) -> Tensor",
              "grad_output * sigmoid(-self), by buffer = exp(-|self|).",
              {0, 1, 2});
  registry.Add(
      OpDef("aten::glu_backward(Tensor grad_output, Tensor self, int dim) -> "
            "Tensor")
          .Doc("The gradient of both halves of self along dim.")
          .Infer(InferGluBackward));
  registry.Add(PointwiseOp(
      "aten::native_dropout_backward(Tensor grad_output, Tensor mask, float "
      "scale) -> Tensor",
      "grad_output * scale where mask holds, else 0.",
      {.operands = {0}, .result = ResultRule::kFloat}));
}

}  // namespace

void RegisterActivationBackwardOps(OpRegistry& registry) {
  RegisterRectifierBackwardOps(registry);
  RegisterSmoothBackwardOps(registry);
}

}  // namespace mica
