// Recurrent layers, one time, one sample and one gate at a time.

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
  Lane y, h, c;
  bool has_biases = true;
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
      if (s.y.IsUnused(args)) continue;
      s.y.Store(args,
                t * s.y.strides[0] + b * s.y.strides[1] + j * s.y.strides[2],
                next[j]);
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
                           .has_biases = request.Bool(12),
                           .is_reverse = request.Bool(7)};
  return RunBody([lanes](void* const* args, LaunchContext&) {
    for (int64_t b = 0; b < lanes.batch(); ++b) RunSample(lanes, args, b);
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
  AddReference(registry, "mica.gru_cell", PrepareGruCell);
}

}  // namespace mica
