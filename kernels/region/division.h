// The remainders of divisions, exact for every ratio, over the types of
// lanes.h.
//
// A step takes from r the multiple q b that is nearest to it, or, of a ratio
// with more than half of the digits of F, what its first digits give. Then q
// times b, or times each half of b where products and sums don't round as one,
// and the differences are exact. Nearly every ratio takes one step.

#ifndef MICA_KERNELS_REGION_DIVISION_H_
#define MICA_KERNELS_REGION_DIVISION_H_

#include <cstdint>
#include <limits>

#include "kernels/region/lanes.h"

namespace mica::MICA_REGION_NAMESPACE {

// r - q b, exact if q has no more digits than StepDigits().
template <class F>
MICA_LANES F LessMultiple(F r, F q, F b) {
  if (F::Fuses()) return Fma(-q, b, r);
  constexpr int kLowDigits = F::kIsDouble ? 27 : 12;
  const auto low = F::Int::Of((int64_t{1} << kLowDigits) - 1);
  const F b_high = FromBits<F>(Bits(b) & ~low);
  // By halves, as q b_high may be above r, and overflow.
  const F half = (F::Of(0.5) * q) * b_high;
  return ((r - half) - half) - q * (b - b_high);
}

// A quotient's digits that a step takes.
template <class F>
MICA_LANES int StepDigits() {
  if (F::Fuses()) return F::kIsDouble ? 50 : 21;
  return F::kIsDouble ? 25 : 11;
}
// q's first ones.
template <class F>
MICA_LANES F FirstDigits(F q) {
  constexpr int kDigits = F::kIsDouble ? 53 : 24;
  const int64_t rest = int64_t{1} << (kDigits - StepDigits<F>());
  return FromBits<F>(Bits(q) & F::Int::Of(-rest));
}

// r less a multiple of b > 0, nearer to 0 than b, for a finite r.
template <class F>
MICA_LANES F ManySteps(F r, F b) {
  const F inf = F::Of(std::numeric_limits<double>::infinity());
  const F few = F::Of(static_cast<double>(int64_t{1} << StepDigits<F>()));
  const F up = F::Of(F::kIsDouble ? 0x1p600 : 0x1p80);
  const F down = F::Of(F::kIsDouble ? 0x1p-600 : 0x1p-80);
  return WhileAny(
      r, [&](F rest) MICA_LANES_LAMBDA { return LessEqual(b, Abs(rest)); },
      [&](F rest) MICA_LANES_LAMBDA {
        // Of an overflowing ratio both sides are brought together; b is below
        // 1 then, and no digit is lost.
        const auto overflows = Equal(Abs(rest / b), inf);
        const F near = Select(overflows, rest * down, rest);
        const F step = Select(overflows, b * up, b);
        const F ratio = near / step;
        const auto is_last = Less(Abs(ratio), few) & !overflows;
        const F q = Select(is_last, Round(ratio), FirstDigits(ratio));
        const F left = LessMultiple(near, q, step);
        return Select(overflows, left * up, left);
      });
}

// a - b trunc(a / b), exact, with a's sign.
template <class F>
MICA_LANES F Fmod(F a, F b) {
  const F zero = F::Of(0), size = Abs(a), step = Abs(b);
  const F inf = F::Of(std::numeric_limits<double>::infinity());
  const F nan = F::Of(std::numeric_limits<double>::quiet_NaN());
  const F few = F::Of(static_cast<double>(int64_t{1} << StepDigits<F>()));
  const auto is_finite = Less(size, inf);
  const auto is_valid = is_finite & Less(zero, step) & Less(step, inf);
  const F ratio = size / step;
  const auto is_far = is_valid & LessEqual(few, ratio);
  const F near = IfAny(is_far, LessMultiple(size, Round(ratio), step),
                       [&]() MICA_LANES_LAMBDA {
                         return ManySteps(Select(is_far, size, zero), step);
                       });
  const F rest = CopySign(Select(Less(near, zero), near + step, near), a);
  const F other = Select(is_finite & Equal(step, inf), a, nan);
  return Select(is_valid, rest, other);
}

// Whether PyTorch brings `mod`, a's remainder by b, to b's side of 0.
template <class F>
MICA_LANES typename F::Mask IsOnOtherSide(F mod, F b) {
  const F zero = F::Of(0);
  return (Less(mod, zero) & Less(zero, b)) | (Less(zero, mod) & Less(b, zero));
}

// Python's a % b, with b's sign. A remainder of 0 has a's, as PyTorch's.
template <class F>
MICA_LANES F Remainder(F a, F b) {
  const F mod = Fmod(a, b);
  return Select(IsOnOtherSide(mod, b), mod + b, mod);
}

// floor(a / b) in PyTorch's steps, which round less than those of a / b.
template <class F>
MICA_LANES F FloorDiv(F a, F b) {
  const F zero = F::Of(0), one = F::Of(1);
  const F quotient = a / b, mod = Fmod(a, b);
  const F exact = (a - mod) / b;
  const F below = Select(IsOnOtherSide(mod, b), exact - one, exact);
  const F floor = Floor(below);
  const F near = Select(Less(F::Of(0.5), below - floor), floor + one, floor);
  const F y = Select(Equal(below, zero), CopySign(zero, quotient), near);
  return Select(Equal(b, zero), quotient, y);
}

}  // namespace mica::MICA_REGION_NAMESPACE

#endif  // MICA_KERNELS_REGION_DIVISION_H_
