// Overloads of lanes.h for whole registers of x86, where the compiler's own
// operators would go lane by lane. Included by lanes.h.

#ifndef MICA_KERNELS_REGION_LANES_X86_H_
#define MICA_KERNELS_REGION_LANES_X86_H_

#include <immintrin.h>

#if defined(__AVX512F__)
#include "kernels/region/roots_avx512.h"
#endif

namespace mica::MICA_REGION_NAMESPACE {

// F is kept in a register whose functions in <immintrin.h> are `mm`_..._`of`.
// Min is a < b ? a : b, so that of a nan and a number it gives b; so is Max.
#define MICA_LANES_ROOT(F, mm, of) \
  MICA_LANES F Sqrt(F a) { return {mm##_sqrt_##of(a.v)}; }
#define MICA_LANES_REGISTER(F, mm, of)                             \
  MICA_LANES F Min(F a, F b) { return {mm##_min_##of(a.v, b.v)}; } \
  MICA_LANES F Max(F a, F b) { return {mm##_max_##of(a.v, b.v)}; }
#define MICA_LANES_FMA(F, mm, of) \
  MICA_LANES F Fma(F a, F b, F c) { return {mm##_fmadd_##of(a.v, b.v, c.v)}; }
#define MICA_LANES_ROUND(F, round)                       \
  MICA_LANES F Round(F a) { return {round(a.v, 0x08)}; } \
  MICA_LANES F Floor(F a) { return {round(a.v, 0x09)}; } \
  MICA_LANES F Ceil(F a) { return {round(a.v, 0x0a)}; }  \
  MICA_LANES F Trunc(F a) { return {round(a.v, 0x0b)}; }

using Float4 = Floats<float, 4>;
using Double2 = Floats<double, 2>;
MICA_LANES_ROOT(Float4, _mm, ps)
MICA_LANES_ROOT(Double2, _mm, pd)
MICA_LANES_REGISTER(Float4, _mm, ps)
MICA_LANES_REGISTER(Double2, _mm, pd)
MICA_LANES bool Any(Float4::Mask m) {
  return _mm_movemask_epi8((__m128i)m.v) != 0;
}
MICA_LANES bool Any(Double2::Mask m) {
  return _mm_movemask_epi8((__m128i)m.v) != 0;
}
#if defined(__FMA__)
MICA_LANES_FMA(Float4, _mm, ps)
MICA_LANES_FMA(Double2, _mm, pd)
#endif

#if defined(__AVX2__)
using Float8 = Floats<float, 8>;
using Double4 = Floats<double, 4>;
MICA_LANES_ROOT(Float8, _mm256, ps)
MICA_LANES_ROOT(Double4, _mm256, pd)
MICA_LANES_REGISTER(Float8, _mm256, ps)
MICA_LANES_REGISTER(Double4, _mm256, pd)
MICA_LANES_FMA(Float8, _mm256, ps)
MICA_LANES_FMA(Double4, _mm256, pd)
MICA_LANES_ROUND(Float8, _mm256_round_ps)
MICA_LANES_ROUND(Double4, _mm256_round_pd)
MICA_LANES bool Any(Float8::Mask m) {
  return _mm256_movemask_ps((__m256)m.v) != 0;
}
MICA_LANES bool Any(Double4::Mask m) {
  return _mm256_movemask_pd((__m256d)m.v) != 0;
}
MICA_LANES Float8 Select(Float8::Mask m, Float8 a, Float8 b) {
  return {_mm256_blendv_ps(b.v, a.v, (__m256)m.v)};
}
MICA_LANES Double4 Select(Double4::Mask m, Double4 a, Double4 b) {
  return {_mm256_blendv_pd(b.v, a.v, (__m256d)m.v)};
}
// With all lanes in a mask and a source: the intrinsics without one read an
// undefined register.
MICA_LANES Float8 GatherFrom(const float* table, Float8::Int i) {
  return {_mm256_mask_i32gather_ps(__m256{}, table, (__m256i)i.v,
                                   (__m256)Float8::Mask::Of(true).v, 4)};
}
MICA_LANES Double4 GatherFrom(const double* table, Double4::Int i) {
  return {_mm256_mask_i64gather_pd(__m256d{}, table, (__m256i)i.v,
                                   (__m256d)Double4::Mask::Of(true).v, 8)};
}
#endif

#if defined(__AVX512F__)
using Float16 = Floats<float, 16>;
using Double8 = Floats<double, 8>;
MICA_LANES Float16 Sqrt(Float16 a) { return {RootToNearest(a.v)}; }
MICA_LANES Double8 Sqrt(Double8 a) { return {RootToNearest(a.v)}; }
MICA_LANES_REGISTER(Float16, _mm512, ps)
MICA_LANES_REGISTER(Double8, _mm512, pd)
MICA_LANES_FMA(Float16, _mm512, ps)
MICA_LANES_FMA(Double8, _mm512, pd)
MICA_LANES_ROUND(Float16, _mm512_roundscale_ps)
MICA_LANES_ROUND(Double8, _mm512_roundscale_pd)

// Comparisons and choices by mask registers; `epi` names the ints.
#define MICA_LANES_MASKS(F, of, epi)                                      \
  MICA_LANES F::Mask Less(F a, F b) {                                     \
    return {_mm512_cmp_##of##_mask(a.v, b.v, _CMP_LT_OQ)};                \
  }                                                                       \
  MICA_LANES F::Mask LessEqual(F a, F b) {                                \
    return {_mm512_cmp_##of##_mask(a.v, b.v, _CMP_LE_OQ)};                \
  }                                                                       \
  MICA_LANES F::Mask Equal(F a, F b) {                                    \
    return {_mm512_cmp_##of##_mask(a.v, b.v, _CMP_EQ_OQ)};                \
  }                                                                       \
  MICA_LANES F::Mask IsNan(F a) {                                         \
    return {_mm512_cmp_##of##_mask(a.v, a.v, _CMP_UNORD_Q)};              \
  }                                                                       \
  MICA_LANES F Select(F::Mask m, F a, F b) {                              \
    return {_mm512_mask_blend_##of(m.v, b.v, a.v)};                       \
  }                                                                       \
  MICA_LANES F::Mask LessInt(F::Int a, F::Int b) {                        \
    return {_mm512_cmplt_##epi##_mask((__m512i)a.v, (__m512i)b.v)};       \
  }                                                                       \
  MICA_LANES F::Mask EqualInt(F::Int a, F::Int b) {                       \
    return {_mm512_cmpeq_##epi##_mask((__m512i)a.v, (__m512i)b.v)};       \
  }                                                                       \
  MICA_LANES F::Int Select(F::Mask m, F::Int a, F::Int b) {               \
    return {(F::Int::Vector)_mm512_mask_blend_##epi(m.v, (__m512i)b.v,    \
                                                    (__m512i)a.v)};       \
  }                                                                       \
  MICA_LANES F CopySign(F size, F sign) {                                 \
    return {(F::Vector)_mm512_ternarylogic_##epi(                         \
        (__m512i)F::Of(-0.0).v, (__m512i)sign.v, (__m512i)size.v, 0xca)}; \
  }                                                                       \
  /* x 2^n for an integral n. */                                          \
  MICA_LANES F Scale2(F x, F n) { return {_mm512_scalef_##of(x.v, n.v)}; }
MICA_LANES_MASKS(Float16, ps, epi32)
MICA_LANES_MASKS(Double8, pd, epi64)

MICA_LANES Float16 GatherFrom(const float* table, Float16::Int i) {
  return {_mm512_mask_i32gather_ps(__m512{}, 0xffff, (__m512i)i.v, table, 4)};
}
MICA_LANES Double8 GatherFrom(const double* table, Double8::Int i) {
  return {_mm512_mask_i64gather_pd(__m512d{}, 0xff, (__m512i)i.v, table, 8)};
}
#undef MICA_LANES_MASKS
#endif

#undef MICA_LANES_ROOT
#undef MICA_LANES_REGISTER
#undef MICA_LANES_FMA
#undef MICA_LANES_ROUND

}  // namespace mica::MICA_REGION_NAMESPACE

#endif  // MICA_KERNELS_REGION_LANES_X86_H_
