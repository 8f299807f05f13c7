#ifndef MICA_KERNELS_CPU_SIMD_HALF_H_
#define MICA_KERNELS_CPU_SIMD_HALF_H_

#include <cstdint>

#include "kernels/cpu/simd/vec.h"

// Vectors of numbers of 16 bits, widened to float32 and rounded from it, and
// what only loops over such numbers do to them.

namespace mica::cpu::MICA_SIMD_NAMESPACE {

#if defined(__AVX512F__)

MICA_INLINE __m256i LoadHalves(const uint16_t* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
MICA_INLINE void StoreHalves(uint16_t* p, __m256i x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), x);
}
MICA_INLINE Vf WidenBFloat(const uint16_t* p) {
  return _mm512_castsi512_ps(
      _mm512_slli_epi32(_mm512_cvtepu16_epi32(LoadHalves(p)), 16));
}
MICA_INLINE void NarrowBFloat(uint16_t* p, Vf x) {
  const Vi bits = _mm512_castps_si512(x);
  const Vi odd =
      _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const Vi sum =
      _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
  const Vi rounded =
      _mm512_mask_blend_epi32(IsNan(x), sum, _mm512_set1_epi32(0x7fc00000));
  StoreHalves(p, _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16)));
}
MICA_INLINE Vf WidenHalf(const uint16_t* p) {
  return _mm512_cvtph_ps(LoadHalves(p));
}
MICA_INLINE void NarrowHalf(uint16_t* p, Vf x) {
  StoreHalves(p, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}
MICA_INLINE Vf Divide(Vf a, Vf b) { return _mm512_div_ps(a, b); }
MICA_INLINE Vf Floor(Vf a) { return _mm512_roundscale_ps(a, 0x09); }
MICA_INLINE Vf Ceil(Vf a) { return _mm512_roundscale_ps(a, 0x0a); }
MICA_INLINE Vf Truncate(Vf a) { return _mm512_roundscale_ps(a, 0x0b); }

#elif defined(__AVX2__)

MICA_INLINE __m128i LoadHalves(const uint16_t* p) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}
MICA_INLINE Vf WidenBFloat(const uint16_t* p) {
  return _mm256_castsi256_ps(
      _mm256_slli_epi32(_mm256_cvtepu16_epi32(LoadHalves(p)), 16));
}
// The upper halves, rounded, as 32 bits.
MICA_INLINE Vi RoundBFloat(Vf x) {
  const Vi bits = _mm256_castps_si256(x);
  const Vi odd =
      _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const Vi sum =
      _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
  const Vi rounded = _mm256_blendv_epi8(
      sum, _mm256_set1_epi32(0x7fc00000),
      _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)));
  return _mm256_srli_epi32(rounded, 16);
}
MICA_INLINE Vf WidenHalf(const uint16_t* p) {
  return _mm256_cvtph_ps(LoadHalves(p));
}
MICA_INLINE void NarrowHalf(uint16_t* p, Vf x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                   _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}
MICA_INLINE Vf Divide(Vf a, Vf b) { return _mm256_div_ps(a, b); }
MICA_INLINE Vf Floor(Vf a) { return _mm256_round_ps(a, 0x09); }
MICA_INLINE Vf Ceil(Vf a) { return _mm256_round_ps(a, 0x0a); }
MICA_INLINE Vf Truncate(Vf a) { return _mm256_round_ps(a, 0x0b); }

#else

using Vh = uint16_t __attribute__((vector_size(8)));

MICA_INLINE Vu LoadHalves(const uint16_t* p) {
  Vh x;
  __builtin_memcpy(&x, p, sizeof x);
  return __builtin_convertvector(x, Vu);
}
MICA_INLINE void StoreHalves(uint16_t* p, Vu x) {
  const Vh narrow = __builtin_convertvector(x, Vh);
  __builtin_memcpy(p, &narrow, sizeof narrow);
}
MICA_INLINE Vf WidenBFloat(const uint16_t* p) {
  return FromBits(LoadHalves(p) << 16);
}
MICA_INLINE void NarrowBFloat(uint16_t* p, Vf x) {
  const Vu bits = Bits(x);
  const Vu rounded = bits + 0x7fffu + (bits >> 16 & 1u);
  StoreHalves(p, (IsNan(x) ? Vu{} + 0x7fc00000u : rounded) >> 16);
}
// The exponent's bias goes from 15 to 127. Of a denormal the number 2^-14 is
// added as an exponent and taken away as a number, which makes it a normal one.
MICA_INLINE Vf WidenHalf(const uint16_t* p) {
  const Vu half = LoadHalves(p);
  const Vu size = (half & 0x7fffu) << 13;
  const Vf one = FromBits(Vu{} + (113u << 23));  // 2^-14.
  const Vu denormal = Bits(FromBits(size + (113u << 23)) - one);
  const Vu quiet = size > (0x7c00u << 13) ? Vu{} + 0x400000u : Vu{};
  const Vu special = size | 0x7f800000u | quiet;
  const Vu wide = size < (0x400u << 13)    ? denormal
                  : size < (0x7c00u << 13) ? size + (112u << 23)
                                           : special;
  return FromBits(wide | (half & 0x8000u) << 16);
}
// To the nearest, of two to the even one. What becomes a denormal is rounded
// by adding 0.5, whose last bit is a half's smallest denormal.
MICA_INLINE void NarrowHalf(uint16_t* p, Vf x) {
  const Vu size = Bits(x) & 0x7fffffffu;
  const Vu nan = (size >> 13 & 0x3ffu) | 0x7e00u;
  const Vu denormal = Bits(FromBits(size) + Set(0.5f)) - Bits(Set(0.5f));
  const Vu normal = (size + 0xfffu + (size >> 13 & 1u) - (112u << 23)) >> 13;
  const Vu half = size < (113u << 23)   ? denormal
                  : size < 0x477ff000u  ? normal  // Below 65520.
                  : size <= 0x7f800000u ? Vu{} + 0x7c00u
                                        : nan;
  StoreHalves(p, half | (Bits(x) >> 16 & 0x8000u));
}
MICA_INLINE Vf Divide(Vf a, Vf b) { return a / b; }
MICA_INLINE Vf Floor(Vf a) {
  const Vf near = Round(a);
  return CopySign(Abs(near - Select(Less(a, near), Set(1.0f), Zero())), a);
}
MICA_INLINE Vf Ceil(Vf a) {
  const Vf near = Round(a);
  return CopySign(Abs(near + Select(Less(near, a), Set(1.0f), Zero())), a);
}
MICA_INLINE Vf Truncate(Vf a) { return CopySign(Floor(Abs(a)), a); }

#endif

}  // namespace mica::cpu::MICA_SIMD_NAMESPACE

#endif  // MICA_KERNELS_CPU_SIMD_HALF_H_
