// Arithmetic on numbers of 16 bits: widened, computed and rounded once, all
// in registers.

#include <cstdint>
#include <cstring>

#include "kernels/cpu/simd/half.h"
#include "kernels/cpu/simd/parts.h"
#include "kernels/cpu/simd/vec.h"

namespace mica::cpu::MICA_SIMD_NAMESPACE {
namespace {

constexpr int kStep = 2 * kLanes;  // Elements of a round.

struct Two {
  Vf low, high;
};

// How a type is read and written, kStep elements at a time.
struct BFloat {
  static MICA_INLINE Two Read(const uint16_t* p) {
    return {WidenBFloat(p), WidenBFloat(p + kLanes)};
  }
  static MICA_INLINE void Write(uint16_t* p, Two x) {
#if defined(__AVX512F__) || !defined(__AVX2__)
    NarrowBFloat(p, x.low);
    NarrowBFloat(p + kLanes, x.high);
#else
    // Packing goes by halves of a vector: their inner quarters are swapped.
    const Vi packed =
        _mm256_packus_epi32(RoundBFloat(x.low), RoundBFloat(x.high));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        _mm256_permute4x64_epi64(packed, 0xd8));
#endif
  }
};

struct Float16 {
  static MICA_INLINE Two Read(const uint16_t* p) {
    return {WidenHalf(p), WidenHalf(p + kLanes)};
  }
  static MICA_INLINE void Write(uint16_t* p, Two x) {
    NarrowHalf(p, x.low);
    NarrowHalf(p + kLanes, x.high);
  }
};

// The numbers of an operator, in each lane.
struct Numbers {
  Vf first, second;
};

// Operators of one or two operands; as in eager each is computed in float32.
#define MICA_HALF_OP(Name, expr)                                           \
  struct Name {                                                            \
    static MICA_INLINE Vf Do([[maybe_unused]] Vf a, [[maybe_unused]] Vf b, \
                             [[maybe_unused]] const Numbers& numbers) {    \
      return (expr);                                                       \
    }                                                                      \
  }
MICA_HALF_OP(Relu, Max(Zero(), a));
MICA_HALF_OP(Root, Sqrt(a));
MICA_HALF_OP(OverRoot, Divide(Set(1.0f), Sqrt(a)));
MICA_HALF_OP(Reciprocal, Divide(Set(1.0f), a));
MICA_HALF_OP(Square, a* a);
MICA_HALF_OP(RoundDown, Floor(a));
MICA_HALF_OP(RoundUp, Ceil(a));
MICA_HALF_OP(RoundNear, Round(a));
MICA_HALF_OP(RoundToZero, Truncate(a));
// A nan stays one: it is the second argument.
MICA_HALF_OP(Clamp, Min(numbers.second, Max(numbers.first, a)));
MICA_HALF_OP(LeakyRelu, Select(Less(Zero(), a), a, a* numbers.first));
MICA_HALF_OP(Hardswish,
             Divide(a* Min(Set(6.0f), Max(Zero(), a + Set(3.0f))), Set(6.0f)));
MICA_HALF_OP(Hardsigmoid,
             Divide(Min(Set(6.0f), Max(Zero(), a + Set(3.0f))), Set(6.0f)));
MICA_HALF_OP(Add, a + b);
MICA_HALF_OP(Sub, a - b);
MICA_HALF_OP(Mul, a* b);
MICA_HALF_OP(Div, Divide(a, b));
MICA_HALF_OP(Maximum, Select(IsNan(a), a, Max(a, b)));
MICA_HALF_OP(Minimum, Select(IsNan(a), a, Min(a, b)));
#undef MICA_HALF_OP

template <typename Type, typename Op, bool kBinary>
MICA_INLINE void Step(const uint16_t* a, const uint16_t* b, uint16_t* out,
                      const Numbers& numbers) {
  const Two x = Type::Read(a);
  const Two y = kBinary ? Type::Read(b) : x;
  Type::Write(out,
              {Op::Do(x.low, y.low, numbers), Op::Do(x.high, y.high, numbers)});
}

// An operand: an array, or one element, which a round reads copies of.
struct Source {
  MICA_INLINE Source(const void* x, int64_t operand_step)
      : at(static_cast<const uint16_t*>(x)), step(operand_step) {
    if (step != 0) return;
    for (uint16_t& copy : copies) copy = *at;
    at = copies;
  }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  MICA_INLINE const uint16_t* operator+(int64_t i) const {
    return at + i * step;
  }

  const uint16_t* at;
  int64_t step;
  uint16_t copies[kStep];
};

template <typename Type, typename Op, bool kBinary>
void Loop(const void* a, int64_t a_step, const void* b, int64_t b_step,
          void* out, int64_t n, const float* numbers) {
  const Source x(a, a_step), y(kBinary ? b : a, kBinary ? b_step : 1);
  auto* to = static_cast<uint16_t*>(out);
  const Numbers all = {Set(numbers[0]), Set(numbers[1])};
  int64_t i = 0;
  for (; i + kStep <= n; i += kStep) {
    Step<Type, Op, kBinary>(x + i, y + i, to + i, all);
  }
  if (i == n) return;
  uint16_t rest[2][kStep] = {}, made[kStep];
  const int64_t left = n - i;
  std::memcpy(rest[0], x + i, left * sizeof(uint16_t));
  if (kBinary) std::memcpy(rest[1], y + i, left * sizeof(uint16_t));
  Step<Type, Op, kBinary>(rest[0], rest[1], made, all);
  std::memcpy(to + i, made, left * sizeof(uint16_t));
}

// What only touches the sign.
template <uint16_t kKept, uint16_t kFlipped>
void SignLoop(const void* a, int64_t, const void*, int64_t, void* out,
              int64_t n, const float*) {
  const auto* x = static_cast<const uint16_t*>(a);
  auto* to = static_cast<uint16_t*>(out);
  MICA_IVDEP
  for (int64_t i = 0; i < n; ++i) {
    to[i] = static_cast<uint16_t>((x[i] & kKept) ^ kFlipped);
  }
}

template <uint16_t kKept, uint16_t kFlipped>
void PutSign(SimdTable& table, HalfOp op) {
  for (HalfFn& loop : table.half_loops[static_cast<int>(op)]) {
    loop = SignLoop<kKept, kFlipped>;
  }
}

template <typename Op, bool kBinary>
void Put(SimdTable& table, HalfOp op) {
  auto& loops = table.half_loops[static_cast<int>(op)];
  loops[static_cast<int>(Half::kBFloat)] = Loop<BFloat, Op, kBinary>;
  loops[static_cast<int>(Half::kHalf)] = Loop<Float16, Op, kBinary>;
}

}  // namespace

void FillHalfLoops(SimdTable& table) {
  Put<Relu, false>(table, HalfOp::kRelu);
  Put<Root, false>(table, HalfOp::kSqrt);
  Put<OverRoot, false>(table, HalfOp::kRsqrt);
  Put<Reciprocal, false>(table, HalfOp::kReciprocal);
  Put<Square, false>(table, HalfOp::kSquare);
  Put<RoundDown, false>(table, HalfOp::kFloor);
  Put<RoundUp, false>(table, HalfOp::kCeil);
  Put<RoundNear, false>(table, HalfOp::kRound);
  Put<RoundToZero, false>(table, HalfOp::kTrunc);
  Put<Clamp, false>(table, HalfOp::kClamp);
  Put<LeakyRelu, false>(table, HalfOp::kLeakyRelu);
  Put<Hardswish, false>(table, HalfOp::kHardswish);
  Put<Hardsigmoid, false>(table, HalfOp::kHardsigmoid);
  PutSign<0xffff, 0x8000>(table, HalfOp::kNeg);
  PutSign<0x7fff, 0>(table, HalfOp::kAbs);
  Put<Add, true>(table, HalfOp::kAdd);
  Put<Sub, true>(table, HalfOp::kSub);
  Put<Mul, true>(table, HalfOp::kMul);
  Put<Div, true>(table, HalfOp::kDiv);
  Put<Maximum, true>(table, HalfOp::kMaximum);
  Put<Minimum, true>(table, HalfOp::kMinimum);
}

}  // namespace mica::cpu::MICA_SIMD_NAMESPACE
