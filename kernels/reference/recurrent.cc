// Recurrent layers, one time, one sample and one gate at a time.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/reference/numbers.h"
#include "kernels/reference/reference.h"
#include "kernels/reference/strided.h"

namespace mica {
namespace {

struct LstmLanes {
  Lane x, weight_ih, weight_hh, bias_ih, bias_hh, h0, c0;
  Lane y, h, c, kept;
  bool has_biases = true;
  bool keeps = false;
  bool is_reverse = false;
  int64_t times() const { return x.dims[0]; }
  int64_t batch() const { return x.dims[1]; }
  int64_t inputs() const { return x.dims[2]; }
  int64_t hidden() const { return weight_hh.dims[1]; }
};

// Of lanes over [b, h].
int64_t StateOffset(const Lane& lane, int64_t b, int64_t j) {
  return b * lane.strides[0] + j * lane.strides[1];
}

// Of lanes over [t, b, h].
int64_t TimeOffset(const Lane& lane, int64_t t, int64_t b, int64_t j) {
  return t * lane.strides[0] + b * lane.strides[1] + j * lane.strides[2];
}

double Gate(const LstmLanes& s, void* const* args, int64_t t, int64_t b,
            const std::vector<double>& h, int64_t row) {
  double sum = 0;
  if (s.has_biases) {
    sum = s.bias_ih.Load<double>(args, row * s.bias_ih.strides[0]) +
          s.bias_hh.Load<double>(args, row * s.bias_hh.strides[0]);
  }
  for (int64_t i = 0; i < s.inputs(); ++i) {
    sum += s.x.Load<double>(args, t * s.x.strides[0] + b * s.x.strides[1] +
                                      i * s.x.strides[2]) *
           s.weight_ih.Load<double>(
               args, row * s.weight_ih.strides[0] + i * s.weight_ih.strides[1]);
  }
  for (int64_t j = 0; j < s.hidden(); ++j) {
    sum +=
        h[j] * s.weight_hh.Load<double>(args, row * s.weight_hh.strides[0] +
                                                  j * s.weight_hh.strides[1]);
  }
  return sum;
}

void RunSample(const LstmLanes& s, void* const* args, int64_t b) {
  const int64_t n = s.hidden();
  std::vector<double> h(n), c(n);
  for (int64_t j = 0; j < n; ++j) {
    h[j] = s.h0.Load<double>(args, StateOffset(s.h0, b, j));
    c[j] = s.c0.Load<double>(args, StateOffset(s.c0, b, j));
  }
  for (int64_t step = 0; step < s.times(); ++step) {
    const int64_t t = s.is_reverse ? s.times() - 1 - step : step;
    std::vector<double> next(n);
    for (int64_t j = 0; j < n; ++j) {
      const double in = Sigmoid(Gate(s, args, t, b, h, j));
      const double forget = Sigmoid(Gate(s, args, t, b, h, n + j));
      const double cell = std::tanh(Gate(s, args, t, b, h, 2 * n + j));
      const double out = Sigmoid(Gate(s, args, t, b, h, 3 * n + j));
      c[j] = forget * c[j] + in * cell;
      next[j] = out * std::tanh(c[j]);
      if (!s.y.IsUnused(args)) {
        s.y.Store(args, TimeOffset(s.y, t, b, j), next[j]);
      }
      if (!s.keeps || s.kept.IsUnused(args)) continue;
      const double kept[] = {in, forget, cell, out, c[j]};
      for (int64_t i = 0; i < 5; ++i) {
        s.kept.Store(args, TimeOffset(s.kept, t, b, i * n + j), kept[i]);
      }
    }
    h = std::move(next);
  }
  for (int64_t j = 0; j < n; ++j) {
    if (!s.h.IsUnused(args)) s.h.Store(args, StateOffset(s.h, b, j), h[j]);
    if (!s.c.IsUnused(args)) s.c.Store(args, StateOffset(s.c, b, j), c[j]);
  }
}

Verdict PrepareLstmLayer(const KernelRequest& request) {
  const LstmLanes lanes = {.x = OperandLane(request, 0),
                           .weight_ih = OperandLane(request, 1),
                           .weight_hh = OperandLane(request, 2),
                           .bias_ih = OperandLane(request, 3),
                           .bias_hh = OperandLane(request, 4),
                           .h0 = OperandLane(request, 5),
                           .c0 = OperandLane(request, 6),
                           .y = ResultLane(request, 0),
                           .h = ResultLane(request, 1),
                           .c = ResultLane(request, 2),
                           .kept = ResultLane(request, 3),
                           .has_biases = request.Bool(12),
                           .keeps = request.results[3].type.rank() == 3,
                           .is_reverse = request.Bool(7)};
  return RunBody([lanes](void* const* args, LaunchContext&) {
    for (int64_t b = 0; b < lanes.batch(); ++b) RunSample(lanes, args, b);
    return true;
  });
}

// Operands of mica.lstm_layer_backward, as LstmLanes has them.
struct LstmBackwardLanes {
  LstmLanes of;
  Lane grad_y, grad_h, grad_c;
  bool has_grad_y = false, has_grad_h = false, has_grad_c = false;
};

// Sums, which the results of each sample are added to.
struct LstmSums {
  std::vector<double> weight_ih, weight_hh, bias;
};

void RunSampleBackward(const LstmBackwardLanes& s, void* const* args, int64_t b,
                       const Lane& grad_x, const Lane& grad_h0,
                       const Lane& grad_c0, LstmSums& sums) {
  const LstmLanes& of = s.of;
  const int64_t n = of.hidden();
  std::vector<double> dh(n), dc(n), slopes(4 * n);
  for (int64_t j = 0; j < n; ++j) {
    if (s.has_grad_h) {
      dh[j] = s.grad_h.Load<double>(args, StateOffset(s.grad_h, b, j));
    }
    if (s.has_grad_c) {
      dc[j] = s.grad_c.Load<double>(args, StateOffset(s.grad_c, b, j));
    }
  }
  for (int64_t step = of.times() - 1; step >= 0; --step) {
    const int64_t t = of.is_reverse ? of.times() - 1 - step : step;
    const int64_t before = of.is_reverse ? t + 1 : t - 1;
    const auto kept = [&](int64_t at, int64_t row) {
      return of.kept.Load<double>(args, TimeOffset(of.kept, at, b, row));
    };
    for (int64_t j = 0; j < n; ++j) {
      const double in = kept(t, j), forget = kept(t, n + j);
      const double cell = kept(t, 2 * n + j), out = kept(t, 3 * n + j);
      const double shown = std::tanh(kept(t, 4 * n + j));
      const double c = step == 0
                           ? of.c0.Load<double>(args, StateOffset(of.c0, b, j))
                           : kept(before, 4 * n + j);
      if (s.has_grad_y) {
        dh[j] += s.grad_y.Load<double>(args, TimeOffset(s.grad_y, t, b, j));
      }
      dc[j] += dh[j] * out * (1 - shown * shown);
      slopes[j] = dc[j] * cell * in * (1 - in);
      slopes[n + j] = dc[j] * c * forget * (1 - forget);
      slopes[2 * n + j] = dc[j] * in * (1 - cell * cell);
      slopes[3 * n + j] = dh[j] * shown * out * (1 - out);
      dc[j] *= forget;
    }
    const auto h = [&](int64_t j) {
      return step == 0
                 ? of.h0.Load<double>(args, StateOffset(of.h0, b, j))
                 : of.y.Load<double>(args, TimeOffset(of.y, before, b, j));
    };
    const auto x = [&](int64_t i) {
      return of.x.Load<double>(args, TimeOffset(of.x, t, b, i));
    };
    std::vector<double> dx(of.inputs());
    std::fill(dh.begin(), dh.end(), 0.0);
    for (int64_t row = 0; row < 4 * n; ++row) {
      sums.bias[row] += slopes[row];
      for (int64_t i = 0; i < of.inputs(); ++i) {
        sums.weight_ih[row * of.inputs() + i] += slopes[row] * x(i);
        dx[i] += slopes[row] * of.weight_ih.Load<double>(
                                   args, StateOffset(of.weight_ih, row, i));
      }
      for (int64_t j = 0; j < n; ++j) {
        sums.weight_hh[row * n + j] += slopes[row] * h(j);
        dh[j] += slopes[row] * of.weight_hh.Load<double>(
                                   args, StateOffset(of.weight_hh, row, j));
      }
    }
    for (int64_t i = 0; !grad_x.IsUnused(args) && i < of.inputs(); ++i) {
      grad_x.Store(args, TimeOffset(grad_x, t, b, i), dx[i]);
    }
  }
  for (int64_t j = 0; j < n; ++j) {
    if (!grad_h0.IsUnused(args)) {
      grad_h0.Store(args, StateOffset(grad_h0, b, j), dh[j]);
    }
    if (!grad_c0.IsUnused(args)) {
      grad_c0.Store(args, StateOffset(grad_c0, b, j), dc[j]);
    }
  }
}

Verdict PrepareLstmLayerBackward(const KernelRequest& request) {
  const auto lane = [&request](int param) {
    return request.OperandIndex(param) < 0 ? Lane()
                                           : OperandLane(request, param);
  };
  const LstmBackwardLanes lanes = {.of = {.x = lane(0),
                                          .weight_ih = lane(1),
                                          .weight_hh = lane(2),
                                          .h0 = lane(5),
                                          .c0 = lane(6),
                                          .y = lane(7),
                                          .kept = lane(22),
                                          .is_reverse = request.Bool(13)},
                                   .grad_y = lane(10),
                                   .grad_h = lane(11),
                                   .grad_c = lane(12),
                                   .has_grad_y = request.Has(10),
                                   .has_grad_h = request.Has(11),
                                   .has_grad_c = request.Has(12)};
  std::vector<Lane> outs;
  for (int i = 0; i < 7; ++i) outs.push_back(ResultLane(request, i));
  return RunBody([lanes, outs](void* const* args, LaunchContext&) {
    const int64_t rows = 4 * lanes.of.hidden();
    LstmSums sums = {.weight_ih = std::vector<double>(rows * lanes.of.inputs()),
                     .weight_hh = std::vector<double>(rows * lanes.of.hidden()),
                     .bias = std::vector<double>(rows)};
    for (int64_t b = 0; b < lanes.of.batch(); ++b) {
      RunSampleBackward(lanes, args, b, outs[0], outs[5], outs[6], sums);
    }
    const std::vector<double>* made[] = {&sums.weight_ih, &sums.weight_hh,
                                         &sums.bias, &sums.bias};
    for (int i = 0; i < 4; ++i) {
      const Lane& out = outs[1 + i];
      if (out.IsUnused(args)) continue;
      int64_t next = 0;
      for (Odometer at(out.dims, {out.strides}); !at.done(); at.Next()) {
        out.Store(args, at.offset(0), (*made[i])[next++]);
      }
    }
    return true;
  });
}

Verdict PrepareGruCell(const KernelRequest& request) {
  const Lane input = OperandLane(request, 0), gates = OperandLane(request, 1);
  const Lane h = OperandLane(request, 2), out = ResultLane(request);
  return RunBody([=](void* const* args, LaunchContext&) {
    if (out.IsUnused(args)) return true;
    const int64_t n = h.dims[1];
    auto gate = [&](const Lane& lane, int64_t b, int64_t j) {
      return lane.Load<double>(args, StateOffset(lane, b, j));
    };
    for (int64_t b = 0; b < h.dims[0]; ++b) {
      for (int64_t j = 0; j < n; ++j) {
        const double r = Sigmoid(gate(input, b, j) + gate(gates, b, j));
        const double z = Sigmoid(gate(input, b, n + j) + gate(gates, b, n + j));
        const double next = std::tanh(gate(input, b, 2 * n + j) +
                                      r * gate(gates, b, 2 * n + j));
        out.Store(args, StateOffset(out, b, j),
                  (gate(h, b, j) - next) * z + next);
      }
    }
    return true;
  });
}

}  // namespace

void RegisterReferenceRecurrent(KernelRegistry& registry) {
  AddReference(registry, "aten.mkldnn_rnn_layer", PrepareLstmLayer);
  AddReference(registry, "mica.lstm_layer", PrepareLstmLayer);
  AddReference(registry, "mica.lstm_layer_backward", PrepareLstmLayerBackward);
  AddReference(registry, "mica.gru_cell", PrepareGruCell);
}

}  // namespace mica
