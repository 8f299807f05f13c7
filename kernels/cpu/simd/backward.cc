#include <cmath>
#include <cstdint>

#include "kernels/cpu/simd/math.h"
#include "kernels/cpu/simd/parts.h"
#include "kernels/cpu/simd/vec.h"

// Gradients of a transformer's layers.

namespace mica::cpu::MICA_SIMD_NAMESPACE {
namespace {

template <typename Full, typename Tail>
MICA_INLINE void ForRow(int64_t n, Full full, Tail tail) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) full(i);
  if (i < n) tail(i, FirstLanes(n - i));
}

float Dot(const float* a, const float* b, int64_t n) {
  Vf sum = Zero();
  ForRow(
      n, [&](int64_t i) { sum = Fma(Load(a + i), Load(b + i), sum); },
      [&](int64_t i, Vm m) { sum = Fma(Load(a + i, m), Load(b + i, m), sum); });
  return SumLanes(sum);
}

struct RowSums {
  float slope = 0;  // Of dy * gamma.
  float dot = 0;    // Of dy * gamma * xhat.
};

template <bool kGamma>
MICA_INLINE RowSums SumRow(const LayerNormBackwardArgs& args, const float* dy,
                           const float* x, float mean, float rstd) {
  const Vf mu = Set(mean), r = Set(rstd);
  Vf sum = Zero(), dot = Zero();
  ForRow(
      args.n,
      [&](int64_t i) {
        Vf d = Load(dy + i);
        if (kGamma) d = d * Load(args.gamma + i);
        sum += d;
        dot = Fma(d, (Load(x + i) - mu) * r, dot);
      },
      [&](int64_t i, Vm m) {
        Vf d = Load(dy + i, m);
        if (kGamma) d = d * Load(args.gamma + i, m);
        sum += d;
        dot = Fma(d, (Load(x + i, m) - mu) * r, dot);
      });
  return {SumLanes(sum), SumLanes(dot)};
}

// One vector of a row: loads with the mask, if there is one.
template <bool kGamma, bool kAffine, typename... Mask>
MICA_INLINE void BackwardStep(const LayerNormBackwardArgs& args,
                              const float* dy, const float* x, float* dx,
                              int64_t i, Vf mu, Vf r, Vf c1, Vf c2, Mask... m) {
  const Vf g = Load(dy + i, m...);
  const Vf xhat = (Load(x + i, m...) - mu) * r;
  if (kAffine) {
    if (args.dgamma != nullptr) {
      Store(args.dgamma + i, Fma(g, xhat, Load(args.dgamma + i, m...)), m...);
    }
    if (args.dbeta != nullptr) {
      Store(args.dbeta + i, Load(args.dbeta + i, m...) + g, m...);
    }
  }
  if (dx == nullptr) return;
  const Vf d = kGamma ? g * Load(args.gamma + i, m...) : g;
  Store(dx + i, r * (d - c1 - xhat * c2), m...);
}

template <bool kGamma, bool kAffine>
void BackwardRows(const LayerNormBackwardArgs& args) {
  const float per_element = 1.0f / static_cast<float>(args.n);
  for (int64_t row = 0; row < args.rows; ++row) {
    const float* dy = args.dy + row * args.n;
    const float* x = args.x + row * args.n;
    float* dx = args.dx != nullptr ? args.dx + row * args.n : nullptr;
    const float mean = args.mean[row], rstd = args.rstd[row];
    RowSums sums;
    if (dx != nullptr) sums = SumRow<kGamma>(args, dy, x, mean, rstd);
    const Vf mu = Set(mean), r = Set(rstd);
    const Vf c1 = Set(sums.slope * per_element);
    const Vf c2 = Set(sums.dot * per_element);
    ForRow(
        args.n,
        [&](int64_t i) {
          BackwardStep<kGamma, kAffine>(args, dy, x, dx, i, mu, r, c1, c2);
        },
        [&](int64_t i, Vm m) {
          BackwardStep<kGamma, kAffine>(args, dy, x, dx, i, mu, r, c1, c2, m);
        });
  }
}

void LayerNormBackward(const LayerNormBackwardArgs& args) {
  const bool is_affine = args.dgamma != nullptr || args.dbeta != nullptr;
  if (args.gamma != nullptr) {
    return is_affine ? BackwardRows<true, true>(args)
                     : BackwardRows<true, false>(args);
  }
  return is_affine ? BackwardRows<false, true>(args)
                   : BackwardRows<false, false>(args);
}

void SoftmaxBackward(const float* dy, const float* y, float* out, int64_t rows,
                     int64_t n) {
  for (int64_t row = 0; row < rows; ++row, dy += n, y += n, out += n) {
    const Vf sum = Set(Dot(dy, y, n));
    ForRow(
        n,
        [&](int64_t i) { Store(out + i, (Load(dy + i) - sum) * Load(y + i)); },
        [&](int64_t i, Vm m) {
          Store(out + i, (Load(dy + i, m) - sum) * Load(y + i, m), m);
        });
  }
}

void LogSoftmaxBackward(const float* dy, const float* y, float* out,
                        int64_t rows, int64_t n) {
  for (int64_t row = 0; row < rows; ++row, dy += n, y += n, out += n) {
    Vf total = Zero();
    ForRow(
        n, [&](int64_t i) { total += Load(dy + i); },
        [&](int64_t i, Vm m) { total += Load(dy + i, m); });
    const Vf sum = Set(SumLanes(total));
    ForRow(
        n,
        [&](int64_t i) {
          Store(out + i, Fnma(Exp(Load(y + i)), sum, Load(dy + i)));
        },
        [&](int64_t i, Vm m) {
          Store(out + i, Fnma(Exp(Load(y + i, m)), sum, Load(dy + i, m)), m);
        });
  }
}

void AttentionSlopes(float* s, float* dp, int64_t n, float lse, float delta,
                     float scale) {
  const Vf l = Set(lse), d = Set(delta), c = Set(scale);
  ForRow(
      n,
      [&](int64_t i) {
        const Vf p = Exp(Load(s + i) - l);
        Store(s + i, p);
        Store(dp + i, p * (Load(dp + i) - d) * c);
      },
      [&](int64_t i, Vm m) {
        const Vf p = Exp(Load(s + i, m) - l);
        Store(s + i, p, m);
        Store(dp + i, p * (Load(dp + i, m) - d) * c, m);
      });
}

struct GeluErfSlope {
  static MICA_INLINE Vf Do(Vf dy, Vf x) {
    const Vf below = Fma(Set(0.5f), Erf(x * Set(0.707106781f)), Set(0.5f));
    const Vf density = Set(0.398942280f) * Exp(x * x * Set(-0.5f));
    return dy * Fma(x, density, below);
  }
};

struct GeluTanhSlope {
  static MICA_INLINE Vf Do(Vf dy, Vf x) {
    const Vf xx = x * x;
    const Vf u = x * Fma(Set(0.0356774081f), xx, Set(0.797884561f));
    const Vf inner = Fma(Set(0.107032224f), xx, Set(0.797884561f));
    // With e = exp(-2|u|): tanh's slope is 4e / (1 + e)^2, which 1 - tanh(u)^2
    // would lose where tanh is near 1.
    const Vf e = Exp(Set(-2.0f) * Abs(u));
    const Vf r = Set(1.0f) / (Set(1.0f) + e);
    const Vf bend = Set(4.0f) * e * r * r;
    // (1 + tanh(u)) / 2.
    const Vf left = Select(Less(u, Zero()), e * r, r);
    return dy * Fma(Set(0.5f) * x * bend, inner, left);
  }
};

template <typename Op>
void MapPair(const void* a, const void* b, void* out, int64_t n, const void*) {
  const float* dy = static_cast<const float*>(a);
  const float* x = static_cast<const float*>(b);
  float* to = static_cast<float*>(out);
  ForRow(
      n, [&](int64_t i) { Store(to + i, Op::Do(Load(dy + i), Load(x + i))); },
      [&](int64_t i, Vm m) {
        Store(to + i, Op::Do(Load(dy + i, m), Load(x + i, m)), m);
      });
}

// Rounded after each step, as in a region: a step of training gives the same
// bits however it is cut.
template <typename T>
__attribute__((optimize("fp-contract=off"))) void TanhBackward(
    const void* a, const void* b, void* out, int64_t n, const void*) {
  const T* dy = static_cast<const T*>(a);
  const T* y = static_cast<const T*>(b);
  T* to = static_cast<T*>(out);
  MICA_IVDEP
  for (int64_t i = 0; i < n; ++i) to[i] = dy[i] * (T{1} - y[i] * y[i]);
}

}  // namespace

void FillBackward(SimdTable& table) {
  table.layer_norm_backward = LayerNormBackward;
  table.softmax_backward = SoftmaxBackward;
  table.log_softmax_backward = LogSoftmaxBackward;
  table.attention_slopes = AttentionSlopes;
  table.dot = Dot;
  auto set = [&table](Binary op, Elem elem, BinaryFn fn) {
    table.binary[static_cast<int>(op)][static_cast<int>(elem)]
                [static_cast<int>(Form::kVV)] = fn;
  };
  set(Binary::kTanhBackward, Elem::kF32, TanhBackward<float>);
  set(Binary::kTanhBackward, Elem::kF64, TanhBackward<double>);
  set(Binary::kGeluErfBackward, Elem::kF32, MapPair<GeluErfSlope>);
  set(Binary::kGeluTanhBackward, Elem::kF32, MapPair<GeluTanhSlope>);
}

}  // namespace mica::cpu::MICA_SIMD_NAMESPACE
