// Square roots of AVX-512's registers, to the nearest, in less than half of the
// time of the instruction that does it: an estimate of 14 bits, Newton's steps
// for the root and for half of its inverse, and what is missing from the root.
//
// The last step adds d h, with d = a - g g exact, as g is within an ulp or two
// of the root s, so that what is rounded is off by (s - g)(1 - (s + g) h), less
// than 2^-49 ulp of a double. No root is as near as that to the middle of two
// floats, but for those of a few numbers: the tests have them.
//
// What the steps would lose, zeros and what is near, infinities, nans and
// negative numbers, goes to the instruction.

#ifndef MICA_KERNELS_REGION_ROOTS_AVX512_H_
#define MICA_KERNELS_REGION_ROOTS_AVX512_H_

#include <immintrin.h>

#include <cstdint>

namespace mica {

inline __attribute__((always_inline)) __m512 RootToNearest(__m512 a) {
  constexpr int kLeast = 0x0d800000, kInfinity = 0x7f800000;  // 2^-100
  const __m512i above =
      _mm512_sub_epi32(_mm512_castps_si512(a), _mm512_set1_epi32(kLeast));
  const __m512i end = _mm512_set1_epi32(kInfinity - kLeast);
  if (__builtin_expect(_mm512_cmpge_epu32_mask(above, end) != 0, 0)) {
    return _mm512_sqrt_ps(a);
  }
  const __m512 half = _mm512_set1_ps(0.5f);
  const __m512 estimate = _mm512_rsqrt14_ps(a);
  __m512 root = _mm512_mul_ps(a, estimate);
  __m512 over_two = _mm512_mul_ps(estimate, half);
  const __m512 error = _mm512_fnmadd_ps(root, over_two, half);
  root = _mm512_fmadd_ps(root, error, root);
  over_two = _mm512_fmadd_ps(over_two, error, over_two);
  return _mm512_fmadd_ps(_mm512_fnmadd_ps(root, root, a), over_two, root);
}

inline __attribute__((always_inline)) __m512d RootToNearest(__m512d a) {
  constexpr int64_t kLeast = int64_t{0x07b} << 52;  // 2^-900
  constexpr int64_t kInfinity = int64_t{0x7ff} << 52;
  const __m512i above =
      _mm512_sub_epi64(_mm512_castpd_si512(a), _mm512_set1_epi64(kLeast));
  const __m512i end = _mm512_set1_epi64(kInfinity - kLeast);
  if (__builtin_expect(_mm512_cmpge_epu64_mask(above, end) != 0, 0)) {
    return _mm512_sqrt_pd(a);
  }
  const __m512d half = _mm512_set1_pd(0.5);
  const __m512d estimate = _mm512_rsqrt14_pd(a);
  __m512d root = _mm512_mul_pd(a, estimate);
  __m512d over_two = _mm512_mul_pd(estimate, half);
  for (int step = 0; step < 2; ++step) {
    const __m512d error = _mm512_fnmadd_pd(root, over_two, half);
    root = _mm512_fmadd_pd(root, error, root);
    over_two = _mm512_fmadd_pd(over_two, error, over_two);
  }
  return _mm512_fmadd_pd(_mm512_fnmadd_pd(root, root, a), over_two, root);
}

}  // namespace mica

#endif  // MICA_KERNELS_REGION_ROOTS_AVX512_H_
