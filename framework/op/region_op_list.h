// The operators that regions consist of, two tables: the oracle, the vector
// loops, the code generators and the tests are made from them. No framework
// types: the vector loops include it.

#ifndef MICA_FRAMEWORK_OP_REGION_OP_LIST_H_
#define MICA_FRAMEWORK_OP_REGION_OP_LIST_H_

#include <cstdint>

namespace mica {

// Which dtypes an operator has. Ints wrap around, as PyTorch's do.
enum class RegionDomain : uint8_t {
  kFloats,
  kNumbers,   // Floats and ints.
  kIntegers,  // Ints.
  kBits,      // Ints and bool.
  kAll,
};

// clang-format off
// X(Name, "name", number of operands, domain)
#define MICA_REGION_OPS(X)                                                    \
  X(Cast, "cast", 1, kAll)            /* the conversion alone */              \
  X(Neg, "neg", 1, kNumbers)                                                  \
  X(Abs, "abs", 1, kNumbers)                                                  \
  X(Sign, "sign", 1, kNumbers)        /* of nan 0, as PyTorch's */            \
  X(Relu, "relu", 1, kNumbers)        /* nan stays */                         \
  X(Square, "square", 1, kNumbers)                                            \
  X(Cube, "cube", 1, kNumbers)                                                \
  X(Not, "not", 1, kBits)             /* of each bit */                       \
  X(Floor, "floor", 1, kFloats)                                               \
  X(Ceil, "ceil", 1, kFloats)                                                 \
  X(Trunc, "trunc", 1, kFloats)                                               \
  X(Round, "round", 1, kFloats)       /* halves to the even one */            \
  X(Reciprocal, "reciprocal", 1, kFloats)                                     \
  X(Sqrt, "sqrt", 1, kFloats)                                                 \
  X(Rsqrt, "rsqrt", 1, kFloats)       /* 1 / sqrt(x) */                       \
  X(Exp, "exp", 1, kFloats)                                                   \
  X(Exp2, "exp2", 1, kFloats)                                                 \
  X(Expm1, "expm1", 1, kFloats)                                               \
  X(Log, "log", 1, kFloats)                                                   \
  X(Log2, "log2", 1, kFloats)                                                 \
  X(Log10, "log10", 1, kFloats)                                               \
  X(Log1p, "log1p", 1, kFloats)                                               \
  X(Sin, "sin", 1, kFloats)                                                   \
  X(Cos, "cos", 1, kFloats)                                                   \
  X(Tan, "tan", 1, kFloats)                                                   \
  X(Asin, "asin", 1, kFloats)                                                 \
  X(Acos, "acos", 1, kFloats)                                                 \
  X(Atan, "atan", 1, kFloats)                                                 \
  X(Sinh, "sinh", 1, kFloats)                                                 \
  X(Cosh, "cosh", 1, kFloats)                                                 \
  X(Tanh, "tanh", 1, kFloats)                                                 \
  X(Asinh, "asinh", 1, kFloats)                                               \
  X(Acosh, "acosh", 1, kFloats)                                               \
  X(Atanh, "atanh", 1, kFloats)                                               \
  X(Erf, "erf", 1, kFloats)                                                   \
  X(Erfc, "erfc", 1, kFloats)                                                 \
  X(Erfinv, "erfinv", 1, kFloats)                                             \
  X(Lgamma, "lgamma", 1, kFloats)                                             \
  X(Digamma, "digamma", 1, kFloats)                                           \
  X(Sigmoid, "sigmoid", 1, kFloats)                                           \
  X(Silu, "silu", 1, kFloats)                                                 \
  X(Gelu, "gelu", 1, kFloats)         /* as defined, by erf */                \
  X(GeluTanh, "gelu_tanh", 1, kFloats)                                        \
  X(Add, "add", 2, kNumbers)                                                  \
  X(Sub, "sub", 2, kNumbers)                                                  \
  X(Mul, "mul", 2, kNumbers)                                                  \
  X(Div, "div", 2, kFloats)                                                   \
  X(Maximum, "maximum", 2, kAll)      /* a nan wins */                        \
  X(Minimum, "minimum", 2, kAll)                                              \
  X(Fmax, "fmax", 2, kFloats)         /* a number wins over a nan */          \
  X(Fmin, "fmin", 2, kFloats)                                                 \
  X(Pow, "pow", 2, kFloats)                                                   \
  X(Atan2, "atan2", 2, kFloats)                                               \
  X(Hypot, "hypot", 2, kFloats)                                               \
  X(Fmod, "fmod", 2, kFloats)         /* has the first one's sign */          \
  X(Remainder, "remainder", 2, kFloats) /* has the second one's sign */       \
  X(FloorDiv, "floor_div", 2, kFloats)  /* PyTorch's div, rounded to floor */ \
  X(Copysign, "copysign", 2, kFloats)                                         \
  X(And, "and", 2, kBits)                                                     \
  X(Or, "or", 2, kBits)                                                       \
  X(Xor, "xor", 2, kBits)                                                     \
  X(TanhBackward, "tanh_backward", 2, kFloats)       /* a (1 - b b) */        \
  X(SigmoidBackward, "sigmoid_backward", 2, kFloats) /* a (1 - b) b */        \
  X(Lt, "lt", 2, kAll)                /* comparisons: bool results */         \
  X(Le, "le", 2, kAll)                                                        \
  X(Gt, "gt", 2, kAll)                                                        \
  X(Ge, "ge", 2, kAll)                                                        \
  X(Eq, "eq", 2, kAll)                                                        \
  X(Ne, "ne", 2, kAll)                                                        \
  X(Where, "where", 3, kAll)          /* a ? b : c */                         \
  X(AddScaled, "add_scaled", 3, kNumbers) /* a + c b, rounded once */         \
  X(SubScaled, "sub_scaled", 3, kNumbers) /* a - c b, rounded once */         \
  X(Lerp, "lerp", 3, kFloats)         /* from a to b by c */                  \
  X(Addcmul, "addcmul", 4, kNumbers)  /* a + d b c */                         \
  X(Addcdiv, "addcdiv", 4, kFloats)   /* a + d b / c */

// Those that make one element of many: of a region's reduced axes. Sums are of
// the dtype computed in, rounded at the end.
#define MICA_REGION_REDUCTIONS(X)                                             \
  X(Sum, "sum", 1, kNumbers)                                                  \
  X(Mean, "mean", 2, kFloats)         /* of a, over their number less b */    \
  X(Amax, "amax", 1, kAll)            /* a nan wins */                        \
  X(Amin, "amin", 1, kAll)
// clang-format on

// Those of elements first.
enum class RegionOpId : uint8_t {
#define MICA_REGION_OP_ID(Name, name, arity, domain) k##Name,
  MICA_REGION_OPS(MICA_REGION_OP_ID) MICA_REGION_REDUCTIONS(MICA_REGION_OP_ID)
#undef MICA_REGION_OP_ID
};
#define MICA_REGION_COUNT(Name, name, arity, domain) +1
inline constexpr int kNumRegionOps = 0 MICA_REGION_OPS(MICA_REGION_COUNT);
#undef MICA_REGION_COUNT

inline constexpr int kMostRegionOperands = 4;  // Of an instruction.

}  // namespace mica

#endif  // MICA_FRAMEWORK_OP_REGION_OP_LIST_H_
