// Numbers of 16 bits to float32 and back.

#include "kernels/cpu/simd/half.h"

#include <cstdint>

#include "kernels/cpu/simd/parts.h"
#include "kernels/cpu/simd/vec.h"

namespace mica::cpu::MICA_SIMD_NAMESPACE {
namespace {

constexpr int kHalves = 8;  // Of a vector.

// A bfloat16 is the upper half of a float32.
void WidenBFloats(const void* x, void* out, int64_t n) {
  const auto* in = static_cast<const uint16_t*>(x);
  auto* to = static_cast<uint32_t*>(out);
  MICA_IVDEP
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<uint32_t>(in[i]) << 16;
}

// To the nearest, of two to the even one; every nan becomes the same one.
void NarrowBFloats(const void* x, void* out, int64_t n) {
  const auto* in = static_cast<const uint32_t*>(x);
  auto* to = static_cast<uint16_t*>(out);
  MICA_IVDEP
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t bits = in[i];
    const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    const bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
    to[i] = static_cast<uint16_t>(is_nan ? 0x7fc0 : rounded);
  }
}

#if defined(__AVX2__)
MICA_INLINE void WidenEight(const uint16_t* in, float* out) {
  _mm256_storeu_ps(
      out,
      _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in))));
}

MICA_INLINE void NarrowEight(const float* in, uint16_t* out) {
  _mm_storeu_si128(
      reinterpret_cast<__m128i*>(out),
      _mm256_cvtps_ph(_mm256_loadu_ps(in), _MM_FROUND_TO_NEAREST_INT));
}
#else
MICA_INLINE void WidenEight(const uint16_t* in, float* out) {
  for (int i = 0; i < kHalves; i += kLanes) Store(out + i, WidenHalf(in + i));
}
MICA_INLINE void NarrowEight(const float* in, uint16_t* out) {
  for (int i = 0; i < kHalves; i += kLanes) NarrowHalf(out + i, Load(in + i));
}
#endif

// Eight by eight; the last ones stand before others that are nobody's.
template <typename From, typename To, void (*kEight)(const From*, To*)>
void ByEights(const void* x, void* out, int64_t n) {
  const auto* in = static_cast<const From*>(x);
  auto* to = static_cast<To*>(out);
  int64_t i = 0;
  for (; i + kHalves <= n; i += kHalves) kEight(in + i, to + i);
  if (i == n) return;
  From rest[kHalves] = {};
  To made[kHalves];
  for (int64_t j = 0; i + j < n; ++j) rest[j] = in[i + j];
  kEight(rest, made);
  for (int64_t j = 0; i + j < n; ++j) to[i + j] = made[j];
}

}  // namespace

void FillHalf(SimdTable& table) {
  table.widen[static_cast<int>(Half::kBFloat)] = WidenBFloats;
  table.narrow[static_cast<int>(Half::kBFloat)] = NarrowBFloats;
  table.widen[static_cast<int>(Half::kHalf)] =
      ByEights<uint16_t, float, WidenEight>;
  table.narrow[static_cast<int>(Half::kHalf)] =
      ByEights<float, uint16_t, NarrowEight>;
}

}  // namespace mica::cpu::MICA_SIMD_NAMESPACE
