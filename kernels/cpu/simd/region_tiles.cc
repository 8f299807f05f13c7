// What region_loops.h has, but for the operators: conversions of tiles.

#include <cstdint>
#include <cstring>

#include "kernels/cpu/region_loops.h"
#include "kernels/cpu/simd/half.h"
#include "kernels/cpu/simd/parts.h"
#include "kernels/cpu/simd/vec.h"

namespace mica::cpu::MICA_SIMD_NAMESPACE {
namespace {

// dtype.h's numbers of those dtypes that aren't in tiles as they are in memory.
enum Number : int { kU8 = 1, kI8, kI16, kI32, kI64, kF16, kBF16, kF32, kF64 };

constexpr double kTwoTo63 = 9223372036854775808.0;

// Drops fractions; what is out of range becomes the smallest integer.
template <typename From>
MICA_INLINE int64_t ToInteger(From x) {
  const bool fits =
      x >= static_cast<From>(-kTwoTo63) && x < static_cast<From>(kTwoTo63);
  return fits ? static_cast<int64_t>(x) : INT64_MIN;
}

template <typename From, typename To>
void ConvertTile(const void* in, void* out, int64_t n) {
  const From* from = static_cast<const From*>(in);
  To* to = static_cast<To*>(out);
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<To>(from[i]);
}
template <typename From>
void TileToInts(const void* in, void* out, int64_t n) {
  const From* from = static_cast<const From*>(in);
  int64_t* to = static_cast<int64_t*>(out);
  for (int64_t i = 0; i < n; ++i) to[i] = ToInteger(from[i]);
}
template <typename From>
void TileToInt32s(const void* in, void* out, int64_t n) {
  constexpr From kLimit = static_cast<From>(2147483648.0);
  const From* from = static_cast<const From*>(in);
  int64_t* to = static_cast<int64_t*>(out);
  for (int64_t i = 0; i < n; ++i) {
    // Doubles between INT32_MIN - 1 and it become it.
    const bool fits = from[i] > -kLimit && from[i] < kLimit;
    to[i] = fits ? static_cast<int32_t>(from[i]) : INT32_MIN;
  }
}
template <typename From>
void TileToBool(const void* in, void* out, int64_t n) {
  const From* from = static_cast<const From*>(in);
  uint8_t* to = static_cast<uint8_t*>(out);
  for (int64_t i = 0; i < n; ++i) to[i] = from[i] != From{0} ? 1 : 0;
}

// To what the type holds and back.
template <typename T>
void WrapTile(void* tile, int64_t n) {
  int64_t* x = static_cast<int64_t*>(tile);
  for (int64_t i = 0; i < n; ++i) x[i] = static_cast<T>(x[i]);
}

template <bool kIsBFloat>
MICA_INLINE Vf Widen(const uint16_t* p) {
  if constexpr (kIsBFloat) return WidenBFloat(p);
  return WidenHalf(p);
}
template <bool kIsBFloat>
MICA_INLINE void Narrow(uint16_t* p, Vf x) {
#if defined(__AVX512F__) || !defined(__AVX2__)
  if constexpr (kIsBFloat) return NarrowBFloat(p, x);
#else
  if constexpr (kIsBFloat) {
    const Vi bits = RoundBFloat(x);
    const Vi packed =
        _mm256_permute4x64_epi64(_mm256_packus_epi32(bits, bits), 0xd8);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                     _mm256_castsi256_si128(packed));
    return;
  }
#endif
  NarrowHalf(p, x);
}

// Whole vectors, and what is left by way of a buffer.
template <bool kIsBFloat>
void WidenTile(const void* in, void* out, int64_t n) {
  const uint16_t* from = static_cast<const uint16_t*>(in);
  float* to = static_cast<float*>(out);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    Store(to + i, Widen<kIsBFloat>(from + i));
  }
  if (i == n) return;
  uint16_t rest[kLanes] = {};
  float wide[kLanes];
  std::memcpy(rest, from + i, static_cast<size_t>(n - i) * 2);
  Store(wide, Widen<kIsBFloat>(rest));
  std::memcpy(to + i, wide, static_cast<size_t>(n - i) * 4);
}
template <bool kIsBFloat>
void NarrowTile(const void* in, void* out, int64_t n) {
  const float* from = static_cast<const float*>(in);
  uint16_t* to = static_cast<uint16_t*>(out);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    Narrow<kIsBFloat>(to + i, Load(from + i));
  if (i == n) return;
  float rest[kLanes] = {};
  uint16_t narrow[kLanes];
  std::memcpy(rest, from + i, static_cast<size_t>(n - i) * 4);
  Narrow<kIsBFloat>(narrow, Load(rest));
  std::memcpy(to + i, narrow, static_cast<size_t>(n - i) * 2);
}
template <bool kIsBFloat>
void RoundTile(void* tile, int64_t n) {
  uint16_t narrow[2 * kLanes];
  float* x = static_cast<float*>(tile);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    Narrow<kIsBFloat>(narrow, Load(x + i));
    Store(x + i, Widen<kIsBFloat>(narrow));
  }
  if (i == n) return;
  float rest[kLanes] = {};
  std::memcpy(rest, x + i, static_cast<size_t>(n - i) * 4);
  Narrow<kIsBFloat>(narrow, Load(rest));
  Store(rest, Widen<kIsBFloat>(narrow));
  std::memcpy(x + i, rest, static_cast<size_t>(n - i) * 4);
}

template <typename T>
void SetInt(RegionLoops& loops, int dtype) {
  loops.load[dtype] = ConvertTile<T, int64_t>;
  loops.store[dtype] = ConvertTile<int64_t, T>;
  loops.round[dtype] = WrapTile<T>;
}
template <bool kIsBFloat>
void SetHalf(RegionLoops& loops, int dtype) {
  loops.load[dtype] = WidenTile<kIsBFloat>;
  loops.store[dtype] = NarrowTile<kIsBFloat>;
  loops.round[dtype] = RoundTile<kIsBFloat>;
}

}  // namespace

void FillRegionTiles(SimdTable& table) {
  RegionLoops& loops = table.region;
  SetInt<uint8_t>(loops, kU8);
  SetInt<int8_t>(loops, kI8);
  SetInt<int16_t>(loops, kI16);
  SetInt<int32_t>(loops, kI32);
  SetHalf<false>(loops, kF16);
  SetHalf<true>(loops, kBF16);
  constexpr int kF = static_cast<int>(TileKind::kF32);
  constexpr int kD = static_cast<int>(TileKind::kF64);
  constexpr int kI = static_cast<int>(TileKind::kI64);
  constexpr int kB = static_cast<int>(TileKind::kBool);
  loops.convert[kF][kD] = ConvertTile<float, double>;
  loops.convert[kF][kI] = TileToInts<float>;
  loops.to_int32[kF] = TileToInt32s<float>;
  loops.to_int32[kD] = TileToInt32s<double>;
  loops.convert[kF][kB] = TileToBool<float>;
  loops.convert[kD][kF] = ConvertTile<double, float>;
  loops.convert[kD][kI] = TileToInts<double>;
  loops.convert[kD][kB] = TileToBool<double>;
  loops.convert[kI][kF] = ConvertTile<int64_t, float>;
  loops.convert[kI][kD] = ConvertTile<int64_t, double>;
  loops.convert[kI][kB] = TileToBool<int64_t>;
  loops.convert[kI][kI] = ConvertTile<int64_t, int64_t>;
  loops.convert[kB][kF] = ConvertTile<uint8_t, float>;
  loops.convert[kB][kD] = ConvertTile<uint8_t, double>;
  loops.convert[kB][kI] = ConvertTile<uint8_t, int64_t>;
}

}  // namespace mica::cpu::MICA_SIMD_NAMESPACE
