#include <cmath>
#include <cstdint>

#include "kernels/cpu/simd/parts.h"
#include "kernels/cpu/simd/vec.h"

// Plain loops, left to the compiler's vectoriser: it does them well.

namespace mica::cpu::MICA_SIMD_NAMESPACE {
namespace {

template <typename T>
MICA_INLINE bool Unordered(T x) {
  return x != x;
}

// What T computes in where integers wrap around, which signed ones may not.
template <typename T>
struct Wrapping {
  using Type = T;
};
template <>
struct Wrapping<int32_t> {
  using Type = uint32_t;
};
template <>
struct Wrapping<int64_t> {
  using Type = uint64_t;
};
template <typename T>
MICA_INLINE typename Wrapping<T>::Type Wrap(T x) {
  return static_cast<typename Wrapping<T>::Type>(x);
}

// Operators of two elements and alpha. R is the result's element.
#define MICA_BINARY_OP(Name, R, expr)                             \
  template <typename T>                                           \
  struct Name {                                                   \
    using Result = R;                                             \
    static MICA_INLINE R Do(T a, T b, [[maybe_unused]] T alpha) { \
      return static_cast<R>((expr));                              \
    }                                                             \
  }
MICA_BINARY_OP(Add, T, Wrap(a) + Wrap(b));
MICA_BINARY_OP(AddScaled, T, Wrap(a) + Wrap(alpha) * Wrap(b));
MICA_BINARY_OP(Sub, T, Wrap(a) - Wrap(b));
MICA_BINARY_OP(Mul, T, Wrap(a) * Wrap(b));
MICA_BINARY_OP(Div, T, a / b);
MICA_BINARY_OP(Maximum, T, (a > b) | Unordered(a) ? a : b);
MICA_BINARY_OP(Minimum, T, (a < b) | Unordered(a) ? a : b);
MICA_BINARY_OP(Eq, uint8_t, a == b);
MICA_BINARY_OP(Ne, uint8_t, a != b);
MICA_BINARY_OP(Lt, uint8_t, a < b);
MICA_BINARY_OP(Le, uint8_t, a <= b);
MICA_BINARY_OP(Gt, uint8_t, a > b);
MICA_BINARY_OP(Ge, uint8_t, a >= b);
MICA_BINARY_OP(And, uint8_t, a& b);
MICA_BINARY_OP(Or, uint8_t, a | b);
MICA_BINARY_OP(Xor, uint8_t, a ^ b);
#undef MICA_BINARY_OP

template <typename T, template <typename> class Op, Form kForm, bool kIsShort>
MICA_INLINE void RunLoop(const void* a, const void* b, void* out, int64_t n,
                         const void* alpha) {
  using R = typename Op<T>::Result;
  const T* x = static_cast<const T*>(a);
  const T* y = static_cast<const T*>(b);
  R* to = static_cast<R*>(out);
  const T scale = alpha == nullptr ? T{1} : *static_cast<const T*>(alpha);
  // Read before the loop: an operand of one element may be the output.
  const T x0 = n > 0 && kForm == Form::kSV ? x[0] : T{};
  const T y0 = n > 0 && kForm == Form::kVS ? y[0] : T{};
  const auto element = [&](int64_t i) MICA_INLINE_LAMBDA {
    to[i] = Op<T>::Do(kForm == Form::kSV ? x0 : x[i],
                      kForm == Form::kVS ? y0 : y[i], scale);
  };
  if constexpr (kIsShort) {
#pragma GCC unroll 1
    MICA_IVDEP
    for (int64_t i = 0; i < n; ++i) element(i);
  } else {
    MICA_IVDEP
    for (int64_t i = 0; i < n; ++i) element(i);
  }
}

template <typename T, template <typename> class Op, Form kForm>
void Loop(const void* a, const void* b, void* out, int64_t n,
          const void* alpha) {
  RunLoop<T, Op, kForm, false>(a, b, out, n, alpha);
}

template <typename T, template <typename> class Op, Form kForm, bool kIsShort>
MICA_INLINE void RunRows(const BinaryRows& g) {
  const char* a = static_cast<const char*>(g.a);
  const char* b = static_cast<const char*>(g.b);
  char* out = static_cast<char*>(g.out);
  for (int64_t row = 0; row < g.rows; ++row) {
    RunLoop<T, Op, kForm, kIsShort>(a, b, out, g.n, g.alpha);
    a += g.a_step;
    b += g.b_step;
    out += g.out_step;
  }
}

// A call for each short row would take as long as its elements, and so would
// finding how many of them an unrolled loop leaves over.
template <typename T, template <typename> class Op, Form kForm>
void RowsLoop(const BinaryRows& g) {
  constexpr int64_t kShort = 128;
  if (g.n <= kShort) return RunRows<T, Op, kForm, true>(g);
  RunRows<T, Op, kForm, false>(g);
}

template <typename T, template <typename> class Op>
void SetBinary(SimdTable& table, Binary op, Elem elem) {
  BinaryRowsFn* rows =
      table.binary_rows[static_cast<int>(op)][static_cast<int>(elem)];
  rows[static_cast<int>(Form::kVV)] = RowsLoop<T, Op, Form::kVV>;
  rows[static_cast<int>(Form::kVS)] = RowsLoop<T, Op, Form::kVS>;
  rows[static_cast<int>(Form::kSV)] = RowsLoop<T, Op, Form::kSV>;
  BinaryFn* fns = table.binary[static_cast<int>(op)][static_cast<int>(elem)];
  fns[static_cast<int>(Form::kVV)] = Loop<T, Op, Form::kVV>;
  fns[static_cast<int>(Form::kVS)] = Loop<T, Op, Form::kVS>;
  fns[static_cast<int>(Form::kSV)] = Loop<T, Op, Form::kSV>;
}

template <typename T>
void SetCompares(SimdTable& table, Elem elem) {
  SetBinary<T, Eq>(table, Binary::kEq, elem);
  SetBinary<T, Ne>(table, Binary::kNe, elem);
  SetBinary<T, Lt>(table, Binary::kLt, elem);
  SetBinary<T, Le>(table, Binary::kLe, elem);
  SetBinary<T, Gt>(table, Binary::kGt, elem);
  SetBinary<T, Ge>(table, Binary::kGe, elem);
}

template <typename T>
void SetArithmetic(SimdTable& table, Elem elem) {
  SetBinary<T, Add>(table, Binary::kAdd, elem);
  SetBinary<T, AddScaled>(table, Binary::kAddScaled, elem);
  SetBinary<T, Sub>(table, Binary::kSub, elem);
  SetBinary<T, Mul>(table, Binary::kMul, elem);
  SetBinary<T, Maximum>(table, Binary::kMaximum, elem);
  SetBinary<T, Minimum>(table, Binary::kMinimum, elem);
  SetCompares<T>(table, elem);
}

template <typename T, bool kA, bool kB>
void SelectLoop(const bool* cond, const void* a, const void* b, void* out,
                int64_t n) {
  if (n <= 0) return;
  const uint8_t* c = reinterpret_cast<const uint8_t*>(cond);
  const T* x = static_cast<const T*>(a);
  const T* y = static_cast<const T*>(b);
  T* to = static_cast<T*>(out);
  const T x0 = x[0], y0 = y[0];
  MICA_IVDEP
  for (int64_t i = 0; i < n; ++i) {
    const T u = kA ? x[i] : x0;
    const T v = kB ? y[i] : y0;
    to[i] = c[i] != 0 ? u : v;
  }
}

template <typename T>
void SetSelect(SimdTable& table, int log2_bytes) {
  table.select[log2_bytes][0] = SelectLoop<T, false, false>;
  table.select[log2_bytes][1] = SelectLoop<T, true, false>;
  table.select[log2_bytes][2] = SelectLoop<T, false, true>;
  table.select[log2_bytes][3] = SelectLoop<T, true, true>;
}

// A nan stays one; hi wins where lo > hi, as in PyTorch.
template <typename T>
void ClampLoop(const void* x, void* out, int64_t n, const void* lo,
               const void* hi) {
  const T* in = static_cast<const T*>(x);
  T* to = static_cast<T*>(out);
  const T low = *static_cast<const T*>(lo);
  const T high = *static_cast<const T*>(hi);
  MICA_IVDEP
  for (int64_t i = 0; i < n; ++i) {
    const T v = in[i] < low ? low : in[i];
    to[i] = v > high ? high : v;
  }
}

template <typename From, typename To>
void ConvertLoop(const void* x, void* out, int64_t n) {
  const From* in = static_cast<const From*>(x);
  To* to = static_cast<To*>(out);
  MICA_IVDEP
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<To>(in[i]);
}

template <typename From>
void ToBoolLoop(const void* x, void* out, int64_t n) {
  const From* in = static_cast<const From*>(x);
  uint8_t* to = static_cast<uint8_t*>(out);
  MICA_IVDEP
  for (int64_t i = 0; i < n; ++i) to[i] = in[i] != From{0} ? 1 : 0;
}

template <typename From>
void SetConvert(SimdTable& table, Elem from) {
  ConvertFn* fns = table.convert[static_cast<int>(from)];
  fns[static_cast<int>(Elem::kF32)] = ConvertLoop<From, float>;
  fns[static_cast<int>(Elem::kF64)] = ConvertLoop<From, double>;
  fns[static_cast<int>(Elem::kI64)] = ConvertLoop<From, int64_t>;
  fns[static_cast<int>(Elem::kI32)] = ConvertLoop<From, int32_t>;
  fns[static_cast<int>(Elem::kBool)] = ToBoolLoop<From>;
}

}  // namespace

void FillElementwise(SimdTable& table) {
  SetArithmetic<float>(table, Elem::kF32);
  SetArithmetic<double>(table, Elem::kF64);
  SetArithmetic<int64_t>(table, Elem::kI64);
  SetArithmetic<int32_t>(table, Elem::kI32);
  SetBinary<float, Div>(table, Binary::kDiv, Elem::kF32);
  SetBinary<double, Div>(table, Binary::kDiv, Elem::kF64);
  SetCompares<uint8_t>(table, Elem::kBool);
  SetBinary<uint8_t, And>(table, Binary::kAnd, Elem::kBool);
  SetBinary<uint8_t, Or>(table, Binary::kOr, Elem::kBool);
  SetBinary<uint8_t, Xor>(table, Binary::kXor, Elem::kBool);
  SetSelect<uint8_t>(table, 0);
  SetSelect<uint16_t>(table, 1);
  SetSelect<uint32_t>(table, 2);
  SetSelect<uint64_t>(table, 3);
  table.clamp[static_cast<int>(Elem::kF32)] = ClampLoop<float>;
  table.clamp[static_cast<int>(Elem::kF64)] = ClampLoop<double>;
  table.clamp[static_cast<int>(Elem::kI64)] = ClampLoop<int64_t>;
  table.clamp[static_cast<int>(Elem::kI32)] = ClampLoop<int32_t>;
  SetConvert<float>(table, Elem::kF32);
  SetConvert<double>(table, Elem::kF64);
  SetConvert<int64_t>(table, Elem::kI64);
  SetConvert<int32_t>(table, Elem::kI32);
  SetConvert<uint8_t>(table, Elem::kBool);
}

}  // namespace mica::cpu::MICA_SIMD_NAMESPACE
