#include <cmath>
#include <cstdint>

#include "kernels/cpu/simd/parts.h"
#include "kernels/cpu/simd/vec.h"

// Adam's step, left to the compiler's vectoriser.

namespace mica::cpu::MICA_SIMD_NAMESPACE {
namespace {

// From the nearer end, so that 0 and 1 give the ends themselves.
template <typename T>
MICA_INLINE T Lerp(T a, T b, T weight, bool is_near) {
  return is_near ? a + weight * (b - a) : b - (b - a) * (T{1} - weight);
}

template <typename T, bool kNear>
void AdamLoop(const AdamArgs& args) {
  const T* self = static_cast<const T*>(args.self);
  const T* grad = static_cast<const T*>(args.grad);
  const T* avg = static_cast<const T*>(args.avg);
  const T* avg_sq = static_cast<const T*>(args.avg_sq);
  T* new_self = static_cast<T*>(args.new_self);
  T* new_avg = static_cast<T*>(args.new_avg);
  T* new_avg_sq = static_cast<T*>(args.new_avg_sq);
  const T sign = static_cast<T>(args.grad_sign);
  const T shrink = static_cast<T>(args.shrink);
  const T decay = static_cast<T>(args.decay);
  const bool decays = args.decay != 0;
  const T weight = static_cast<T>(args.weight);
  const T beta2 = static_cast<T>(args.beta2);
  const T rest = static_cast<T>(1 - args.beta2);
  const T root = static_cast<T>(args.root);
  const T eps = static_cast<T>(args.eps);
  const T size = static_cast<T>(args.size);
  MICA_IVDEP
  for (int64_t i = 0; i < args.n; ++i) {
    const T p = self[i] * shrink;
    const T g = grad[i] * sign + (decays ? self[i] * decay : T{0});
    const T m = Lerp(avg[i], g, weight, kNear);
    const T v = avg_sq[i] * beta2 + rest * g * g;
    new_avg[i] = m;
    new_avg_sq[i] = v;
    new_self[i] = p - size * m / (std::sqrt(v) / root + eps);
  }
}

template <typename T>
void Adam(const AdamArgs& args) {
  if (std::fabs(args.weight) < 0.5) return AdamLoop<T, true>(args);
  AdamLoop<T, false>(args);
}

template <typename T>
void Fill(SimdTable& table, Elem elem) {
  const int e = static_cast<int>(elem);
  table.adam[e] = Adam<T>;
}

}  // namespace

void FillAdam(SimdTable& table) {
  Fill<float>(table, Elem::kF32);
  Fill<double>(table, Elem::kF64);
}

}  // namespace mica::cpu::MICA_SIMD_NAMESPACE
