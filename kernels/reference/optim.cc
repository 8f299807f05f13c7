// An optimizer's step on one parameter.

#include <cmath>
#include <type_traits>
#include <vector>

#include "kernels/reference/reference.h"
#include "kernels/reference/strided.h"

namespace mica {
namespace {

// A number: a constant or an operand of one element.
struct Number {
  bool is_value = false;
  Lane lane;
  double constant = 0;
  double Load(void* const* args) const {
    return is_value ? lane.Load<double>(args, 0) : constant;
  }
};

Number NumberOf(const KernelRequest& request, int param) {
  if (request.OperandIndex(param) < 0) {
    return {.constant = request.Number(param)};
  }
  return {.is_value = true, .lane = OperandLane(request, param)};
}

struct Adam {
  Lane self, grad, avg, avg_sq;
  Lane new_self, new_avg, new_avg_sq;
  Number step, lr, beta1, beta2, decay, eps;
  bool maximize = false, is_decoupled = false;
};

template <typename C>
void RunAdam(const Adam& s, void* const* args) {
  const double step = s.step.Load(args), lr = s.lr.Load(args);
  const double beta1 = s.beta1.Load(args), beta2 = s.beta2.Load(args);
  const double decay = s.decay.Load(args);
  const C size = static_cast<C>(lr / (1 - std::pow(beta1, step)));
  const C root = static_cast<C>(std::sqrt(1 - std::pow(beta2, step)));
  const C eps = static_cast<C>(s.eps.Load(args));
  const C shrink = static_cast<C>(1 - lr * decay);
  const C weight = static_cast<C>(1 - beta1);
  for (Odometer at(s.self.dims, {s.self.strides, s.grad.strides, s.avg.strides,
                                 s.avg_sq.strides, s.new_self.strides,
                                 s.new_avg.strides, s.new_avg_sq.strides});
       !at.done(); at.Next()) {
    C p = s.self.Load<C>(args, at.offset(0));
    C g = s.grad.Load<C>(args, at.offset(1));
    C m = s.avg.Load<C>(args, at.offset(2));
    C v = s.avg_sq.Load<C>(args, at.offset(3));
    if (s.maximize) g = -g;
    if (decay != 0 && s.is_decoupled) p *= shrink;
    if (decay != 0 && !s.is_decoupled) g += p * static_cast<C>(decay);
    m = std::fabs(weight) < C{0.5} ? m + weight * (g - m)
                                   : g - (g - m) * (1 - weight);
    v = v * static_cast<C>(beta2) + static_cast<C>(1 - beta2) * g * g;
    p -= size * m / (std::sqrt(v) / root + eps);
    if (!s.new_self.IsUnused(args)) s.new_self.Store(args, at.offset(4), p);
    if (!s.new_avg.IsUnused(args)) s.new_avg.Store(args, at.offset(5), m);
    if (!s.new_avg_sq.IsUnused(args)) {
      s.new_avg_sq.Store(args, at.offset(6), v);
    }
  }
}

Verdict PrepareAdam(const KernelRequest& request) {
  const Adam state = {.self = OperandLane(request, 0),
                      .grad = OperandLane(request, 1),
                      .avg = OperandLane(request, 2),
                      .avg_sq = OperandLane(request, 3),
                      .new_self = ResultLane(request, 0),
                      .new_avg = ResultLane(request, 1),
                      .new_avg_sq = ResultLane(request, 2),
                      .step = NumberOf(request, 4),
                      .lr = NumberOf(request, 5),
                      .beta1 = NumberOf(request, 6),
                      .beta2 = NumberOf(request, 7),
                      .decay = NumberOf(request, 8),
                      .eps = NumberOf(request, 9),
                      .maximize = request.Bool(10),
                      .is_decoupled = request.Bool(11)};
  return RunBody([state](void* const* args, LaunchContext&) {
    if (state.self.dtype == DType::kF64) {
      RunAdam<double>(state, args);
    } else {
      RunAdam<float>(state, args);
    }
    return true;
  });
}

struct Sgd {
  Lane self, grad, buffer, new_self, new_buffer;
  bool has_buffer = false;
  Number decay, momentum, lr, dampening;
  bool nesterov = false, maximize = false, is_first = false;
};

template <typename C>
void RunSgd(const Sgd& s, void* const* args) {
  const C decay = static_cast<C>(s.decay.Load(args));
  const C momentum = static_cast<C>(s.momentum.Load(args));
  const C lr = static_cast<C>(s.lr.Load(args));
  const C share = static_cast<C>(1 - s.dampening.Load(args));
  const Dims& buffer_strides = s.has_buffer ? s.buffer.strides : s.self.strides;
  const Dims& new_strides =
      s.has_buffer ? s.new_buffer.strides : s.self.strides;
  for (Odometer at(s.self.dims, {s.self.strides, s.grad.strides, buffer_strides,
                                 s.new_self.strides, new_strides});
       !at.done(); at.Next()) {
    const C p = s.self.Load<C>(args, at.offset(0));
    C g = s.grad.Load<C>(args, at.offset(1));
    if (s.maximize) g = -g;
    if (decay != 0) g += p * decay;
    if (s.has_buffer) {
      C b = g;
      if (!s.is_first) {
        b = s.buffer.Load<C>(args, at.offset(2)) * momentum + g * share;
      }
      if (!s.new_buffer.IsUnused(args)) {
        s.new_buffer.Store(args, at.offset(4), b);
      }
      g = s.nesterov ? g + b * momentum : b;
    }
    if (!s.new_self.IsUnused(args)) {
      s.new_self.Store(args, at.offset(3), p - lr * g);
    }
  }
}

Verdict PrepareSgd(const KernelRequest& request) {
  Sgd state = {.self = OperandLane(request, 0),
               .grad = OperandLane(request, 1),
               .new_self = ResultLane(request, 0),
               .has_buffer = request.Has(2),
               .decay = NumberOf(request, 3),
               .momentum = NumberOf(request, 4),
               .lr = NumberOf(request, 5),
               .dampening = NumberOf(request, 6),
               .nesterov = request.Bool(7),
               .maximize = request.Bool(8),
               .is_first = request.Bool(9)};
  if (state.has_buffer) {
    state.buffer = OperandLane(request, 2);
    state.new_buffer = ResultLane(request, 1);
  }
  return RunBody([state](void* const* args, LaunchContext&) {
    if (state.self.dtype == DType::kF64) {
      RunSgd<double>(state, args);
    } else {
      RunSgd<float>(state, args);
    }
    return true;
  });
}

}  // namespace

void RegisterReferenceOptim(KernelRegistry& registry) {
  AddReference(registry, "mica.adam_step", PrepareAdam);
  AddReference(registry, "mica.sgd_step", PrepareSgd);
}

}  // namespace mica
