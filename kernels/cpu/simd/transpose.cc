// Matrices of elements of 1 to 16 bytes turned over.

#include <cstdint>
#include <utility>

#include "kernels/cpu/simd/parts.h"
#include "kernels/cpu/simd/vec.h"

namespace mica::cpu::MICA_SIMD_NAMESPACE {
namespace {

constexpr int64_t kLineBytes = 64;  // Of the cache.

struct Wide {
  uint64_t low, high;
};

// A row's 16 bytes, and of two parts those of a row further on.
// Unpack() takes elements of both operands in turns, of each part's lower or
// upper half.
#if defined(__AVX2__)

constexpr int kParts = 2;
using Rows = __m256i;

MICA_INLINE Rows LoadRows(const void* row, const void* next) {
  return _mm256_loadu2_m128i(static_cast<const __m128i*>(next),
                             static_cast<const __m128i*>(row));
}

template <int kBytes, bool kUpper>
MICA_INLINE Rows Unpack(Rows a, Rows b) {
  if constexpr (kBytes == 1) {
    return kUpper ? _mm256_unpackhi_epi8(a, b) : _mm256_unpacklo_epi8(a, b);
  } else if constexpr (kBytes == 2) {
    return kUpper ? _mm256_unpackhi_epi16(a, b) : _mm256_unpacklo_epi16(a, b);
  } else if constexpr (kBytes == 4) {
    return kUpper ? _mm256_unpackhi_epi32(a, b) : _mm256_unpacklo_epi32(a, b);
  } else {
    return kUpper ? _mm256_unpackhi_epi64(a, b) : _mm256_unpacklo_epi64(a, b);
  }
}

#else

constexpr int kParts = 1;
using Rows = uint8_t __attribute__((vector_size(16)));

MICA_INLINE Rows LoadRows(const void* row, const void*) {
  Rows x;
  __builtin_memcpy(&x, row, sizeof x);
  return x;
}

template <int kBytes, bool kUpper, int... i>
MICA_INLINE Rows UnpackBytes(Rows a, Rows b, std::integer_sequence<int, i...>) {
  constexpr int kFirst = kUpper ? 8 : 0;
  return __builtin_shufflevector(a, b,
                                 (kFirst + i / (2 * kBytes) * kBytes +
                                  i % kBytes + i / kBytes % 2 * 16)...);
}

template <int kBytes, bool kUpper>
MICA_INLINE Rows Unpack(Rows a, Rows b) {
  return UnpackBytes<kBytes, kUpper>(a, b,
                                     std::make_integer_sequence<int, 16>());
}

#endif

// kParts * n rows of n elements become n rows of kParts * n, where n elements
// are 16 bytes. The upper part of a vector holds the rows from n on. Each round
// of unpacking moves one bit of an element's row to its place in the vector,
// and one of its column to the vector's number.
template <typename T>
MICA_INLINE void TransposeTile(const T* src, int64_t src_row_stride, T* dst,
                               int64_t dst_row_stride) {
  constexpr int kBytes = sizeof(T), kRows = 16 / kBytes;
  Rows t[kRows];
  MICA_UNROLL
  for (int i = 0; i < kRows; ++i) {
    t[i] =
        LoadRows(src + i * src_row_stride, src + (i + kRows) * src_row_stride);
  }
  MICA_UNROLL
  for (int done = 1; done < kRows; done *= 2) {
    Rows u[kRows];
    MICA_UNROLL
    for (int i = 0; i < kRows / 2; ++i) {
      u[2 * i] = Unpack<kBytes, false>(t[i], t[i + kRows / 2]);
      u[2 * i + 1] = Unpack<kBytes, true>(t[i], t[i + kRows / 2]);
    }
    MICA_UNROLL
    for (int i = 0; i < kRows; ++i) t[i] = u[i];
  }
  MICA_UNROLL
  for (int i = 0; i < kRows; ++i) {
    __builtin_memcpy(dst + i * dst_row_stride, &t[i], sizeof t[i]);
  }
}

template <typename T>
void TransposeElements(const T* src, int64_t src_row_stride, T* dst,
                       int64_t dst_row_stride, int64_t rows, int64_t cols) {
  for (int64_t c = 0; c < cols; ++c) {
    for (int64_t r = 0; r < rows; ++r) {
      dst[c * dst_row_stride + r] = src[r * src_row_stride + c];
    }
  }
}

// By tiles, and what fills none by elements.
template <typename T>
MICA_INLINE void TransposeTiles(const T* src, int64_t src_row_stride, T* dst,
                                int64_t dst_row_stride, int64_t rows,
                                int64_t cols) {
  constexpr int64_t kCols = 16 / sizeof(T), kRows = kParts * kCols;
  int64_t c = 0;
  for (; c + kCols <= cols; c += kCols) {
    int64_t r = 0;
    for (; r + kRows <= rows; r += kRows) {
      TransposeTile(src + r * src_row_stride + c, src_row_stride,
                    dst + c * dst_row_stride + r, dst_row_stride);
    }
    if (r == rows) continue;
    TransposeElements(src + r * src_row_stride + c, src_row_stride,
                      dst + c * dst_row_stride + r, dst_row_stride, rows - r,
                      kCols);
  }
  if (c == cols) return;
  TransposeElements(src + c, src_row_stride, dst + c * dst_row_stride,
                    dst_row_stride, rows, cols - c);
}

// The elements of a few rows in turns, and back: the channels of a picture.
template <typename T, int kCount>
void Join(const T* src, int64_t row_stride, T* __restrict__ dst, int64_t n) {
  MICA_IVDEP
  for (int64_t i = 0; i < n; ++i) {
    MICA_UNROLL
    for (int j = 0; j < kCount; ++j) {
      dst[i * kCount + j] = src[j * row_stride + i];
    }
  }
}
template <typename T, int kCount>
void Part(const T* src, T* __restrict__ dst, int64_t row_stride, int64_t n) {
  MICA_IVDEP
  for (int64_t i = 0; i < n; ++i) {
    MICA_UNROLL
    for (int j = 0; j < kCount; ++j) {
      dst[j * row_stride + i] = src[i * kCount + j];
    }
  }
}

// Whether that was it.
template <typename T, int kCount>
MICA_INLINE bool TakesFew(const T* src, int64_t src_row_stride, T* dst,
                          int64_t dst_row_stride, int64_t rows, int64_t cols) {
  if (rows == kCount && dst_row_stride == kCount) {
    Join<T, kCount>(src, src_row_stride, dst, cols);
    return true;
  }
  if (cols == kCount && src_row_stride == kCount) {
    Part<T, kCount>(src, dst, dst_row_stride, rows);
    return true;
  }
  return false;
}

// By squares whose sides are a line of the cache, so that each line is read
// once and written once. A whole square is gathered first: lines that lie a
// power of two apart would drive each other out of the cache.
template <typename T>
void Transpose(const void* from, int64_t src_row_stride, void* to,
               int64_t dst_row_stride, int64_t rows, int64_t cols) {
  constexpr int64_t kSide = kLineBytes / sizeof(T);
  const T* const src = static_cast<const T*>(from);
  T* const dst = static_cast<T*>(to);
  const auto takes = [&]<int kCount>() MICA_INLINE_LAMBDA {
    return TakesFew<T, kCount>(src, src_row_stride, dst, dst_row_stride, rows,
                               cols);
  };
  if constexpr (sizeof(T) <= 8) {
    if (takes.template operator()<2>() || takes.template operator()<3>() ||
        takes.template operator()<4>()) {
      return;
    }
  }
  alignas(kLineBytes) T square[kSide * kSide];
  for (int64_t c = 0; c < cols; c += kSide) {
    const int64_t num_cols = cols - c < kSide ? cols - c : kSide;
    for (int64_t r = 0; r < rows; r += kSide) {
      const int64_t num_rows = rows - r < kSide ? rows - r : kSide;
      const T* in = src + r * src_row_stride + c;
      T* out = dst + c * dst_row_stride + r;
      if (num_rows < kSide || num_cols < kSide) {
        TransposeTiles(in, src_row_stride, out, dst_row_stride, num_rows,
                       num_cols);
        continue;
      }
      for (int64_t i = 0; i < kSide; ++i) {
        __builtin_memcpy(square + i * kSide, in + i * src_row_stride,
                         kLineBytes);
      }
      TransposeTiles(square, kSide, out, dst_row_stride, kSide, kSide);
    }
  }
}

}  // namespace

void FillTranspose(SimdTable& table) {
  table.transpose8 = Transpose<uint8_t>;
  table.transpose16 = Transpose<uint16_t>;
  table.transpose32 = Transpose<uint32_t>;
  table.transpose64 = Transpose<uint64_t>;
  table.transpose128 = Transpose<Wide>;
}

}  // namespace mica::cpu::MICA_SIMD_NAMESPACE
