// One loop for each operator of regions and kind of tile.

#include "kernels/cpu/region_loops.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels/cpu/simd/parts.h"
#include "kernels/region/lanes.h"
#include "kernels/region/operators.h"

namespace mica::cpu::MICA_SIMD_NAMESPACE {
namespace {

using namespace region::MICA_SIMD_NAMESPACE;  // NOLINT: of this level alone.

template <typename T, int N>
struct BytesOf {
  typedef uint8_t Narrow __attribute__((vector_size(N)));
};

// A kind's vectors, and how they are read and written.
template <typename T>
struct FloatKind {
  static constexpr int kLanes = kRegisterBytes / static_cast<int>(sizeof(T));
  using Element = T;
  using Vector = Floats<T, kLanes>;
};
struct IntKind {
  static constexpr int kLanes = kRegisterBytes / 8;
  using Element = int64_t;
  using Vector = Ints<int64_t, kLanes>;
};

// The ints beside a kind's elements.
template <typename Kind>
using IntsOf = Ints<
    std::conditional_t<sizeof(typename Kind::Element) == 8, int64_t, int32_t>,
    Kind::kLanes>;

// Bools in memory are bytes of 0 or 1; a vector's are as many as its lanes.
template <typename Kind>
MICA_LANES auto LoadMask(const uint8_t* p) {
  using I = IntsOf<Kind>;
#if defined(__AVX512F__)
  using Narrow = typename I::Mask::Value;
  if constexpr (Kind::kLanes == 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return typename I::Mask{_mm_test_epi8_mask(bytes, bytes)};
  } else {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
    return
        typename I::Mask{static_cast<Narrow>(_mm_test_epi8_mask(bytes, bytes))};
  }
#else
  typename BytesOf<uint8_t, Kind::kLanes>::Narrow bytes;
  std::memcpy(&bytes, p, sizeof(bytes));
#if defined(__AVX2__)
  __m128i wide = _mm_setzero_si128();
  std::memcpy(&wide, &bytes, sizeof(bytes));
  const I lanes{(typename I::Vector)(Kind::kLanes == 8
                                         ? _mm256_cvtepu8_epi32(wide)
                                         : _mm256_cvtepu8_epi64(wide))};
#else
  const I lanes{__builtin_convertvector(bytes, typename I::Vector)};
#endif
  return !EqualInt(lanes, I::Of(0));
#endif
}
template <typename Kind, typename M>
MICA_LANES void StoreMask(uint8_t* p, M mask) {
#if defined(__AVX512F__)
  const __m128i bytes = _mm_maskz_set1_epi8(static_cast<__mmask16>(mask.v), 1);
  std::memcpy(p, &bytes, Kind::kLanes);
#elif defined(__AVX2__)
  if constexpr (Kind::kLanes == 8) {
    const __m256i lanes = (__m256i)mask.v;
    const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(lanes),
                                          _mm256_extracti128_si256(lanes, 1));
    const __m128i bytes =
        _mm_and_si128(_mm_packs_epi16(words, words), _mm_set1_epi8(1));
    std::memcpy(p, &bytes, 8);
  } else {
    const int bits = _mm256_movemask_pd((__m256d)mask.v);
    const uint32_t bytes =
        static_cast<uint32_t>((bits * 0x00204081u) & 0x01010101u);
    std::memcpy(p, &bytes, 4);
  }
#else
  using I = IntsOf<Kind>;
  const I wide = Select(mask, I::Of(1), I::Of(0));
  const auto bytes = __builtin_convertvector(
      wide.v, typename BytesOf<uint8_t, Kind::kLanes>::Narrow);
  std::memcpy(p, &bytes, sizeof(bytes));
#endif
}

template <RegionOpId kOp, typename Kind, typename V>
MICA_LANES auto Evaluate(const V (&x)[kMostRegionOperands]) {
  if constexpr (kOp == RegionOpId::kCast) {
    return x[0];
  } else if constexpr (std::is_same_v<Kind, IntKind>) {
    return IntOperator<kOp>::Of(x[0], x[1], x[2], x[3]);
  } else {
    return FloatOperator<kOp>::Of(x[0], x[1], x[2], x[3]);
  }
}

// Whether an operator gives bools.
template <RegionOpId kOp, typename Kind>
constexpr bool Compares() {
  if constexpr (kOp == RegionOpId::kWhere) {
    return false;
  } else {
    using V = typename Kind::Vector;
    using Operands = const V(&)[kMostRegionOperands];
    return !std::is_same_v<V, decltype(Evaluate<kOp, Kind>(
                                  std::declval<Operands>()))>;
  }
}

// One vector of each operand from element `i` on.
template <RegionOpId kOp, typename Kind, int kArity>
MICA_LANES void Step(const void* const* in, void* out, int64_t i) {
  using Element = typename Kind::Element;
  auto operand = [&](int k) MICA_LANES_LAMBDA {
    return LoadLanes<typename Kind::Vector>(static_cast<const Element*>(in[k]) +
                                            i);
  };
  Element* to = static_cast<Element*>(out) + i;
  if constexpr (kOp == RegionOpId::kWhere) {
    const auto mask = LoadMask<Kind>(static_cast<const uint8_t*>(in[0]) + i);
    StoreLanes(to, Select(mask, operand(1), operand(2)));
  } else {
    typename Kind::Vector x[kMostRegionOperands] = {};
    for (int k = 0; k < kArity; ++k) x[k] = operand(k);
    const auto made = Evaluate<kOp, Kind>(x);
    if constexpr (Compares<kOp, Kind>()) {
      StoreMask<Kind>(static_cast<uint8_t*>(out) + i, made);
    } else {
      StoreLanes(to, made);
    }
  }
}

// Whole vectors, then what is left by way of buffers.
template <RegionOpId kOp, typename Kind, int kArity>
void Loop(const void* const* in, void* out, int64_t n) {
  constexpr int kLanes = Kind::kLanes;
  constexpr int64_t kSize = sizeof(typename Kind::Element);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) Step<kOp, Kind, kArity>(in, out, i);
  if (i == n) return;
  alignas(64) char rest[kMostRegionOperands][kRegisterBytes] = {};
  const void* from[kMostRegionOperands];
  for (int k = 0; k < kArity; ++k) {
    const int64_t size = kOp == RegionOpId::kWhere && k == 0 ? 1 : kSize;
    std::memcpy(rest[k], static_cast<const char*>(in[k]) + i * size,
                static_cast<size_t>((n - i) * size));
    from[k] = rest[k];
  }
  alignas(64) char made[kRegisterBytes];
  Step<kOp, Kind, kArity>(from, made, 0);
  const int64_t size = Compares<kOp, Kind>() ? 1 : kSize;
  std::memcpy(static_cast<char*>(out) + i * size, made,
              static_cast<size_t>((n - i) * size));
}

constexpr bool IsOf(RegionDomain domain, TileKind kind) {
  const bool is_float = kind == TileKind::kF32 || kind == TileKind::kF64;
  switch (domain) {
    case RegionDomain::kFloats:
      return is_float;
    case RegionDomain::kNumbers:
      return is_float || kind == TileKind::kI64;
    case RegionDomain::kIntegers:
      return kind == TileKind::kI64;
    case RegionDomain::kBits:
      return kind == TileKind::kI64 || kind == TileKind::kBool;
    case RegionDomain::kAll:
      return true;
  }
  return false;
}

// Bytes of 0 and 1, left to the compiler's vectoriser.
template <RegionOpId kOp>
MICA_LANES uint8_t BoolOf(uint8_t a, uint8_t b, uint8_t c) {
  switch (kOp) {
    case RegionOpId::kNot:
      return a ^ 1;
    case RegionOpId::kMaximum:
    case RegionOpId::kOr:
      return a | b;
    case RegionOpId::kMinimum:
    case RegionOpId::kAnd:
      return a & b;
    case RegionOpId::kXor:
    case RegionOpId::kNe:
      return a ^ b;
    case RegionOpId::kEq:
      return a ^ b ^ 1;
    case RegionOpId::kLt:
      return b & (a ^ 1);
    case RegionOpId::kLe:
      return b | (a ^ 1);
    case RegionOpId::kGt:
      return a & (b ^ 1);
    case RegionOpId::kGe:
      return a | (b ^ 1);
    case RegionOpId::kWhere:
      return (a & b) | ((a ^ 1) & c);
    default:
      return a;
  }
}
template <RegionOpId kOp, int kArity>
void BoolLoop(const void* const* in, void* out, int64_t n) {
  const uint8_t* a = static_cast<const uint8_t*>(in[0]);
  const uint8_t* b = static_cast<const uint8_t*>(in[kArity > 1 ? 1 : 0]);
  const uint8_t* c = static_cast<const uint8_t*>(in[kArity > 2 ? 2 : 0]);
  uint8_t* to = static_cast<uint8_t*>(out);
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) to[i] = BoolOf<kOp>(a[i], b[i], c[i]);
}

template <RegionOpId kOp, int kArity, RegionDomain kDomain>
void SetOp(RegionLoops& loops) {
  TileFn* fns = loops.ops[static_cast<int>(kOp)];
  if constexpr (IsOf(kDomain, TileKind::kF32)) {
    fns[static_cast<int>(TileKind::kF32)] = Loop<kOp, FloatKind<float>, kArity>;
    fns[static_cast<int>(TileKind::kF64)] =
        Loop<kOp, FloatKind<double>, kArity>;
  }
  if constexpr (IsOf(kDomain, TileKind::kI64)) {
    fns[static_cast<int>(TileKind::kI64)] = Loop<kOp, IntKind, kArity>;
  }
  if constexpr (IsOf(kDomain, TileKind::kBool)) {
    fns[static_cast<int>(TileKind::kBool)] = BoolLoop<kOp, kArity>;
  }
}

}  // namespace

void FillRegionLoops(SimdTable& table) {
#define MICA_SET_OP(Name, name, arity, domain) \
  SetOp<RegionOpId::k##Name, arity, RegionDomain::domain>(table.region);
  MICA_REGION_OPS(MICA_SET_OP)
#undef MICA_SET_OP
}

}  // namespace mica::cpu::MICA_SIMD_NAMESPACE
