// Gradients of a transformer's layers, element by element in double.

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/reference/accumulator.h"
#include "kernels/reference/numbers.h"
#include "kernels/reference/pointwise.h"
#include "kernels/reference/reference.h"
#include "kernels/reference/strided.h"

namespace mica {
namespace {

// Φ(x) + x φ(x).
template <typename C>
C GeluSlope(C x) {
  if constexpr (std::is_integral_v<C>) {
    return 0;
  } else {
    constexpr C kRootHalf = static_cast<C>(0.70710678118654752440);
    constexpr C kDensity = static_cast<C>(0.39894228040143267794);
    const C below = C{0.5} * (C{1} + std::erf(x * kRootHalf));
    return below + x * kDensity * std::exp(x * x * C{-0.5});
  }
}

template <typename C>
C GeluTanhSlope(C x) {
  if constexpr (std::is_integral_v<C>) {
    return 0;
  } else {
    constexpr C kBeta = static_cast<C>(0.79788456080286535588);
    constexpr C kKappa = static_cast<C>(0.044715);
    const C t = std::tanh(kBeta * (x + kKappa * x * x * x));
    const C inner = kBeta * (C{1} + C{3} * kKappa * x * x);
    return C{0.5} * (C{1} + t) + C{0.5} * x * (C{1} - t * t) * inner;
  }
}

Verdict PrepareGeluBackward(const KernelRequest& request) {
  if (request.String(2) == "tanh") {
    return PreparePointwise(request, {{0, 1}, MakeFns([](const auto* x) {
                                        return x[0] * GeluTanhSlope(x[1]);
                                      })});
  }
  return PreparePointwise(
      request,
      {{0, 1}, MakeFns([](const auto* x) { return x[0] * GeluSlope(x[1]); })});
}

// `term` is what the sum is made of, `turn` gives the result from the gradient,
// the forward's output and the sum.
struct SoftmaxFns {
  double (*term)(double grad, double y);
  double (*turn)(double grad, double y, double sum);
};

Prepared PrepareSoftmaxBackward(const KernelRequest& request, SoftmaxFns fns) {
  const Lane output = OperandLane(request, 1);
  const int axis = AxisIndex(request.Int(2), output.rank());
  const AxisLane grads = SplitAxis(OperandLane(request, 0), axis);
  const AxisLane ys = SplitAxis(output, axis);
  const AxisLane outs = SplitAxis(ResultLane(request), axis);
  return RunBody([=](void* const* args, LaunchContext&) {
    if (outs.outer.IsUnused(args) || outs.size == 0) return true;
    for (Odometer at(ys.outer.dims, {grads.outer.strides, ys.outer.strides,
                                     outs.outer.strides});
         !at.done(); at.Next()) {
      auto grad = [&](int64_t i) {
        return grads.outer.Load<double>(args, at.offset(0) + i * grads.stride);
      };
      auto y = [&](int64_t i) {
        return ys.outer.Load<double>(args, at.offset(1) + i * ys.stride);
      };
      double sum = 0;
      for (int64_t i = 0; i < ys.size; ++i) sum += fns.term(grad(i), y(i));
      for (int64_t i = 0; i < ys.size; ++i) {
        outs.outer.Store(args, at.offset(2) + i * outs.stride,
                         fns.turn(grad(i), y(i), sum));
      }
    }
    return true;
  });
}

// A lane's first axes and its last `num_inner` ones.
struct Rows {
  Dims outer_dims, outer_strides, inner_dims, inner_strides;
};

int64_t ProductOf(const Dims& dims) {
  int64_t product = 1;
  for (Dim dim : dims) product *= dim;
  return product;
}

Rows RowsOf(const Dims& dims, const Dims& strides, int num_inner) {
  const auto cut = static_cast<int64_t>(dims.size()) - num_inner;
  return {Dims(dims.begin(), dims.begin() + cut),
          Dims(strides.begin(), strides.begin() + cut),
          Dims(dims.begin() + cut, dims.end()),
          Dims(strides.begin() + cut, strides.end())};
}

Verdict PrepareLayerNormBackward(const KernelRequest& request) {
  const int inner = static_cast<int>(request.Ints(2).size());
  const Lane grad = OperandLane(request, 0), input = OperandLane(request, 1);
  const Lane mean = OperandLane(request, 3), rstd = OperandLane(request, 4);
  const bool has_weight = request.Has(5);
  const Lane weight = has_weight ? OperandLane(request, 5) : Lane();
  const Dims weight_strides = has_weight ? weight.strides : Dims(inner, 0);
  const Lane outs[] = {ResultLane(request, 0), ResultLane(request, 1),
                       ResultLane(request, 2)};
  const std::vector<bool> wanted = OutputMask(request, 7);
  const Rows dy = RowsOf(input.dims, grad.strides, inner);
  const Rows x = RowsOf(input.dims, input.strides, inner);
  const Rows dx = wanted[0] ? RowsOf(input.dims, outs[0].strides, inner) : x;
  const Dims means = RowsOf(mean.dims, mean.strides, inner).outer_strides;
  const Dims rstds = RowsOf(rstd.dims, rstd.strides, inner).outer_strides;
  const Lane out = outs[0], dweight = outs[1], dbias = outs[2];
  return RunBody([=](void* const* args, LaunchContext&) {
    const int64_t n = ProductOf(x.inner_dims);
    const double size = static_cast<double>(n);
    std::vector<double> xhat(n), dxhat(n), dgamma(n), dbeta(n);
    for (Odometer at(x.outer_dims, {dy.outer_strides, x.outer_strides,
                                    dx.outer_strides, means, rstds});
         !at.done(); at.Next()) {
      const double mu = mean.Load<double>(args, at.offset(3));
      const double r = rstd.Load<double>(args, at.offset(4));
      double sum = 0, dot = 0;
      int64_t i = 0;
      for (Odometer in(x.inner_dims,
                       {dy.inner_strides, x.inner_strides, weight_strides});
           !in.done(); in.Next(), ++i) {
        const double g = grad.Load<double>(args, at.offset(0) + in.offset(0));
        xhat[i] =
            (input.Load<double>(args, at.offset(1) + in.offset(1)) - mu) * r;
        dxhat[i] = has_weight ? g * weight.Load<double>(args, in.offset(2)) : g;
        dgamma[i] += g * xhat[i];
        dbeta[i] += g;
        sum += dxhat[i];
        dot += dxhat[i] * xhat[i];
      }
      if (!wanted[0] || out.IsUnused(args)) continue;
      i = 0;
      for (Odometer in(x.inner_dims, {dx.inner_strides}); !in.done();
           in.Next(), ++i) {
        out.Store(args, at.offset(2) + in.offset(0),
                  r * (dxhat[i] - sum / size - xhat[i] * dot / size));
      }
    }
    auto store = [&](bool is_wanted, const Lane& to,
                     const std::vector<double>& from) {
      if (!is_wanted || to.IsUnused(args)) return;
      int64_t i = 0;
      for (Odometer at(to.dims, {to.strides}); !at.done(); at.Next(), ++i) {
        to.Store(args, at.offset(0), from[i]);
      }
    };
    store(wanted[1], dweight, dgamma);
    store(wanted[2], dbias, dbeta);
    return true;
  });
}

Verdict PrepareEmbeddingBackward(const KernelRequest& request) {
  const Lane grad = OperandLane(request, 0), indices = OperandLane(request, 1);
  const Lane out = ResultLane(request);
  const int64_t padding = request.Int(3);
  const bool by_frequency = request.Bool(4);
  const AxisLane rows = SplitAxis(grad, grad.rank() - 1);
  const std::string op = request.def->name();
  return RunBody([=](void* const* args, LaunchContext& context) {
    std::map<int64_t, double> counts;
    for (Odometer at(indices.dims, {indices.strides}); !at.done(); at.Next()) {
      const int64_t row = indices.Load<int64_t>(args, at.offset(0));
      if (row == padding) continue;
      if (row < 0 || row >= out.dims[0]) {
        return context.Fail(absl::InvalidArgumentError(
            absl::StrCat(op, ": index ", row, " is out of range")));
      }
      ++counts[row];
    }
    Accumulator sums(out);
    for (Odometer at(indices.dims, {indices.strides, rows.outer.strides});
         !at.done(); at.Next()) {
      const int64_t row = indices.Load<int64_t>(args, at.offset(0));
      if (row == padding) continue;
      const double share = by_frequency ? 1 / counts.at(row) : 1;
      for (int64_t i = 0; i < rows.size; ++i) {
        sums.Add(
            row * out.dims[1] + i,
            share * grad.Load<double>(args, at.offset(1) + i * rows.stride));
      }
    }
    sums.Store(args);
    return true;
  });
}

struct AttentionBackward {
  Lane grad, q, k, v, out, lse, mask;
  Lane dq, dk, dv;
  bool has_mask = false, is_causal = false;
  Dims mask_strides;
  double scale = 1;

  static int64_t At(const Lane& lane, int64_t b, int64_t h, int64_t row) {
    return b * lane.strides[0] + h * lane.strides[1] + row * lane.strides[2];
  }
  static double Dot(const Lane& a, int64_t a_at, const Lane& b, int64_t b_at,
                    void* const* args) {
    double sum = 0;
    for (int64_t e = 0; e < a.dims[3]; ++e) {
      sum += a.Load<double>(args, a_at + e * a.strides[3]) *
             b.Load<double>(args, b_at + e * b.strides[3]);
    }
    return sum;
  }
  // False if the mask hides the key.
  bool Mask(void* const* args, int64_t at, double* term) const {
    *term = 0;
    if (!has_mask) return true;
    if (mask.dtype == DType::kBool) return mask.LoadTruth(args, at);
    *term = mask.Load<double>(args, at);
    return true;
  }
  void RunQuery(void* const* args, int64_t b, int64_t h, int64_t l,
                Accumulator& dqs, Accumulator& dks, Accumulator& dvs) const {
    const int64_t q_at = At(q, b, h, l), g_at = At(grad, b, h, l);
    const double delta = Dot(grad, g_at, out, At(out, b, h, l), args);
    const double log_sum = lse.Load<double>(args, At(lse, b, h, l));
    for (int64_t s = 0; s < k.dims[2]; ++s) {
      if (is_causal && s > l) break;
      double term;
      const int64_t mask_at = b * mask_strides[0] + h * mask_strides[1] +
                              l * mask_strides[2] + s * mask_strides[3];
      if (!Mask(args, mask_at, &term)) continue;
      const int64_t k_at = At(k, b, h, s), v_at = At(v, b, h, s);
      const double weight =
          std::exp(scale * Dot(q, q_at, k, k_at, args) + term - log_sum);
      if (weight == 0) continue;
      const double slope =
          weight * (Dot(grad, g_at, v, v_at, args) - delta) * scale;
      auto row = [&](const Accumulator& sums, int64_t at) {
        return b * sums.strides()[0] + h * sums.strides()[1] +
               at * sums.strides()[2];
      };
      for (int64_t e = 0; e < q.dims[3]; ++e) {
        dqs.Add(row(dqs, l) + e,
                slope * k.Load<double>(args, k_at + e * k.strides[3]));
        dks.Add(row(dks, s) + e,
                slope * q.Load<double>(args, q_at + e * q.strides[3]));
      }
      for (int64_t f = 0; f < v.dims[3]; ++f) {
        dvs.Add(row(dvs, s) + f,
                weight * grad.Load<double>(args, g_at + f * grad.strides[3]));
      }
    }
  }
};

Verdict PrepareAttentionBackward(const KernelRequest& request) {
  AttentionBackward state = {.grad = OperandLane(request, 0),
                             .q = OperandLane(request, 1),
                             .k = OperandLane(request, 2),
                             .v = OperandLane(request, 3),
                             .out = OperandLane(request, 4),
                             .lse = OperandLane(request, 5),
                             .dq = ResultLane(request, 0),
                             .dk = ResultLane(request, 1),
                             .dv = ResultLane(request, 2)};
  state.is_causal = request.Bool(7);
  state.has_mask = request.Has(8);
  state.mask_strides = Dims(4, 0);
  if (state.has_mask) {
    state.mask = OperandLane(request, 8);
    state.mask_strides = BroadcastStrides(
        state.mask,
        {state.q.dims[0], state.q.dims[1], state.q.dims[2], state.k.dims[2]});
  }
  state.scale = request.Has(9)
                    ? request.Number(9)
                    : 1 / std::sqrt(static_cast<double>(state.q.dims[3]));
  return RunBody([state](void* const* args, LaunchContext&) {
    Accumulator dq(state.dq), dk(state.dk), dv(state.dv);
    for (int64_t b = 0; b < state.q.dims[0]; ++b) {
      for (int64_t h = 0; h < state.q.dims[1]; ++h) {
        for (int64_t l = 0; l < state.q.dims[2]; ++l) {
          state.RunQuery(args, b, h, l, dq, dk, dv);
        }
      }
    }
    dq.Store(args);
    dk.Store(args);
    dv.Store(args);
    return true;
  });
}

}  // namespace

void RegisterReferenceLayerBackward(KernelRegistry& registry) {
  AddReference(registry, "aten.gelu_backward", PrepareGeluBackward);
  AddReference(registry, "aten._softmax_backward_data",
               [](const KernelRequest& request) -> Verdict {
                 return PrepareSoftmaxBackward(
                     request, {[](double g, double y) { return g * y; },
                               [](double g, double y, double s) {
                                 return (g - s) * y;
                               }});
               });
  AddReference(registry, "aten._log_softmax_backward_data",
               [](const KernelRequest& request) -> Verdict {
                 return PrepareSoftmaxBackward(
                     request, {[](double g, double) { return g; },
                               [](double g, double y, double s) {
                                 return g - std::exp(y) * s;
                               }});
               });
  AddReference(registry, "aten.native_layer_norm_backward",
               PrepareLayerNormBackward);
  AddReference(registry, "aten.embedding_dense_backward",
               PrepareEmbeddingBackward);
  AddReference(registry,
               "aten._scaled_dot_product_flash_attention_for_cpu_backward",
               PrepareAttentionBackward);
}

}  // namespace mica
