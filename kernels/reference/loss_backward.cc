// Gradients of losses. Reduction: 0 none, 1 mean, 2 sum.

#include <algorithm>
#include <cmath>
#include <functional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/reference/reference.h"
#include "kernels/reference/strided.h"

namespace mica {
namespace {

// The slope of one element's loss at its prediction, from the prediction and
// the target.
using SlopeFn = std::function<double(double x, double target)>;

Prepared PreparePair(const KernelRequest& request, int reduction_param,
                     SlopeFn slope) {
  const Lane grad = OperandLane(request, 0);
  const Lane x = OperandLane(request, 1);
  const Lane target = OperandLane(request, 2);
  const bool has_weight = reduction_param > 3 && request.Has(3);
  const Lane weight = has_weight ? OperandLane(request, 3) : Lane();
  const Lane out = ResultLane(request);
  const double share = request.Int(reduction_param) == 1
                           ? 1 / static_cast<double>(out.num_elements())
                           : 1;
  const Dims grad_strides = BroadcastStrides(grad, out.dims);
  const Dims target_strides = BroadcastStrides(target, out.dims);
  const Dims weight_strides =
      has_weight ? BroadcastStrides(weight, out.dims) : Dims(out.rank(), 0);
  return RunBody([=](void* const* args, LaunchContext&) {
    if (out.IsUnused(args)) return true;
    for (Odometer at(out.dims, {grad_strides, x.strides, target_strides,
                                weight_strides, out.strides});
         !at.done(); at.Next()) {
      const double w = has_weight ? weight.Load<double>(args, at.offset(3)) : 1;
      out.Store(args, at.offset(4),
                slope(x.Load<double>(args, at.offset(1)),
                      target.Load<double>(args, at.offset(2))) *
                    grad.Load<double>(args, at.offset(0)) * w * share);
    }
    return true;
  });
}

Verdict PrepareMse(const KernelRequest& request) {
  return PreparePair(request, 3,
                     [](double x, double target) { return 2 * (x - target); });
}

Verdict PrepareSmoothL1(const KernelRequest& request) {
  const double beta = request.Number(4);
  return PreparePair(request, 3, [beta](double x, double target) {
    const double d = x - target;
    if (d <= -beta) return -1.0;
    return d >= beta ? 1.0 : d / beta;
  });
}

Verdict PrepareHuber(const KernelRequest& request) {
  const double delta = request.Number(4);
  return PreparePair(request, 3, [delta](double x, double target) {
    const double d = x - target;
    if (d <= -delta) return -delta;
    return d >= delta ? delta : d;
  });
}

Verdict PrepareCrossEntropy(const KernelRequest& request) {
  return PreparePair(request, 4, [](double x, double target) {
    const double divisor = (1 - x) * x;
    return (x - target) / (divisor > 1e-12 ? divisor : 1e-12);
  });
}

// Losses by class: self[n, c, ...] or self[c].
struct NllState {
  std::string op;
  Lane self, target, weight;
  bool has_weight = false;
  int class_axis = 0;
  int64_t reduction = 0, ignored = 0;

  // The class chosen at `offset` of target: -1 where it counts nothing. Fails
  // outside of the classes.
  bool Choose(void* const* args, int64_t offset, LaunchContext& context,
              int64_t& chosen) const {
    chosen = target.Load<int64_t>(args, offset);
    if (chosen == ignored) {
      chosen = -1;
    } else if (chosen < 0 || chosen >= self.dims[class_axis]) {
      return context.Fail(absl::InvalidArgumentError(
          absl::StrCat(op, ": Target ", chosen, " is out of bounds.")));
    }
    return true;
  }
  double WeightOf(void* const* args, int64_t chosen) const {
    return has_weight ? weight.Load<double>(args, chosen * weight.strides[0])
                      : 1;
  }
  // A lane's strides over target's dims: all but the classes.
  Dims OuterStrides(const Lane& lane) const {
    Dims strides = lane.strides;
    strides.erase(strides.begin() + class_axis);
    return strides;
  }
};

NllState MakeNll(const KernelRequest& request, int self) {
  NllState state = {.op = request.def->name(),
                    .self = OperandLane(request, self),
                    .target = OperandLane(request, self + 1),
                    .has_weight = request.Has(self + 2),
                    .reduction = request.Int(self + 3),
                    .ignored = request.Int(self + 4)};
  state.class_axis = state.self.rank() == 1 ? 0 : 1;
  if (state.has_weight) state.weight = OperandLane(request, self + 2);
  return state;
}

Verdict PrepareNll2d(const KernelRequest& request) {
  const NllState s = MakeNll(request, 0);
  const Lane out = ResultLane(request, 0);
  const Lane total = ResultLane(request, 1);
  const Dims outer = s.OuterStrides(s.self);
  const Dims out_strides =
      s.reduction == 0 ? out.strides : Dims(s.target.rank(), 0);
  return RunBody([=](void* const* args, LaunchContext& context) {
    double loss = 0, weights = 0;
    for (Odometer at(s.target.dims, {s.target.strides, outer, out_strides});
         !at.done(); at.Next()) {
      int64_t chosen = 0;
      if (!s.Choose(args, at.offset(0), context, chosen)) return false;
      double term = 0;
      if (chosen >= 0) {
        const double w = s.WeightOf(args, chosen);
        weights += w;
        term = -w *
               s.self.Load<double>(
                   args, at.offset(1) + chosen * s.self.strides[s.class_axis]);
      }
      loss += term;
      if (s.reduction == 0 && !out.IsUnused(args)) {
        out.Store(args, at.offset(2), term);
      }
    }
    if (s.reduction == 1) loss /= weights;
    if (s.reduction != 0 && !out.IsUnused(args)) out.Store(args, 0, loss);
    if (!total.IsUnused(args)) {
      total.Store(args, 0, s.reduction == 0 ? 0 : weights);
    }
    return true;
  });
}

Verdict PrepareNllBackward(const KernelRequest& request) {
  const NllState s = MakeNll(request, 1);
  const Lane grad = OperandLane(request, 0);
  const Lane total = OperandLane(request, 6);
  const Lane out = ResultLane(request);
  const bool is_reduced = grad.rank() == 0;
  const Dims grad_strides =
      is_reduced ? Dims(s.target.rank(), 0) : grad.strides;
  const Dims outer = s.OuterStrides(out);
  return RunBody([=](void* const* args, LaunchContext& context) {
    if (out.IsUnused(args)) return true;
    for (Odometer at(out.dims, {out.strides}); !at.done(); at.Next()) {
      out.Store(args, at.offset(0), 0.0);
    }
    const double divisor = s.reduction == 1 ? total.Load<double>(args, 0) : 1;
    for (Odometer at(s.target.dims, {s.target.strides, grad_strides, outer});
         !at.done(); at.Next()) {
      int64_t chosen = 0;
      if (!s.Choose(args, at.offset(0), context, chosen)) return false;
      if (chosen < 0) continue;
      out.Store(args, at.offset(2) + chosen * out.strides[s.class_axis],
                -grad.Load<double>(args, at.offset(1)) / divisor *
                    s.WeightOf(args, chosen));
    }
    return true;
  });
}

}  // namespace

void RegisterReferenceLossBackward(KernelRegistry& registry) {
  AddReference(registry, "aten.mse_loss_backward", PrepareMse);
  AddReference(registry, "aten.smooth_l1_loss_backward", PrepareSmoothL1);
  AddReference(registry, "aten.huber_loss_backward", PrepareHuber);
  AddReference(registry, "aten.binary_cross_entropy_backward",
               PrepareCrossEntropy);
  AddReference(registry, "aten.nll_loss_backward", PrepareNllBackward);
  AddReference(registry, "aten.nll_loss2d_forward", PrepareNll2d);
  AddReference(registry, "aten.nll_loss2d_backward", PrepareNllBackward);
}

}  // namespace mica
