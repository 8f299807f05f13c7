#ifndef MICA_KERNELS_CPU_SIMD_VEC_H_
#define MICA_KERNELS_CPU_SIMD_VEC_H_

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include <cstdint>

#if defined(__AVX512F__)
#include "kernels/region/roots_avx512.h"
#endif

// The one place that knows the vector width. Every source in this folder that
// includes it is compiled once for each level, with MICA_SIMD_NAMESPACE=v1
// (what every processor of the architecture has; vec_generic.h), v3 (AVX2, FMA)
// and v4 (AVX-512), and keeps all that it defines in that namespace: no inline
// function of one compilation may be linked into another.

#define MICA_INLINE inline __attribute__((always_inline))
#define MICA_INLINE_LAMBDA __attribute__((always_inline))

// The loop that follows may run in any order, though its output may be the
// very array that it reads.
#if defined(__clang__)
#define MICA_IVDEP _Pragma("clang loop vectorize(assume_safety)")
#else
#define MICA_IVDEP _Pragma("GCC ivdep")
#endif

// Unrolls the loop that follows completely; it has at most 32 rounds.
#if defined(__clang__)
#define MICA_UNROLL _Pragma("clang loop unroll(full)")
#else
#define MICA_UNROLL _Pragma("GCC unroll 32")
#endif

namespace mica::cpu::MICA_SIMD_NAMESPACE {

// At the end of what calls functions with vectors among their arguments: GCC 12
// lets those return with the upper halves of registers in use, where it clears
// them elsewhere. Code of SSE that follows took three times as long.
MICA_INLINE void ClearUpperHalves() {
#if defined(__AVX2__)
  _mm256_zeroupper();
#endif
}

#if defined(__AVX512F__)

inline constexpr int kLanes = 16;  // float32 lanes of a vector.

using Vf = __m512;
using Vi = __m512i;
using Vm = __mmask16;

MICA_INLINE Vf Set(float x) { return _mm512_set1_ps(x); }
MICA_INLINE Vf Zero() { return _mm512_setzero_ps(); }
MICA_INLINE Vf Load(const float* p) { return _mm512_loadu_ps(p); }
MICA_INLINE void Store(float* p, Vf x) { _mm512_storeu_ps(p, x); }
// The mask of the first `n` lanes, 0 <= n <= kLanes.
MICA_INLINE Vm FirstLanes(int64_t n) {
  return static_cast<Vm>((1u << static_cast<unsigned>(n)) - 1u);
}
// Lanes outside of the mask are not touched, and read as 0.
MICA_INLINE Vf Load(const float* p, Vm m) {
  return _mm512_maskz_loadu_ps(m, p);
}
MICA_INLINE void Store(float* p, Vf x, Vm m) { _mm512_mask_storeu_ps(p, m, x); }
MICA_INLINE Vf Fma(Vf a, Vf b, Vf c) { return _mm512_fmadd_ps(a, b, c); }
// sum += a * b, in the register that holds `sum`. For tiles that fill the
// register file: by Fma() GCC moves their sums about, and spills some in every
// round.
MICA_INLINE void AddProduct(Vf a, Vf b, Vf& sum) {
  asm("vfmadd231ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b));
}
// c - a * b.
MICA_INLINE Vf Fnma(Vf a, Vf b, Vf c) { return _mm512_fnmadd_ps(a, b, c); }
// Of a nan and a number these two give the second argument's.
MICA_INLINE Vf Max(Vf a, Vf b) { return _mm512_max_ps(a, b); }
MICA_INLINE Vf Min(Vf a, Vf b) { return _mm512_min_ps(a, b); }
MICA_INLINE Vf Sqrt(Vf a) { return RootToNearest(a); }
MICA_INLINE Vf Abs(Vf a) { return _mm512_abs_ps(a); }
// Requires size >= 0.
MICA_INLINE Vf CopySign(Vf size, Vf sign) {
  return _mm512_or_ps(_mm512_and_ps(Set(-0.0f), sign), size);
}
MICA_INLINE Vf Round(Vf a) { return _mm512_roundscale_ps(a, 0x08); }
MICA_INLINE Vm IsNan(Vf a) { return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q); }
// True if any lane is in the mask.
MICA_INLINE bool HasLanes(Vm m) { return m != 0; }
MICA_INLINE Vm Less(Vf a, Vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
MICA_INLINE Vm LessEqual(Vf a, Vf b) {
  return _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ);
}
// m ? a : b.
MICA_INLINE Vf Select(Vm m, Vf a, Vf b) {
  return _mm512_mask_blend_ps(m, b, a);
}
// x * 2^n for an integral n in -300..300, denormal results right.
MICA_INLINE Vf Scale2(Vf x, Vf n) { return _mm512_scalef_ps(x, n); }
// The same of a result below the smallest normal number, without arithmetic of
// denormals, over which processors are long: a sum rounds to a whole number of
// smallest denormals, whose bits are that number.
MICA_INLINE Vf ScaleToDenormal(Vf x, Vf n) {
  const Vf whole = Set(0x1p23f);
  const Vf count = Scale2(x, n + Set(149.0f)) + whole;
  return _mm512_castsi512_ps(
      _mm512_sub_epi32(_mm512_castps_si512(count), _mm512_castps_si512(whole)));
}
// kLanes indices, and the lanes of `x` that they name.
MICA_INLINE Vi LoadLanes(const int32_t* p) { return _mm512_loadu_si512(p); }
MICA_INLINE Vf Permute(Vf x, Vi lanes) {
  return _mm512_permutexvar_ps(lanes, x);
}
MICA_INLINE float SumLanes(Vf a) { return _mm512_reduce_add_ps(a); }
MICA_INLINE float MaxLanes(Vf a) { return _mm512_reduce_max_ps(a); }

// Turns rows into columns in place: r[i][j] becomes r[j][i].
MICA_INLINE void Transpose(Vf (&r)[16]) {
  Vf t[16];
  MICA_UNROLL
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
  }
  MICA_UNROLL
  for (int i = 0; i < 16; i += 4) {
    const __m512d a = _mm512_castps_pd(t[i]), b = _mm512_castps_pd(t[i + 1]);
    const __m512d c = _mm512_castps_pd(t[i + 2]),
                  d = _mm512_castps_pd(t[i + 3]);
    r[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, c));
    r[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, c));
    r[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(b, d));
    r[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(b, d));
  }
  MICA_UNROLL
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0xdd);
    t[i + 8] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0xdd);
  }
  MICA_UNROLL
  for (int i = 0; i < 8; ++i) {
    r[i] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0x88);
    r[i + 8] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0xdd);
  }
}

#elif defined(__AVX2__)

inline constexpr int kLanes = 8;

using Vf = __m256;
using Vi = __m256i;
using Vm = __m256i;

MICA_INLINE Vf Set(float x) { return _mm256_set1_ps(x); }
MICA_INLINE Vf Zero() { return _mm256_setzero_ps(); }
MICA_INLINE Vf Load(const float* p) { return _mm256_loadu_ps(p); }
MICA_INLINE void Store(float* p, Vf x) { _mm256_storeu_ps(p, x); }
MICA_INLINE Vm FirstLanes(int64_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
MICA_INLINE Vf Load(const float* p, Vm m) { return _mm256_maskload_ps(p, m); }
MICA_INLINE void Store(float* p, Vf x, Vm m) { _mm256_maskstore_ps(p, m, x); }
MICA_INLINE Vf Fma(Vf a, Vf b, Vf c) { return _mm256_fmadd_ps(a, b, c); }
MICA_INLINE void AddProduct(Vf a, Vf b, Vf& sum) {
  asm("vfmadd231ps %2, %1, %0" : "+x"(sum) : "x"(a), "x"(b));
}
MICA_INLINE Vf Fnma(Vf a, Vf b, Vf c) { return _mm256_fnmadd_ps(a, b, c); }
MICA_INLINE Vf Max(Vf a, Vf b) { return _mm256_max_ps(a, b); }
MICA_INLINE Vf Min(Vf a, Vf b) { return _mm256_min_ps(a, b); }
MICA_INLINE Vf Sqrt(Vf a) { return _mm256_sqrt_ps(a); }
MICA_INLINE Vf Abs(Vf a) { return _mm256_andnot_ps(Set(-0.0f), a); }
MICA_INLINE Vf CopySign(Vf size, Vf sign) {
  return _mm256_or_ps(_mm256_and_ps(Set(-0.0f), sign), size);
}
MICA_INLINE Vf Round(Vf a) { return _mm256_round_ps(a, 0x08); }
MICA_INLINE Vm IsNan(Vf a) {
  return _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q));
}
MICA_INLINE bool HasLanes(Vm m) {
  return _mm256_movemask_ps(_mm256_castsi256_ps(m)) != 0;
}
MICA_INLINE Vm Less(Vf a, Vf b) {
  return _mm256_castps_si256(_mm256_cmp_ps(a, b, _CMP_LT_OQ));
}
MICA_INLINE Vm LessEqual(Vf a, Vf b) {
  return _mm256_castps_si256(_mm256_cmp_ps(a, b, _CMP_LE_OQ));
}
MICA_INLINE Vf Select(Vm m, Vf a, Vf b) {
  return _mm256_blendv_ps(b, a, _mm256_castsi256_ps(m));
}
MICA_INLINE Vf Scale2(Vf x, Vf n) {
  // In two halves, so that neither factor leaves the exponent's range.
  const Vi k = _mm256_cvtps_epi32(n);
  const Vi half = _mm256_srai_epi32(k, 1);
  const Vi bias = _mm256_set1_epi32(127);
  const Vi e1 = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
  const Vi e2 =
      _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(k, half), bias), 23);
  return _mm256_mul_ps(_mm256_mul_ps(x, _mm256_castsi256_ps(e1)),
                       _mm256_castsi256_ps(e2));
}
MICA_INLINE Vf ScaleToDenormal(Vf x, Vf n) {
  const Vf whole = Set(0x1p23f);
  const Vf count = Scale2(x, n + Set(149.0f)) + whole;
  return _mm256_castsi256_ps(
      _mm256_sub_epi32(_mm256_castps_si256(count), _mm256_castps_si256(whole)));
}
MICA_INLINE Vi LoadLanes(const int32_t* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
MICA_INLINE Vf Permute(Vf x, Vi lanes) {
  return _mm256_permutevar8x32_ps(x, lanes);
}
MICA_INLINE float SumLanes(Vf a) {
  __m128 x = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  x = _mm_add_ps(x, _mm_movehl_ps(x, x));
  x = _mm_add_ss(x, _mm_shuffle_ps(x, x, 1));
  return _mm_cvtss_f32(x);
}
MICA_INLINE float MaxLanes(Vf a) {
  __m128 x = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  x = _mm_max_ps(x, _mm_movehl_ps(x, x));
  x = _mm_max_ss(x, _mm_shuffle_ps(x, x, 1));
  return _mm_cvtss_f32(x);
}

MICA_INLINE void Transpose(Vf (&r)[8]) {
  Vf t[8];
  MICA_UNROLL
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
  MICA_UNROLL
  for (int i = 0; i < 8; i += 4) {
    r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
    r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
  MICA_UNROLL
  for (int i = 0; i < 4; ++i) {
    t[i] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x20);
    t[i + 4] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x31);
  }
  MICA_UNROLL
  for (int i = 0; i < 8; ++i) r[i] = t[i];
}

#endif

}  // namespace mica::cpu::MICA_SIMD_NAMESPACE

#if !defined(__AVX2__)
#include "kernels/cpu/simd/vec_generic.h"
#endif

#endif  // MICA_KERNELS_CPU_SIMD_VEC_H_
