#ifndef MICA_KERNELS_CPU_SIMD_MATH_H_
#define MICA_KERNELS_CPU_SIMD_MATH_H_

#include "kernels/cpu/simd/vec.h"

// float32 functions of a vector, at most 4 ulp from the exact value; infinity,
// nan, zeros and denormals as in <cmath>. The polynomials are minimax fits of
// this project (least squares, reweighted until the error is level).

namespace mica::cpu::MICA_SIMD_NAMESPACE {

// Horner's rule: c[0] + x (c[1] + x (c[2] + ...)).
template <int kTerms>
MICA_INLINE Vf Polynomial(const float (&c)[kTerms], Vf x) {
  Vf y = Set(c[kTerms - 1]);
  MICA_UNROLL
  for (int i = kTerms - 2; i >= 0; --i) y = Fma(y, x, Set(c[i]));
  return y;
}

// exp(x) = 2^n exp(r) with |r| <= ln(2) / 2.
struct ScaledExp {
  Vf y, n;  // y 2^n.
};
MICA_INLINE ScaledExp ReducedExp(Vf x) {
  static constexpr float kTail[] = {0.499999995f, 0.16666577f, 0.041666854f,
                                    0.0083632f, 0.00139012986f};
  const Vf n = Round(x * Set(1.44269504f));
  Vf r = Fnma(n, Set(0.693145751953125f), x);
  r = Fnma(n, Set(1.42860677e-6f), r);
  return {Fma(r * r, Polynomial(kTail, r), r) + Set(1.0f), n};
}
MICA_INLINE Vf Exp(Vf x) {
  const Vm is_low = Less(x, Set(-0x1.5d589ep+6f));  // Of denormal results.
  // Outside of a range the result is 0 or infinity anyway. The order of the
  // arguments lets a nan through.
  x = Min(Set(89.0f), x);
  if (__builtin_expect(HasLanes(is_low), 0)) {
    const ScaledExp e = ReducedExp(Max(Set(-104.0f), x));
    return Select(is_low, ScaleToDenormal(e.y, e.n),
                  Scale2(e.y, Select(is_low, Zero(), e.n)));
  }
  const ScaledExp e = ReducedExp(x);
  return Scale2(e.y, e.n);
}

// y, but 1 with x's sign where |x| > limit.
MICA_INLINE Vf Saturate(Vf y, Vf x, float limit) {
  return Select(Less(Set(limit), Abs(x)), CopySign(Set(1.0f), x), y);
}

// erf(x) = x P(x^2) / Q(x^2) up to where it rounds to 1.
MICA_INLINE Vf Erf(Vf x) {
  static constexpr float kP[] = {1.12837915f,     0.187555771f,
                                 0.0524439881f,   0.00366159569f,
                                 0.000285820015f, 2.11675683e-06f};
  static constexpr float kQ[] = {1.0f,           0.499549867f,
                                 0.112996213f,   0.0147601899f,
                                 0.00114327184f, 3.88264915e-05f};
  // Limits s, so that a large x doesn't make infinity over infinity.
  const Vf s = Min(Set(15.0f), x * x);
  return Saturate(x * Polynomial(kP, s) / Polynomial(kQ, s), x, 3.84f);
}

// tanh(x), of the same form.
MICA_INLINE Vf Tanh(Vf x) {
  static constexpr float kP[] = {0.999999979f, 0.133797316f, 0.00349404998f,
                                 2.05837043e-05f, 1.33193253e-08f};
  static constexpr float kQ[] = {1.0f, 0.467130469f, 0.0258711339f,
                                 0.000328311672f, 7.76213482e-07f};
  const Vf s = Min(Set(82.0f), x * x);
  return Saturate(x * Polynomial(kP, s) / Polynomial(kQ, s), x, 9.02f);
}

MICA_INLINE Vf Sigmoid(Vf x) {
  return Set(1.0f) / (Set(1.0f) + Exp(Zero() - x));
}
MICA_INLINE Vf Silu(Vf x) { return x / (Set(1.0f) + Exp(Zero() - x)); }

// x times the normal distribution's cumulative function: GELU as defined. It
// has x's sign, a zero's too; but eager leaves contiguous float32 to oneDNN,
// whose zeros are positive where it hasn't AVX-512.
MICA_INLINE Vf GeluErf(Vf x) {
  const Vf h = Set(0.5f) * x;
  const Vf y = CopySign(Fma(h, Erf(x * Set(0.707106781f)), h), x);
#if defined(__AVX512F__)
  return y;
#else
  return y + Zero();
#endif
}
// GELU's common approximation by tanh.
MICA_INLINE Vf GeluTanh(Vf x) {
  const Vf h = Set(0.5f) * x;
  const Vf inner = x * Fma(Set(0.0356774081f), x * x, Set(0.797884561f));
  return CopySign(Fma(h, Tanh(inner), h), x);
}
// A nan stays one, as in PyTorch.
MICA_INLINE Vf Relu(Vf x) { return Max(Zero(), x); }
MICA_INLINE Vf Relu6(Vf x) { return Min(Set(6.0f), Max(Zero(), x)); }
MICA_INLINE Vf Hardswish(Vf x) { return x * Relu6(x + Set(3.0f)) / Set(6.0f); }

}  // namespace mica::cpu::MICA_SIMD_NAMESPACE

#endif  // MICA_KERNELS_CPU_SIMD_MATH_H_
