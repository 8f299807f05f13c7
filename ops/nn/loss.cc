// Losses. Reduction: 0 none, 1 mean, 2 sum.

#include "ops/nn/loss.h"

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/tensor/promotion.h"
#include "ops/infer.h"
#include "ops/nn/families.h"

namespace mica {

absl::Status CheckReduction(const OpCall& call, int param) {
  const int64_t reduction = call.Int(param);
  if (reduction < 0 || reduction > 2) return call.Wants("reduction 0, 1 or 2");
  return absl::OkStatus();
}

namespace {

// Losses between a prediction and a target that broadcast; `reduction` is the
// position of that parameter.
InferFn PairLoss(int reduction) {
  return [reduction](const OpCall& call) -> absl::StatusOr<TensorTypes> {
    MICA_RETURN_IF_ERROR(CheckReduction(call, reduction));
    Dims dims;
    if (!BroadcastDims(call.Type(0).dims, call.Type(1).dims, &dims)) {
      return call.Wants("shapes that broadcast");
    }
    Promotion promotion;
    promotion.Add(call.Type(0));
    promotion.Add(call.Type(1));
    if (call.Int(reduction) == 1 && !IsFloating(promotion.dtype())) {
      return call.Wants("floating-point numbers for a mean");
    }
    for (int param = 2; param < reduction; ++param) {
      if (call.IsValue(param) && !BroadcastsTo(call.Type(param).dims, dims)) {
        return call.Wants("weights that broadcast to the loss");
      }
    }
    if (call.Int(reduction) != 0) dims.clear();
    return TensorTypes{FreshTensor(promotion.dtype(), std::move(dims))};
  };
}

absl::StatusOr<TensorTypes> InferNll(const OpCall& call) {
  const TensorType& self = call.Type(0);
  const TensorType& target = call.Type(1);
  const bool is_batch = self.rank() == 2;
  const Dims wanted = is_batch ? Dims{self.dims[0]} : Dims{};
  if (self.rank() < 1 || self.rank() > 2 || target.dims != wanted ||
      target.dtype != DType::kI64 || !IsFloating(self.dtype)) {
    return call.Wants("self[n,c] and i64 target[n], or self[c] and target[]");
  }
  if (call.Has(2) && call.Type(2).dims != Dims{self.dims.back()}) {
    return call.Wants("weight[c]");
  }
  MICA_RETURN_IF_ERROR(CheckReduction(call, 3));
  const bool is_reduced = call.Int(3) != 0 || !is_batch;
  return TensorTypes{FreshTensor(self.dtype, is_reduced ? Dims{} : wanted),
                     FreshTensor(self.dtype, {})};
}

}  // namespace

void RegisterLossOps(OpRegistry& registry) {
  registry.Add(
      OpDef("aten::mse_loss(Tensor self, Tensor target, int reduction=1) -> "
            "Tensor")
          .Doc("(self - target)².")
          .Infer(PairLoss(2)));
  registry.Add(OpDef("aten::smooth_l1_loss(Tensor self, Tensor target, int "
                     "reduction=1, float beta=1.) -> Tensor")
                   .Doc("d²/(2·beta) where d = |self - target| < beta, else d "
                        "- beta/2.")
                   .Infer(PairLoss(2)));
  registry.Add(OpDef("aten::huber_loss(Tensor self, Tensor target, int "
                     "reduction=1, float delta=1.) -> Tensor")
                   .Doc("d²/2 where d = |self - target| <= delta, else "
                        "delta·(d - delta/2).")
                   .Infer(PairLoss(2)));
  registry.Add(
      OpDef("aten::binary_cross_entropy(Tensor self, Tensor target, Tensor? "
            "weight=None, int reduction=1) -> Tensor")
          .Doc("-(t·log(p) + (1-t)·log(1-p)), logarithms at least -100.")
          .Infer(PairLoss(3))
          .RaisesByValues());
  registry.Add(
      OpDef("aten::binary_cross_entropy_with_logits(Tensor self, Tensor "
            "target, Tensor? weight=None, Tensor? pos_weight=None, int "
            "reduction=1) -> Tensor")
          .Doc("binary_cross_entropy of sigmoid(self).")
          .Infer(PairLoss(4)));
  registry.Add(
      OpDef("aten::nll_loss_forward(Tensor self, Tensor target, Tensor? "
            "weight, int reduction, SymInt ignore_index) -> (Tensor output, "
            "Tensor total_weight)")
          .Doc("-self[i, target[i]] times its class's weight; targets equal to "
               "ignore_index count nothing.")
          .Infer(InferNll)
          .RaisesByValues());
}

}  // namespace mica
