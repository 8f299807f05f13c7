// An optimizer's step on one parameter, as torch's fused optimizers take it.

#include <initializer_list>

#include "ops/infer.h"
#include "ops/optim/families.h"

namespace mica {
namespace {

// True if the tensors given for `params` have the type of the first parameter
// and every other value is a number or a tensor of one element.
bool AreAlike(const OpCall& call, std::initializer_list<int> params,
              int first_number) {
  const TensorType& self = call.Type(0);
  for (int param : params) {
    if (call.Has(param) && !SameShape(call.Type(param), self)) return false;
  }
  const int count = static_cast<int>(call.arguments().size());
  for (int i = first_number; i < count; ++i) {
    if (call.IsValue(i) && call.Type(i).num_elements() != 1) return false;
  }
  return IsFloating(self.dtype) && !self.is_scalar;
}

absl::StatusOr<TensorTypes> InferAdam(const OpCall& call) {
  if (!AreAlike(call, {1, 2, 3}, 4)) {
    return call.Wants(
        "a floating-point parameter, gradient and averages of one shape, and "
        "numbers,");
  }
  const TensorType& self = call.Type(0);
  return TensorTypes(3, FreshTensor(self.dtype, self.dims));
}

absl::StatusOr<TensorTypes> InferSgd(const OpCall& call) {
  if (!AreAlike(call, {1, 2}, 3)) {
    return call.Wants(
        "a floating-point parameter, gradient and momentum of one shape, and "
        "numbers,");
  }
  const TensorType& self = call.Type(0);
  const TensorType result = FreshTensor(self.dtype, self.dims);
  return TensorTypes{result, call.Has(2) ? result : AbsentResultType()};
}

}  // namespace

void RegisterStepOps(OpRegistry& registry) {
  registry.Add(
      OpDef("mica::adam_step(Tensor self, Tensor grad, Tensor exp_avg, Tensor "
            "exp_avg_sq, Tensor step, Scalar lr, Scalar beta1, Scalar beta2, "
            "Scalar weight_decay, Scalar eps, bool maximize=False, bool "
            "is_decoupled=False) -> (Tensor self, Tensor exp_avg, Tensor "
            "exp_avg_sq)")
          .Doc("Adam's step number `step` on one parameter; decoupled weight "
               "decay is AdamW's. Loshchilov and Hutter (2019), algorithm 2.")
          .Infer(InferAdam));
  registry.Add(
      OpDef("mica::sgd_step(Tensor self, Tensor grad, Tensor? "
            "momentum_buffer, Scalar weight_decay, Scalar momentum, Scalar "
            "lr, Scalar dampening, bool nesterov=False, bool maximize=False, "
            "bool is_first_step=False) -> (Tensor self, Tensor "
            "momentum_buffer)")
          .Doc("A step of gradient descent on one parameter, with momentum if "
               "there is a buffer for it; the first step fills it.")
          .Infer(InferSgd));
}

}  // namespace mica
