// Gradients of losses. Reduction: 0 none, 1 mean, 2 sum.

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/tensor/promotion.h"
#include "ops/infer.h"
#include "ops/nn/backward.h"
#include "ops/nn/families.h"
#include "ops/nn/loss.h"

namespace mica {
namespace {

// Gradient of self from (grad_output, self, target, ...), which broadcast to
// self's dims; `reduction` is the position of that parameter.
InferFn PairLossBackward(int reduction) {
  return [reduction](const OpCall& call) -> absl::StatusOr<TensorTypes> {
    MICA_RETURN_IF_ERROR(CheckReduction(call, reduction));
    const TensorType& self = call.Type(1);
    if (!IsFloating(self.dtype)) return call.Wants("a floating-point tensor");
    for (int param = 0; param < reduction; ++param) {
      if (!call.IsValue(param)) continue;
      const TensorType& type = call.Type(param);
      if (type.dtype != self.dtype || !BroadcastsTo(type.dims, self.dims)) {
        return call.Wants("tensors of self's dtype that broadcast to it");
      }
    }
    return TensorTypes{FreshTensor(self.dtype, self.dims)};
  };
}

// Whether `self` is [n,c] and `target` [n], or [c] and []; or, with `num_axes`
// 2, [n,c,h,w] and [n,h,w].
absl::StatusOr<Dims> CheckClasses(const OpCall& call, int param, int num_axes) {
  const TensorType& self = call.Type(param);
  const TensorType& target = call.Type(param + 1);
  const bool is_batch = self.rank() == 2 + num_axes;
  if (!(is_batch || (num_axes == 0 && self.rank() == 1)) ||
      !IsFloating(self.dtype) || target.dtype != DType::kI64) {
    return call.Wants("floating-point classes and i64 targets");
  }
  Dims wanted = self.dims;
  wanted.erase(wanted.begin() + (is_batch ? 1 : 0));
  if (target.dims != wanted) return call.Wants("a target for each element");
  const Dims classes = {self.dims[is_batch ? 1 : 0]};
  if (call.Has(param + 2) && (call.Type(param + 2).dims != classes ||
                              call.Type(param + 2).dtype != self.dtype)) {
    return call.Wants("weight[c]");
  }
  MICA_RETURN_IF_ERROR(CheckReduction(call, param + 3));
  const bool is_reduced = call.Int(param + 3) != 0 || !is_batch;
  return is_reduced ? Dims{} : wanted;
}

absl::StatusOr<TensorTypes> InferNll2d(const OpCall& call) {
  MICA_ASSIGN_OR_RETURN(Dims dims, CheckClasses(call, 0, 2));
  const DType dtype = call.Type(0).dtype;
  return TensorTypes{FreshTensor(dtype, std::move(dims)),
                     FreshTensor(dtype, {})};
}

InferFn NllBackward(int num_axes) {
  return [num_axes](const OpCall& call) -> absl::StatusOr<TensorTypes> {
    const TensorType& self = call.Type(1);
    MICA_ASSIGN_OR_RETURN(Dims dims, CheckClasses(call, 1, num_axes));
    MICA_RETURN_IF_ERROR(CheckGradient(call, 0, dims, self.dtype));
    if (call.Type(6).num_elements() != 1 || call.Type(6).dtype != self.dtype) {
      return call.Wants("total_weight of one element");
    }
    return TensorTypes{FreshTensor(self.dtype, self.dims)};
  };
}

}  // namespace

void RegisterLossBackwardOps(OpRegistry& registry) {
  registry.Add(OpDef("aten::mse_loss_backward(Tensor grad_output, Tensor self, "
                     "Tensor target, int reduction) -> Tensor")
                   .Doc("grad_output * 2 (self - target).")
                   .Infer(PairLossBackward(3)));
  registry.Add(
      OpDef("aten::smooth_l1_loss_backward(Tensor grad_output, Tensor self, "
            "Tensor target, int reduction, float beta) -> Tensor")
          .Doc("grad_output * (self - target) / beta, from -1 to 1 times "
               "grad_output.")
          .Infer(PairLossBackward(3)));
  registry.Add(
      OpDef("aten::huber_loss_backward(Tensor grad_output, Tensor self, Tensor "
            "target, int reduction, float delta) -> Tensor")
          .Doc("grad_output * (self - target), moved into -delta to delta.")
          .Infer(PairLossBackward(3)));
  registry.Add(
      OpDef("aten::binary_cross_entropy_backward(Tensor grad_output, Tensor "
            "self, Tensor target, Tensor? weight=None, int reduction=1) -> "
            "Tensor")
          .Doc("grad_output * (self - target) / (self (1 - self)), the "
               "divisor at least 1e-12.")
          .Infer(PairLossBackward(4)));
  registry.Add(
      OpDef("aten::nll_loss_backward(Tensor grad_output, Tensor self, Tensor "
            "target, Tensor? weight, int reduction, SymInt ignore_index, "
            "Tensor total_weight) -> Tensor")
          .Doc("-grad_output times the class's weight at self[i, target[i]], "
               "0 elsewhere.")
          .Infer(NllBackward(0)));
  registry.Add(
      OpDef("aten::nll_loss2d_forward(Tensor self, Tensor target, Tensor? "
            "weight, int reduction, SymInt ignore_index) -> (Tensor output, "
            "Tensor total_weight)")
          .Doc("nll_loss_forward of each pixel.")
          .Infer(InferNll2d)
          .RaisesByValues());
  registry.Add(
      OpDef("aten::nll_loss2d_backward(Tensor grad_output, Tensor self, Tensor "
            "target, Tensor? weight, int reduction, SymInt ignore_index, "
            "Tensor total_weight) -> Tensor")
          .Doc("nll_loss_backward of each pixel.")
          .Infer(NllBackward(2)));
}

}  // namespace mica
