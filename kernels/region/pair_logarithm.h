// Sums of two floats, and the logarithm of one as another.

#ifndef MICA_KERNELS_REGION_PAIR_LOGARITHM_H_
#define MICA_KERNELS_REGION_PAIR_LOGARITHM_H_

#include "kernels/region/arithmetic.h"
#include "kernels/region/logarithms.h"
#include "kernels/region/power.h"

namespace mica::MICA_REGION_NAMESPACE {

// a + b, in any order of their sizes.
template <class F>
MICA_LANES Pair<F> Sum(Pair<F> a, Pair<F> b) {
  const F hi = a.hi + b.hi, taken = hi - a.hi;
  const F lo = (a.hi - (hi - taken)) + (b.hi - taken);
  return {hi, lo + (a.lo + b.lo)};
}

// log(hi + lo) where hi is positive and lo small beside it, by the logarithm
// of pow.
template <class F>
MICA_LANES Pair<F> LogOfPair(Pair<F> x) {
  const auto ln2 = PairOf<F>(0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56);
  constexpr int kShift = 54;  // Makes all denormals normal.
  const auto is_denormal = Less(x.hi, F::Of(kSmallestNormal<F>));
  Split<F> split = SplitByRoot(Select(is_denormal, x.hi * F::Of(0x1p54), x.hi));
  split.k = split.k - Select(is_denormal, F::Of(kShift), F::Of(0));
  Pair<F> log = Product(ln2, Log2OfSplit(split));
  return FastSum(log.hi, log.lo + x.lo / x.hi);
}

}  // namespace mica::MICA_REGION_NAMESPACE

#endif  // MICA_KERNELS_REGION_PAIR_LOGARITHM_H_
