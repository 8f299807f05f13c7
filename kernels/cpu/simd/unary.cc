#include <cmath>
#include <cstdint>

#include "kernels/cpu/simd/math.h"
#include "kernels/cpu/simd/parts.h"
#include "kernels/cpu/simd/vec.h"
#include "kernels/region/lanes.h"

namespace mica::cpu::MICA_SIMD_NAMESPACE {
namespace {

// Applies a function of a vector; the tail goes through a masked vector.
template <typename Op>
void MapF32(const void* x, void* out, int64_t n) {
  const float* in = static_cast<const float*>(x);
  float* to = static_cast<float*>(out);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) Store(to + i, Op::Do(Load(in + i)));
  if (i < n) {
    const Vm m = FirstLanes(n - i);
    Store(to + i, Op::Do(Load(in + i, m)), m);
  }
}

namespace lanes = ::mica::MICA_REGION_NAMESPACE;
using Doubles = lanes::Floats<double, lanes::kRegisterBytes / sizeof(double)>;

// Of doubles, where the compiler's own loop isn't the fastest.
template <typename Op>
void MapF64(const void* x, void* out, int64_t n) {
  constexpr int64_t kCount = sizeof(Doubles) / sizeof(double);
  const double* in = static_cast<const double*>(x);
  double* to = static_cast<double*>(out);
  int64_t i = 0;
  for (; i + kCount <= n; i += kCount) {
    lanes::StoreLanes(to + i, Op::Do(lanes::LoadLanes<Doubles>(in + i)));
  }
  for (; i < n; ++i) to[i] = Op::Do(in[i]);
}
struct SqrtD {
  static MICA_INLINE Doubles Do(Doubles x) { return Sqrt(x); }
  static MICA_INLINE double Do(double x) { return std::sqrt(x); }
};
struct RsqrtD {
  static MICA_INLINE Doubles Do(Doubles x) { return Doubles::Of(1) / Sqrt(x); }
  static MICA_INLINE double Do(double x) { return 1 / std::sqrt(x); }
};

template <typename T, typename Op>
void Map(const void* x, void* out, int64_t n) {
  const T* in = static_cast<const T*>(x);
  T* to = static_cast<T*>(out);
  MICA_IVDEP
  for (int64_t i = 0; i < n; ++i) to[i] = Op::Do(in[i]);
}

#define MICA_VECTOR_OP(Name, expr)                    \
  struct Name##V {                                    \
    static MICA_INLINE Vf Do(Vf x) { return (expr); } \
  }
MICA_VECTOR_OP(Neg, -x);
MICA_VECTOR_OP(Abs, Abs(x));
MICA_VECTOR_OP(Relu, Relu(x));
MICA_VECTOR_OP(Square, x* x);
MICA_VECTOR_OP(Cube, x* x* x);
MICA_VECTOR_OP(Reciprocal, Set(1.0f) / x);
MICA_VECTOR_OP(Sqrt, Sqrt(x));
MICA_VECTOR_OP(Rsqrt, Set(1.0f) / Sqrt(x));
MICA_VECTOR_OP(Exp, Exp(x));
MICA_VECTOR_OP(Erf, Erf(x));
MICA_VECTOR_OP(Tanh, Tanh(x));
MICA_VECTOR_OP(Sigmoid, Sigmoid(x));
MICA_VECTOR_OP(Silu, Silu(x));
MICA_VECTOR_OP(GeluErf, GeluErf(x));
MICA_VECTOR_OP(GeluTanh, GeluTanh(x));
#undef MICA_VECTOR_OP

#define MICA_SCALAR_OP(Name, expr)   \
  struct Name##S {                   \
    template <typename T>            \
    static MICA_INLINE T Do(T x) {   \
      return static_cast<T>((expr)); \
    }                                \
  }
MICA_SCALAR_OP(Neg, -x);
MICA_SCALAR_OP(Abs, x < T{0} ? -x : x + T{0});
MICA_SCALAR_OP(Relu, x < T{0} ? T{0} : x);
MICA_SCALAR_OP(Square, x* x);
MICA_SCALAR_OP(Cube, x* x* x);
MICA_SCALAR_OP(Reciprocal, T{1} / x);
MICA_SCALAR_OP(Exp, std::exp(x));
MICA_SCALAR_OP(Erf, std::erf(x));
MICA_SCALAR_OP(Tanh, std::tanh(x));
MICA_SCALAR_OP(Sigmoid, T{1} / (T{1} + std::exp(-x)));
MICA_SCALAR_OP(Silu, x / (T{1} + std::exp(-x)));
MICA_SCALAR_OP(GeluErf,
               T{0.5} * x * (T{1} + std::erf(x * T{0.70710678118654752440})));
MICA_SCALAR_OP(GeluTanh, T{0.5} * x *
                             (T{1} + std::tanh(T{0.79788456080286535588} *
                                               (x + T{0.044715} * x * x * x))));
MICA_SCALAR_OP(Not, !x);
#undef MICA_SCALAR_OP

}  // namespace

void FillUnary(SimdTable& table) {
  auto set = [&table](Unary op, Elem elem, UnaryFn fn) {
    table.unary[static_cast<int>(op)][static_cast<int>(elem)] = fn;
  };
#define MICA_SET_FLOAT(Name)                        \
  set(Unary::k##Name, Elem::kF32, MapF32<Name##V>); \
  set(Unary::k##Name, Elem::kF64, Map<double, Name##S>)
  MICA_SET_FLOAT(Neg);
  MICA_SET_FLOAT(Abs);
  MICA_SET_FLOAT(Relu);
  MICA_SET_FLOAT(Square);
  MICA_SET_FLOAT(Cube);
  MICA_SET_FLOAT(Reciprocal);
  set(Unary::kSqrt, Elem::kF32, MapF32<SqrtV>);
  set(Unary::kSqrt, Elem::kF64, MapF64<SqrtD>);
  set(Unary::kRsqrt, Elem::kF32, MapF32<RsqrtV>);
  set(Unary::kRsqrt, Elem::kF64, MapF64<RsqrtD>);
  MICA_SET_FLOAT(Exp);
  MICA_SET_FLOAT(Erf);
  MICA_SET_FLOAT(Tanh);
  MICA_SET_FLOAT(Sigmoid);
  MICA_SET_FLOAT(Silu);
  MICA_SET_FLOAT(GeluErf);
  MICA_SET_FLOAT(GeluTanh);
#undef MICA_SET_FLOAT
#define MICA_SET_INT(Name)                                \
  set(Unary::k##Name, Elem::kI64, Map<int64_t, Name##S>); \
  set(Unary::k##Name, Elem::kI32, Map<int32_t, Name##S>)
  MICA_SET_INT(Neg);
  MICA_SET_INT(Abs);
  MICA_SET_INT(Relu);
  MICA_SET_INT(Square);
  MICA_SET_INT(Cube);
#undef MICA_SET_INT
  set(Unary::kNot, Elem::kBool, Map<uint8_t, NotS>);
}

}  // namespace mica::cpu::MICA_SIMD_NAMESPACE
