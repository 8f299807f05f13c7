// Batch norm in training, and gradients of batch and group norm.

#include <cmath>
#include <vector>

#include "kernels/reference/accumulator.h"
#include "kernels/reference/reference.h"
#include "kernels/reference/strided.h"

namespace mica {
namespace {

// An optional [C] operand.
struct Vector {
  bool is_given = false;
  Lane lane;
  double At(void* const* args, int64_t channel, double otherwise) const {
    if (!is_given) return otherwise;
    return lane.Load<double>(args, channel * lane.strides[0]);
  }
};

Vector MakeVector(const KernelRequest& request, int param) {
  if (!request.Has(param)) return {};
  return {.is_given = true, .lane = OperandLane(request, param)};
}

void StoreAt(const Lane& lane, void* const* args, int64_t channel,
             double value) {
  if (!lane.IsUnused(args)) {
    lane.Store(args, channel * lane.strides[0], value);
  }
}

// The dims of one channel, [N, 1, ...].
Dims ChannelDims(const Lane& lane) {
  Dims dims = lane.dims;
  dims[1] = 1;
  return dims;
}

double Rstd(double variance, double eps) {
  return variance == 0 && eps == 0 ? 0 : 1 / std::sqrt(variance + eps);
}

struct BatchNormState {
  Lane x;
  Vector weight, bias, running_mean, running_var;
  bool is_training = false;
  bool returns_running = false;  // Results 3 and 4.
  double momentum = 0, eps = 0;
  std::vector<Lane> results;
};

// Statistics of a channel: its sum of squares is around the mean.
struct Sums {
  double mean = 0, squares = 0, count = 0;
};

Sums SumsOf(const BatchNormState& s, void* const* args, int64_t channel) {
  Sums sums;
  const Dims dims = ChannelDims(s.x);
  const int64_t first = channel * s.x.strides[1];
  for (Odometer at(dims, {s.x.strides}); !at.done(); at.Next()) {
    sums.mean += s.x.Load<double>(args, first + at.offset(0));
    sums.count += 1;
  }
  sums.mean /= sums.count;
  for (Odometer at(dims, {s.x.strides}); !at.done(); at.Next()) {
    const double d = s.x.Load<double>(args, first + at.offset(0)) - sums.mean;
    sums.squares += d * d;
  }
  return sums;
}

void NormaliseChannel(const BatchNormState& s, void* const* args, int64_t c) {
  double mean = s.running_mean.At(args, c, 0);
  double variance = s.running_var.At(args, c, 1);
  double new_mean = mean, new_variance = variance;
  if (s.is_training) {
    const Sums sums = SumsOf(s, args, c);
    auto moved = [&](double from, double to) {
      return s.momentum * to + (1 - s.momentum) * from;
    };
    new_mean = moved(mean, sums.mean);
    new_variance = moved(variance, sums.squares / (sums.count - 1));
    mean = sums.mean;
    variance = sums.squares / sums.count;
  }
  const double rstd = Rstd(variance, s.eps);
  if (s.is_training) {
    StoreAt(s.results[1], args, c, mean);
    StoreAt(s.results[2], args, c, rstd);
  }
  if (s.returns_running) {
    StoreAt(s.results[3], args, c, new_mean);
    StoreAt(s.results[4], args, c, new_variance);
  }
  const Lane& y = s.results[0];
  if (y.IsUnused(args)) return;
  const double weight = s.weight.At(args, c, 1);
  const double bias = s.bias.At(args, c, 0);
  for (Odometer at(ChannelDims(s.x), {s.x.strides, y.strides}); !at.done();
       at.Next()) {
    const double x =
        s.x.Load<double>(args, at.offset(0) + c * s.x.strides[1]) - mean;
    y.Store(args, at.offset(1) + c * y.strides[1], x * rstd * weight + bias);
  }
}

Verdict PrepareBatchNorm(const KernelRequest& request) {
  BatchNormState state = {.x = OperandLane(request, 0),
                          .weight = MakeVector(request, 1),
                          .bias = MakeVector(request, 2),
                          .running_mean = MakeVector(request, 3),
                          .running_var = MakeVector(request, 4),
                          .is_training = request.Bool(5),
                          .returns_running = request.results.size() == 5,
                          .momentum = request.Number(6),
                          .eps = request.Number(7)};
  for (size_t i = 0; i < request.results.size(); ++i) {
    state.results.push_back(ResultLane(request, static_cast<int>(i)));
  }
  return RunBody([state](void* const* args, LaunchContext&) {
    for (int64_t c = 0; c < state.x.dims[1]; ++c) {
      NormaliseChannel(state, args, c);
    }
    return true;
  });
}

struct BackwardState {
  Lane grad, x;
  Vector weight, mean, statistic;  // rstd, or out of training the variance.
  bool is_training = false;
  double eps = 0;
  bool wants[3] = {};
  std::vector<Lane> results;
};

void RunBackward(const BackwardState& s, void* const* args, int64_t c) {
  const double mean = s.mean.At(args, c, 0);
  const double statistic = s.statistic.At(args, c, 0);
  const double rstd = s.is_training ? statistic : Rstd(statistic, s.eps);
  double sum = 0, dot = 0, count = 0;
  const Dims dims = ChannelDims(s.x);
  auto grad_at = [&](int64_t offset) {
    return s.grad.Load<double>(args, offset + c * s.grad.strides[1]);
  };
  auto x_at = [&](int64_t offset) {
    return s.x.Load<double>(args, offset + c * s.x.strides[1]) - mean;
  };
  for (Odometer at(dims, {s.grad.strides, s.x.strides}); !at.done();
       at.Next()) {
    sum += grad_at(at.offset(0));
    dot += grad_at(at.offset(0)) * x_at(at.offset(1));
    count += 1;
  }
  if (s.wants[1]) StoreAt(s.results[1], args, c, dot * rstd);
  if (s.wants[2]) StoreAt(s.results[2], args, c, sum);
  const Lane& out = s.results[0];
  if (!s.wants[0] || out.IsUnused(args)) return;
  const double scale = rstd * s.weight.At(args, c, 1);
  for (Odometer at(dims, {s.grad.strides, s.x.strides, out.strides});
       !at.done(); at.Next()) {
    double g = grad_at(at.offset(0));
    if (s.is_training) {
      g -= sum / count + x_at(at.offset(1)) * dot * rstd * rstd / count;
    }
    out.Store(args, at.offset(2) + c * out.strides[1], g * scale);
  }
}

Verdict PrepareBatchNormBackward(const KernelRequest& request) {
  BackwardState state = {.grad = OperandLane(request, 0),
                         .x = OperandLane(request, 1),
                         .weight = MakeVector(request, 2),
                         .is_training = request.Bool(7),
                         .eps = request.Number(8)};
  state.mean = MakeVector(request, state.is_training ? 5 : 3);
  state.statistic = MakeVector(request, state.is_training ? 6 : 4);
  for (int i = 0; i < 3; ++i) {
    state.wants[i] = OutputMask(request, 9)[i];
    state.results.push_back(ResultLane(request, i));
  }
  return RunBody([state](void* const* args, LaunchContext&) {
    for (int64_t c = 0; c < state.x.dims[1]; ++c) RunBackward(state, args, c);
    return true;
  });
}

struct GroupBackwardState {
  Lane grad, x, mean, rstd;
  Vector weight;
  int64_t groups = 1;
  bool wants[3] = {};
  std::vector<Lane> results;
};

// One group of channels of one sample: adds to the sums of its channels and
// writes the gradient of its elements.
void RunGroup(const GroupBackwardState& s, void* const* args, int64_t sample,
              int64_t group, Accumulator& weights, Accumulator& biases) {
  const int64_t channels = s.x.dims[1] / s.groups;
  const double mean = s.mean.Load<double>(
      args, sample * s.mean.strides[0] + group * s.mean.strides[1]);
  const double rstd = s.rstd.Load<double>(
      args, sample * s.rstd.strides[0] + group * s.rstd.strides[1]);
  Dims dims = s.x.dims;
  dims[0] = 1;
  dims[1] = channels;
  const int64_t first = group * channels;
  auto start = [&](const Lane& lane) {
    return sample * lane.strides[0] + first * lane.strides[1];
  };
  double sum = 0, dot = 0, count = 0;
  for (Odometer at(dims, {s.grad.strides, s.x.strides}); !at.done();
       at.Next()) {
    const int64_t c = first + at.index()[1];
    const double g = s.grad.Load<double>(args, start(s.grad) + at.offset(0));
    const double x =
        (s.x.Load<double>(args, start(s.x) + at.offset(1)) - mean) * rstd;
    if (s.wants[1]) weights.Add(c, g * x);
    if (s.wants[2]) biases.Add(c, g);
    sum += g * s.weight.At(args, c, 1);
    dot += g * s.weight.At(args, c, 1) * x;
    count += 1;
  }
  const Lane& out = s.results[0];
  if (!s.wants[0] || out.IsUnused(args)) return;
  for (Odometer at(dims, {s.grad.strides, s.x.strides, out.strides});
       !at.done(); at.Next()) {
    const double g = s.grad.Load<double>(args, start(s.grad) + at.offset(0)) *
                     s.weight.At(args, first + at.index()[1], 1);
    const double x =
        (s.x.Load<double>(args, start(s.x) + at.offset(1)) - mean) * rstd;
    out.Store(args, start(out) + at.offset(2),
              rstd * (g - sum / count - x * dot / count));
  }
}

Verdict PrepareGroupNormBackward(const KernelRequest& request) {
  GroupBackwardState state = {.grad = OperandLane(request, 0),
                              .x = OperandLane(request, 1),
                              .mean = OperandLane(request, 2),
                              .rstd = OperandLane(request, 3),
                              .weight = MakeVector(request, 4),
                              .groups = request.Int(8)};
  for (int i = 0; i < 3; ++i) {
    state.wants[i] = OutputMask(request, 9)[i];
    state.results.push_back(ResultLane(request, i));
  }
  return RunBody([state](void* const* args, LaunchContext&) {
    const Lane nothing = {.dims = {0}};
    Accumulator weights(state.wants[1] ? state.results[1] : nothing);
    Accumulator biases(state.wants[2] ? state.results[2] : nothing);
    for (int64_t sample = 0; sample < state.x.dims[0]; ++sample) {
      for (int64_t group = 0; group < state.groups; ++group) {
        RunGroup(state, args, sample, group, weights, biases);
      }
    }
    if (state.wants[1]) weights.Store(args);
    if (state.wants[2]) biases.Store(args);
    return true;
  });
}

}  // namespace

void RegisterReferenceBatchNorm(KernelRegistry& registry) {
  AddReference(registry, "aten.native_batch_norm", PrepareBatchNorm);
  AddReference(registry, "aten._native_batch_norm_legit_functional",
               PrepareBatchNorm);
  AddReference(registry, "aten.native_batch_norm_backward",
               PrepareBatchNormBackward);
  AddReference(registry, "aten.native_group_norm_backward",
               PrepareGroupNormBackward);
}

}  // namespace mica
