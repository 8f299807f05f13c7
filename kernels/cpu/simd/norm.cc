#include <cmath>
#include <cstdint>

#include "kernels/cpu/simd/parts.h"
#include "kernels/cpu/simd/vec.h"

namespace mica::cpu::MICA_SIMD_NAMESPACE {
namespace {

// One row of vectors: Visit(i, mask or none) with a masked last one.
template <typename Full, typename Tail>
MICA_INLINE void ForRow(int64_t n, Full full, Tail tail) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) full(i);
  if (i < n) tail(i, FirstLanes(n - i));
}

// The sum of a row, whose vectors add(i, sum) and add_last(i, mask, sum) add to
// what they are given. Four sums beside each other: one waits for itself.
template <typename Add, typename AddLast>
MICA_INLINE float SumOver(int64_t n, Add add, AddLast add_last) {
  Vf a = Zero(), b = Zero(), c = Zero(), d = Zero();
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    a = add(i, a);
    b = add(i + kLanes, b);
    c = add(i + 2 * kLanes, c);
    d = add(i + 3 * kLanes, d);
  }
  for (; i + kLanes <= n; i += kLanes) a = add(i, a);
  if (i < n) b = add_last(i, FirstLanes(n - i), b);
  return SumLanes((a + b) + (c + d));
}

// x + addend of a row to `to`; returns the sum of its elements.
MICA_INLINE float AddRow(const float* x, const float* addend, float* to,
                         int64_t n) {
  return SumOver(
      n,
      [&](int64_t i, Vf sum) {
        const Vf v = Load(x + i) + Load(addend + i);
        Store(to + i, v);
        return sum + v;
      },
      [&](int64_t i, Vm m, Vf sum) {
        const Vf v = Load(x + i, m) + Load(addend + i, m);
        Store(to + i, v, m);
        return sum + v;
      });
}

MICA_INLINE float SumRow(const float* x, int64_t n) {
  return SumOver(
      n, [&](int64_t i, Vf sum) { return sum + Load(x + i); },
      [&](int64_t i, Vm m, Vf sum) { return sum + Load(x + i, m); });
}

// Sum of the squared distances from the mean.
MICA_INLINE float SumSquares(const float* x, float mean, int64_t n) {
  const Vf mu = Set(mean);
  return SumOver(
      n,
      [&](int64_t i, Vf sum) {
        const Vf d = Load(x + i) - mu;
        return Fma(d, d, sum);
      },
      [&](int64_t i, Vm m, Vf sum) {
        const Vf d = Select(m, Load(x + i, m) - mu, Zero());
        return Fma(d, d, sum);
      });
}

template <bool kGamma, bool kBeta>
MICA_INLINE void NormaliseRow(const float* x, float mean, float rstd,
                              const float* gamma, const float* beta, float* y,
                              int64_t n) {
  const Vf mu = Set(mean), r = Set(rstd);
  ForRow(
      n,
      [&](int64_t i) {
        Vf v = (Load(x + i) - mu) * r;
        if (kGamma) v = v * Load(gamma + i);
        v = v + (kBeta ? Load(beta + i) : Zero());  // No negative zero is left.
        Store(y + i, v);
      },
      [&](int64_t i, Vm m) {
        Vf v = (Load(x + i, m) - mu) * r;
        if (kGamma) v = v * Load(gamma + i, m);
        v = v + (kBeta ? Load(beta + i, m) : Zero());
        Store(y + i, v, m);
      });
}

void LayerNorm(const LayerNormArgs& args) {
  const int64_t n = args.n;
  const float per_element = 1.0f / static_cast<float>(n);
  for (int64_t row = 0; row < args.rows; ++row) {
    const float* x = args.x + row * n;
    float* y = args.y + row * n;
    float total;
    if (args.addend != nullptr) {
      // Without a place for the sum it waits in y.
      float* sum = args.sum != nullptr ? args.sum + row * n : y;
      total = AddRow(x, args.addend + row * n, sum, n);
      x = sum;
    } else {
      total = SumRow(x, n);
    }
    const float mean = total * per_element;
    const float variance = SumSquares(x, mean, n) * per_element;
    const float rstd = 1.0f / std::sqrt(variance + args.eps);
    if (args.mean != nullptr) args.mean[row] = mean;
    if (args.rstd != nullptr) args.rstd[row] = rstd;
    if (args.gamma != nullptr && args.beta != nullptr) {
      NormaliseRow<true, true>(x, mean, rstd, args.gamma, args.beta, y, n);
    } else if (args.gamma != nullptr) {
      NormaliseRow<true, false>(x, mean, rstd, args.gamma, nullptr, y, n);
    } else if (args.beta != nullptr) {
      NormaliseRow<false, true>(x, mean, rstd, nullptr, args.beta, y, n);
    } else {
      NormaliseRow<false, false>(x, mean, rstd, nullptr, nullptr, y, n);
    }
  }
}

}  // namespace

void FillNorm(SimdTable& table) { table.layer_norm = LayerNorm; }

}  // namespace mica::cpu::MICA_SIMD_NAMESPACE
