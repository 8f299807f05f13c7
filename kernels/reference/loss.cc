// Losses. Reduction: 0 none, 1 mean, 2 sum.

#include <algorithm>
#include <cmath>
#include <functional>

#include "kernels/reference/indexing.h"
#include "kernels/reference/reference.h"
#include "kernels/reference/strided.h"

namespace mica {
namespace {

// The loss of one element from its prediction, its target and, where given,
// a weight and a weight of positives (else 1).
using PairFn = std::function<double(double x, double target, double weight,
                                    double positive_weight)>;

// The dims that two lanes broadcast to.
Dims CommonDims(const Lane& a, const Lane& b) {
  Dims dims(std::max(a.rank(), b.rank()), 1);
  for (const Lane* lane : {&a, &b}) {
    const int added = static_cast<int>(dims.size()) - lane->rank();
    for (int i = 0; i < lane->rank(); ++i) {
      if (lane->dims[i] != 1) dims[i + added] = lane->dims[i];
    }
  }
  return dims;
}

// Optional operand `param` over `dims`; zero strides if there is none.
struct Weight {
  bool is_given = false;
  Lane lane;
  Dims strides;
  double At(void* const* args, int64_t offset) const {
    return is_given ? lane.Load<double>(args, offset) : 1;
  }
};

Weight MakeWeight(const KernelRequest& request, int param,
                  absl::Span<const Dim> dims, bool is_tensor) {
  Weight weight = {.strides = Dims(dims.size(), 0)};
  if (is_tensor && request.Has(param)) {
    weight.is_given = true;
    weight.lane = OperandLane(request, param);
    weight.strides = BroadcastStrides(weight.lane, dims);
  }
  return weight;
}

Prepared PreparePair(const KernelRequest& request, int reduction_param,
                     PairFn fn) {
  const Lane x = OperandLane(request, 0);
  const Lane target = OperandLane(request, 1);
  const Lane out = ResultLane(request);
  const Dims dims = CommonDims(x, target);
  const Weight weight = MakeWeight(request, 2, dims, reduction_param > 2);
  const Weight positive = MakeWeight(request, 3, dims, reduction_param > 3);
  const int64_t reduction = request.Int(reduction_param);
  const Dims out_strides = reduction == 0 ? out.strides : Dims(dims.size(), 0);
  const Dims x_strides = BroadcastStrides(x, dims);
  const Dims target_strides = BroadcastStrides(target, dims);
  return RunBody([=](void* const* args, LaunchContext&) {
    if (out.IsUnused(args)) return true;
    double sum = 0;
    double count = 0;
    for (Odometer at(dims, {x_strides, target_strides, weight.strides,
                            positive.strides, out_strides});
         !at.done(); at.Next()) {
      const double loss =
          fn(x.Load<double>(args, at.offset(0)),
             target.Load<double>(args, at.offset(1)),
             weight.At(args, at.offset(2)), positive.At(args, at.offset(3)));
      if (reduction == 0) out.Store(args, at.offset(4), loss);
      sum += loss;
      count += 1;
    }
    if (reduction == 1) out.Store(args, 0, sum / count);
    if (reduction == 2) out.Store(args, 0, sum);
    return true;
  });
}

void AddPair(KernelRegistry& registry, absl::string_view op, int reduction,
             PairFn fn) {
  AddReference(registry, op, [=](const KernelRequest& request) -> Verdict {
    return PreparePair(request, reduction, fn);
  });
}

Verdict PrepareSmoothL1(const KernelRequest& request) {
  const double beta = request.Number(3);
  return PreparePair(request, 2, [beta](double x, double t, double, double) {
    const double d = std::fabs(x - t);
    return d < beta ? d * d / (2 * beta) : d - beta / 2;
  });
}

Verdict PrepareHuber(const KernelRequest& request) {
  const double delta = request.Number(3);
  return PreparePair(request, 2, [delta](double x, double t, double, double) {
    const double d = std::fabs(x - t);
    return d <= delta ? d * d / 2 : delta * (d - delta / 2);
  });
}

double CrossEntropy(double p, double t, double weight, double) {
  const double log_p = std::max(std::log(p), -100.0);
  const double log_q = std::max(std::log1p(-p), -100.0);
  return weight * ((t - 1) * log_q - t * log_p);
}

// log(1 + exp(-|x|)) and a term for the sign: no overflow.
double LogitCrossEntropy(double x, double t, double weight, double positive) {
  const double log_p = std::min(x, 0.0) - std::log1p(std::exp(-std::fabs(x)));
  return weight * ((1 - t) * x - ((positive - 1) * t + 1) * log_p);
}

Verdict PrepareNll(const KernelRequest& request) {
  const Lane x = OperandLane(request, 0);
  const Lane target = OperandLane(request, 1);
  const bool has_weight = request.Has(2);
  const Lane weight = has_weight ? OperandLane(request, 2) : Lane();
  const Lane out = ResultLane(request, 0);
  const Lane total = ResultLane(request, 1);
  const int64_t reduction = request.Int(3);
  const int64_t ignored = request.Int(4);
  const bool is_batch = x.rank() == 2;
  const int64_t rows = is_batch ? x.dims[0] : 1;
  const int64_t classes = x.dims.back();
  const std::string op = request.def->name();
  return RunBody([=](void* const* args, LaunchContext& context) {
    double loss = 0;
    double weights = 0;
    for (int64_t i = 0; i < rows; ++i) {
      int64_t chosen =
          target.Load<int64_t>(args, is_batch ? i * target.strides[0] : 0);
      double term = 0;
      if (chosen != ignored) {
        if (chosen < 0 || chosen >= classes) {
          return context.Fail(absl::InvalidArgumentError(
              absl::StrCat(op, ": Target ", chosen, " is out of bounds.")));
        }
        const double w =
            has_weight ? weight.Load<double>(args, chosen * weight.strides[0])
                       : 1;
        term = -w * x.Load<double>(args, (is_batch ? i * x.strides[0] : 0) +
                                             chosen * x.strides.back());
        weights += w;
      }
      loss += term;
      if (reduction == 0 && !out.IsUnused(args)) {
        out.Store(args, is_batch ? i * out.strides[0] : 0, term);
      }
    }
    if (reduction == 1) loss /= weights;
    if (reduction != 0 && !out.IsUnused(args)) out.Store(args, 0, loss);
    if (!total.IsUnused(args)) {
      total.Store(args, 0, reduction == 0 && is_batch ? 0 : weights);
    }
    return true;
  });
}

}  // namespace

void RegisterReferenceLosses(KernelRegistry& registry) {
  AddPair(registry, "aten.mse_loss", 2,
          [](double x, double t, double, double) { return (x - t) * (x - t); });
  AddReference(registry, "aten.smooth_l1_loss", PrepareSmoothL1);
  AddReference(registry, "aten.huber_loss", PrepareHuber);
  AddPair(registry, "aten.binary_cross_entropy", 3, CrossEntropy);
  AddPair(registry, "aten.binary_cross_entropy_with_logits", 4,
          LogitCrossEntropy);
  AddReference(registry, "aten.nll_loss_forward", PrepareNll);
}

}  // namespace mica
