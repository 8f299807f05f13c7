// The largest of windows along a row, in any floating type.

#include <cstdint>

#include "kernels/cpu/simd/parts.h"
#include "kernels/cpu/simd/vec.h"

namespace mica::cpu::MICA_SIMD_NAMESPACE {
namespace {

template <typename T>
struct Wide {
  using Bits = T;
  static MICA_INLINE bool IsAbove(T a, T b) { return (a > b) | (a != a); }
};

// Sign, exponent and the rest in 16 bits; what is larger than `kInfinity`
// without its sign is a nan.
template <int16_t kInfinity>
struct Narrow {
  using Bits = int16_t;
  // In the order of the numbers, both zeros in one place.
  static MICA_INLINE int16_t Rank(int16_t bits) {
    const auto size = static_cast<int16_t>(bits & 0x7fff);
    const auto ranked = static_cast<int16_t>(bits < 0 ? -size : size);
    return size > kInfinity ? int16_t{0x7fff} : ranked;
  }
  static MICA_INLINE bool IsAbove(int16_t a, int16_t b) {
    return Rank(a) > Rank(b);
  }
};

template <typename Float, int kStep>
MICA_INLINE void TakeTap(const typename Float::Bits* x, int64_t step, int64_t n,
                         typename Float::Bits* out) {
  MICA_IVDEP
  for (int64_t i = 0; i < n; ++i) {
    const auto value = x[i * (kStep > 0 ? kStep : step)];
    out[i] = Float::IsAbove(value, out[i]) ? value : out[i];
  }
}

template <typename Float>
void MaxTaps(const void* x, int64_t step, int64_t n, void* out) {
  const auto* in = static_cast<const typename Float::Bits*>(x);
  auto* to = static_cast<typename Float::Bits*>(out);
  if (step == 1) {
    TakeTap<Float, 1>(in, step, n, to);
  } else if (step == 2) {
    TakeTap<Float, 2>(in, step, n, to);
  } else {
    TakeTap<Float, 0>(in, step, n, to);
  }
}

}  // namespace

void FillPoolRows(SimdTable& table) {
  table.max_taps[static_cast<int>(Pooled::kF32)] = MaxTaps<Wide<float>>;
  table.max_taps[static_cast<int>(Pooled::kF64)] = MaxTaps<Wide<double>>;
  table.max_taps[static_cast<int>(Pooled::kBFloat)] = MaxTaps<Narrow<0x7f80>>;
  table.max_taps[static_cast<int>(Pooled::kHalf)] = MaxTaps<Narrow<0x7c00>>;
}

}  // namespace mica::cpu::MICA_SIMD_NAMESPACE
