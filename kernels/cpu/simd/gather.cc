// Elements that lie apart, put together.

#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/simd/parts.h"
#include "kernels/cpu/simd/vec.h"

namespace mica::cpu::MICA_SIMD_NAMESPACE {
namespace {

// Every other element of two vectors, as they follow each other.
MICA_INLINE __m256i InOrder(__m256i halves) {
  return _mm256_permute4x64_epi64(halves, 0xd8);
}
MICA_INLINE __m256i EveryOther(__m256i a, __m256i b, uint8_t) {
  const __m256i mask = _mm256_set1_epi16(0xff);
  return InOrder(_mm256_packus_epi16(_mm256_and_si256(a, mask),
                                     _mm256_and_si256(b, mask)));
}
MICA_INLINE __m256i EveryOther(__m256i a, __m256i b, uint16_t) {
  const __m256i mask = _mm256_set1_epi32(0xffff);
  return InOrder(_mm256_packus_epi32(_mm256_and_si256(a, mask),
                                     _mm256_and_si256(b, mask)));
}
MICA_INLINE __m256i EveryOther(__m256i a, __m256i b, uint32_t) {
  return InOrder(_mm256_castps_si256(
      _mm256_shuffle_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b), 0x88)));
}
MICA_INLINE __m256i EveryOther(__m256i a, __m256i b, uint64_t) {
  return InOrder(_mm256_unpacklo_epi64(a, b));
}

template <typename T>
void Gather(const void* from, int64_t stride, int64_t n, void* to) {
  constexpr int64_t kElements = sizeof(__m256i) / sizeof(T);
  const T* in = static_cast<const T*>(from);
  T* out = static_cast<T*>(to);
  int64_t i = 0;
  if (stride == 2) {
    // The last element has nothing behind it that may be read.
    for (; i + kElements < n; i += kElements) {
      const auto* at = reinterpret_cast<const __m256i*>(in + i * 2);
      _mm256_storeu_si256(
          reinterpret_cast<__m256i*>(out + i),
          EveryOther(_mm256_loadu_si256(at), _mm256_loadu_si256(at + 1), T{}));
    }
  }
  constexpr int64_t kAtOnce = 4;
  for (; i + kAtOnce <= n; i += kAtOnce) {
    const T* at = in + i * stride;
    const T a = at[0], b = at[stride], c = at[2 * stride], d = at[3 * stride];
    out[i] = a;
    out[i + 1] = b;
    out[i + 2] = c;
    out[i + 3] = d;
  }
  for (; i < n; ++i) out[i] = in[i * stride];
}

// Checks some indices at once, and then reads what they name.
template <typename T>
int64_t Pick(const void* from, int64_t limit, const int64_t* indices, int64_t n,
             void* to) {
  constexpr int64_t kAtOnce = 32;
  const T* in = static_cast<const T*>(from);
  T* out = static_cast<T*>(to);
  const __m256i last = _mm256_set1_epi64x(limit - 1);
  int64_t i = 0;
  for (; i + kAtOnce <= n; i += kAtOnce) {
    // The highest bit is set by one that is negative or too large.
    __m256i bits = _mm256_setzero_si256();
    MICA_UNROLL
    for (int64_t j = 0; j < kAtOnce; j += 4) {
      const __m256i at =
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(indices + i + j));
      bits = _mm256_or_si256(bits,
                             _mm256_or_si256(at, _mm256_sub_epi64(last, at)));
    }
    if (_mm256_movemask_pd(_mm256_castsi256_pd(bits)) != 0) break;
    MICA_UNROLL
    for (int64_t j = 0; j < kAtOnce; ++j) out[i + j] = in[indices[i + j]];
  }
  for (; i < n; ++i) {
    if (indices[i] < 0 || indices[i] >= limit) return i;
    out[i] = in[indices[i]];
  }
  return n;
}

}  // namespace

void FillGather(SimdTable& table) {
  table.gather8 = Gather<uint8_t>;
  table.gather16 = Gather<uint16_t>;
  table.gather32 = Gather<uint32_t>;
  table.gather64 = Gather<uint64_t>;
  table.pick8 = Pick<uint8_t>;
  table.pick16 = Pick<uint16_t>;
  table.pick32 = Pick<uint32_t>;
  table.pick64 = Pick<uint64_t>;
}

}  // namespace mica::cpu::MICA_SIMD_NAMESPACE
