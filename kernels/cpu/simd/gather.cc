// Elements that lie apart, put together.

#include <cstdint>

#include "kernels/cpu/simd/parts.h"
#include "kernels/cpu/simd/vec.h"

namespace mica::cpu::MICA_SIMD_NAMESPACE {
namespace {

constexpr int64_t kStepBytes = 32;  // Written at a time.

#if defined(__AVX2__)
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

// As many elements at `out`, of twice as many at `in`.
template <typename T>
MICA_INLINE void PutEveryOther(const T* in, T* out) {
  const auto* at = reinterpret_cast<const __m256i*>(in);
  _mm256_storeu_si256(
      reinterpret_cast<__m256i*>(out),
      EveryOther(_mm256_loadu_si256(at), _mm256_loadu_si256(at + 1), T{}));
}
#else
template <typename T>
MICA_INLINE void PutEveryOther(const T* in, T* out) {
  constexpr int64_t kElements = kStepBytes / sizeof(T);
  MICA_UNROLL
  for (int64_t i = 0; i < kElements; ++i) out[i] = in[2 * i];
}
#endif

template <typename T>
void Gather(const void* from, int64_t stride, int64_t n, void* to) {
  constexpr int64_t kElements = kStepBytes / sizeof(T);
  const T* in = static_cast<const T*>(from);
  T* __restrict__ out = static_cast<T*>(to);
  if (stride == -1) {
    for (int64_t i = 0; i < n; ++i) out[i] = in[-i];
    return;
  }
  int64_t i = 0;
  if (stride == 2) {
    // The last element has nothing behind it that may be read.
    for (; i + kElements < n; i += kElements) {
      PutEveryOther(in + i * 2, out + i);
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
  const auto last = static_cast<uint64_t>(limit - 1);
  int64_t i = 0;
  for (; i + kAtOnce <= n; i += kAtOnce) {
    // The highest bit is set by one that is negative or too large.
    uint64_t bits = 0;
    for (int64_t j = 0; j < kAtOnce; ++j) {
      const auto at = static_cast<uint64_t>(indices[i + j]);
      bits |= at | (last - at);
    }
    if (bits >> 63 != 0) break;
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
