// Functions of one number and up to two constants: what regions compute of it,
// without a loop and a pass over memory for each instruction.

#include <cstdint>
#include <cstring>

#include "kernels/cpu/simd/parts.h"
#include "kernels/region/lanes.h"
#include "kernels/region/operators.h"

namespace mica::cpu::MICA_SIMD_NAMESPACE {
namespace {

using namespace region::MICA_SIMD_NAMESPACE;  // NOLINT: of this level alone.

template <RegionOpId kOp, class F>
MICA_LANES F Apply(F a, F b) {
  return FloatOperator<kOp>::Of(a, b, b, b);
}

// 0 to 6, of -3 to 3.
template <class F>
MICA_LANES F Ramp(F x) {
  const F low = Apply<RegionOpId::kMaximum>(x + F::Of(3), F::Of(0));
  return Apply<RegionOpId::kMinimum>(low, F::Of(6));
}

// Each as its rule in analysis/fuse/region_rule_table.cc, bit for bit.
#define MICA_ACTIVATION(Name, expression)                                     \
  struct Name##Of {                                                           \
    template <class F>                                                        \
    static MICA_LANES F Do(F x, [[maybe_unused]] F p, [[maybe_unused]] F q) { \
      return expression;                                                      \
    }                                                                         \
  };
MICA_ACTIVATION(Floor, Apply<RegionOpId::kFloor>(x, x))
MICA_ACTIVATION(Ceil, Apply<RegionOpId::kCeil>(x, x))
MICA_ACTIVATION(Trunc, Apply<RegionOpId::kTrunc>(x, x))
MICA_ACTIVATION(Round, Apply<RegionOpId::kRound>(x, x))
MICA_ACTIVATION(Frac, x - Apply<RegionOpId::kTrunc>(x, x))
MICA_ACTIVATION(Sign, Apply<RegionOpId::kSign>(x, x))
MICA_ACTIVATION(Hardswish, x* Ramp(x) / F::Of(6))
MICA_ACTIVATION(Hardsigmoid, Ramp(x) / F::Of(6))
MICA_ACTIVATION(LeakyRelu, Select(Less(F::Of(0), x), x, x* p))
MICA_ACTIVATION(Hardshrink,
                Select(Less(p, x) | Less(x, -p) | IsNan(x) | IsNan(p), x,
                       F::Of(0)))
MICA_ACTIVATION(Threshold, Select(Less(p, x) | IsNan(x) | IsNan(p), x, q))
#undef MICA_ACTIVATION

template <typename T, typename Op>
void MapActivation(const void* x, void* out, int64_t n, const void* p,
                   const void* q) {
  constexpr int kCount = kRegisterBytes / static_cast<int>(sizeof(T));
  using F = Floats<T, kCount>;
  const F first = F::Of(*static_cast<const T*>(p));
  const F second = F::Of(*static_cast<const T*>(q));
  const T* in = static_cast<const T*>(x);
  T* to = static_cast<T*>(out);
  int64_t i = 0;
  for (; i + kCount <= n; i += kCount) {
    StoreLanes(to + i, Op::Do(LoadLanes<F>(in + i), first, second));
  }
  if (i == n) return;
  T rest[kCount] = {};
  const size_t bytes = static_cast<size_t>(n - i) * sizeof(T);
  std::memcpy(rest, in + i, bytes);
  StoreLanes(rest, Op::Do(LoadLanes<F>(rest), first, second));
  std::memcpy(to + i, rest, bytes);
}

}  // namespace

void FillActivations(SimdTable& table) {
#define MICA_SET_ACTIVATION(Name)                               \
  table.activations[static_cast<int>(Pointwise1::k##Name)][0] = \
      MapActivation<float, Name##Of>;                           \
  table.activations[static_cast<int>(Pointwise1::k##Name)][1] = \
      MapActivation<double, Name##Of>
  MICA_SET_ACTIVATION(Floor);
  MICA_SET_ACTIVATION(Ceil);
  MICA_SET_ACTIVATION(Trunc);
  MICA_SET_ACTIVATION(Round);
  MICA_SET_ACTIVATION(Frac);
  MICA_SET_ACTIVATION(Sign);
  MICA_SET_ACTIVATION(Hardswish);
  MICA_SET_ACTIVATION(Hardsigmoid);
  MICA_SET_ACTIVATION(LeakyRelu);
  MICA_SET_ACTIVATION(Hardshrink);
  MICA_SET_ACTIVATION(Threshold);
#undef MICA_SET_ACTIVATION
}

}  // namespace mica::cpu::MICA_SIMD_NAMESPACE
