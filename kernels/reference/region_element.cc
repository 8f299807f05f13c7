#include "kernels/reference/region_element.h"

#include <cmath>
#include <type_traits>

#include "glog/logging.h"
#include "kernels/reference/element.h"
#include "kernels/reference/gamma.h"
#include "kernels/reference/numbers.h"

namespace mica {
namespace {

using Element = RegionElement;

template <typename C>
C ValueOf(const Element& element, DType dtype) {
  return IsFloating(dtype) ? ConvertNumber<C>(element.real)
                           : static_cast<C>(element.integer);
}

bool TruthOf(const Element& element, DType dtype) {
  return IsFloating(dtype) ? element.real != 0 : element.integer != 0;
}

// Ints wrap; floats out of an int32's range become its smallest number where
// the dtype has no more bits than that, as the processor converts them.
template <typename C>
int64_t IntegerOf(C value, DType dtype) {
  if constexpr (std::is_floating_point_v<C>) {
    if (dtype != DType::kI64 && !(std::fabs(value) < C{2147483648.0})) {
      return WrapTo(dtype, INT32_MIN);
    }
  }
  return WrapTo(dtype, ConvertNumber<int64_t>(value));
}

template <typename C>
Element Rounded(C value, DType dtype) {
  if (dtype == DType::kBool) return {.integer = value != 0};
  if (!IsFloating(dtype)) return {.integer = IntegerOf(value, dtype)};
  alignas(8) char bytes[8];
  StoreElement(bytes, dtype, 0, value);
  return {.real = LoadElement<double>(bytes, dtype, 0)};
}

// Operators of all numbers. Comparisons give 0 or 1.
template <typename C>
C Arithmetic(RegionOpId op, const C* x) {
  switch (op) {
    case RegionOpId::kCast:
      return x[0];
    case RegionOpId::kNeg:
      return Negated(x[0]);
    case RegionOpId::kAbs:
      return Magnitude(x[0]);
    case RegionOpId::kSign:
      return static_cast<C>((x[0] > 0) - (x[0] < 0));
    case RegionOpId::kRelu:
      return Larger(x[0], C{0});
    case RegionOpId::kSquare:
      return Product(x[0], x[0]);
    case RegionOpId::kCube:
      return Product(Product(x[0], x[0]), x[0]);
    case RegionOpId::kAdd:
      return Sum(x[0], x[1]);
    case RegionOpId::kSub:
      return Difference(x[0], x[1]);
    case RegionOpId::kMul:
      return Product(x[0], x[1]);
    case RegionOpId::kMaximum:
      return Larger(x[0], x[1]);
    case RegionOpId::kMinimum:
      return Smaller(x[0], x[1]);
    case RegionOpId::kLt:
      return x[0] < x[1];
    case RegionOpId::kLe:
      return x[0] <= x[1];
    case RegionOpId::kGt:
      return x[0] > x[1];
    case RegionOpId::kGe:
      return x[0] >= x[1];
    case RegionOpId::kEq:
      return x[0] == x[1];
    case RegionOpId::kNe:
      return x[0] != x[1];
    case RegionOpId::kAddScaled:
      return Sum(x[0], Product(x[2], x[1]));
    case RegionOpId::kSubScaled:
      return Difference(x[0], Product(x[2], x[1]));
    case RegionOpId::kAddcmul:
      return Sum(x[0], Product(Product(x[3], x[1]), x[2]));
    default:
      break;
  }
  LOG(FATAL) << "no function for " << RegionOpOf(op).name;
  return C{};
}

int64_t IntegerElement(RegionOpId op, const int64_t* x) {
  switch (op) {
    case RegionOpId::kNot:
      return ~x[0];
    case RegionOpId::kAnd:
      return x[0] & x[1];
    case RegionOpId::kOr:
      return x[0] | x[1];
    case RegionOpId::kXor:
      return x[0] ^ x[1];
    default:
      return Arithmetic(op, x);
  }
}

template <typename C>
C UnaryFloat(RegionOpId op, C x) {
  const C root = std::sqrt(C{0.5});
  switch (op) {
    case RegionOpId::kFloor:
      return std::floor(x);
    case RegionOpId::kCeil:
      return std::ceil(x);
    case RegionOpId::kTrunc:
      return std::trunc(x);
    case RegionOpId::kRound:
      return std::nearbyint(x);
    case RegionOpId::kReciprocal:
      return 1 / x;
    case RegionOpId::kSqrt:
      return std::sqrt(x);
    case RegionOpId::kRsqrt:
      return 1 / std::sqrt(x);
    case RegionOpId::kExp:
      return std::exp(x);
    case RegionOpId::kExp2:
      return std::exp2(x);
    case RegionOpId::kExpm1:
      return std::expm1(x);
    case RegionOpId::kLog:
      return std::log(x);
    case RegionOpId::kLog2:
      return std::log2(x);
    case RegionOpId::kLog10:
      return std::log10(x);
    case RegionOpId::kLog1p:
      return std::log1p(x);
    case RegionOpId::kSin:
      return std::sin(x);
    case RegionOpId::kCos:
      return std::cos(x);
    case RegionOpId::kTan:
      return std::tan(x);
    case RegionOpId::kAsin:
      return std::asin(x);
    case RegionOpId::kAcos:
      return std::acos(x);
    case RegionOpId::kAtan:
      return std::atan(x);
    case RegionOpId::kSinh:
      return std::sinh(x);
    case RegionOpId::kCosh:
      return std::cosh(x);
    case RegionOpId::kTanh:
      return std::tanh(x);
    case RegionOpId::kAsinh:
      return std::asinh(x);
    case RegionOpId::kAcosh:
      return std::acosh(x);
    case RegionOpId::kAtanh:
      return std::atanh(x);
    case RegionOpId::kErf:
      return std::erf(x);
    case RegionOpId::kErfc:
      return std::erfc(x);
    case RegionOpId::kErfinv:
      return static_cast<C>(InverseErf(x));
    case RegionOpId::kLgamma:
      return static_cast<C>(LogGamma(x));
    case RegionOpId::kDigamma:
      return static_cast<C>(Digamma(x));
    case RegionOpId::kSigmoid:
      return Sigmoid(x);
    case RegionOpId::kSilu:
      return x / (1 + std::exp(-x));
    case RegionOpId::kGelu:
      return x * (1 + std::erf(x * root)) / 2;
    case RegionOpId::kGeluTanh:
      return x / 2 *
             (1 + std::tanh(static_cast<C>(0.7978845608028654) *
                            (x + static_cast<C>(0.044715) * x * x * x)));
    default:
      return Arithmetic(op, &x);
  }
}

template <typename C>
C FloatElement(RegionOpId op, const C* x) {
  switch (op) {
    case RegionOpId::kDiv:
      return x[0] / x[1];
    case RegionOpId::kFmax:
      return std::fmax(x[0], x[1]);
    case RegionOpId::kFmin:
      return std::fmin(x[0], x[1]);
    case RegionOpId::kPow:
      return std::pow(x[0], x[1]);
    case RegionOpId::kAtan2:
      return std::atan2(x[0], x[1]);
    case RegionOpId::kHypot:
      return std::hypot(x[0], x[1]);
    case RegionOpId::kFmod:
      return std::fmod(x[0], x[1]);
    case RegionOpId::kRemainder:
      return FlooredRemainder(x[0], x[1]);
    case RegionOpId::kFloorDiv:
      return FlooredQuotient(x[0], x[1]);
    case RegionOpId::kCopysign:
      return std::copysign(x[0], x[1]);
    case RegionOpId::kTanhBackward:
      return x[0] * (1 - x[1] * x[1]);
    case RegionOpId::kSigmoidBackward:
      return x[0] * (1 - x[1]) * x[1];
    case RegionOpId::kLerp: {
      const C way = x[1] - x[0];
      return std::fabs(x[2]) < C{0.5} ? x[0] + x[2] * way
                                      : x[1] - way * (1 - x[2]);
    }
    case RegionOpId::kAddcdiv:
      return x[0] + x[3] * x[1] / x[2];
    default:
      return RegionOpOf(op).arity == 1 ? UnaryFloat(op, x[0])
                                       : Arithmetic(op, x);
  }
}

// Converts what an instruction reads, and computes.
class Evaluation {
 public:
  Evaluation(const RegionCode::Instruction& from, RegionElements elements)
      : from_(from), elements_(elements) {}

  Element Run() const {
    if (from_.op->id == RegionOpId::kWhere) {
      const RegionNumber condition = Get(0);
      const bool is_true = TruthOf(condition.element, condition.dtype);
      return Converted(is_true ? 1 : 2, from_.dtype);
    }
    if (from_.op->id == RegionOpId::kCast) return Converted(0, from_.dtype);
    const DType result = from_.result_dtype();
    if (from_.dtype == DType::kF64) {
      double x[kMostRegionOperands];
      Fill(x);
      return Rounded(FloatElement(from_.op->id, x), result);
    }
    if (IsFloating(from_.dtype)) {
      float x[kMostRegionOperands];
      Fill(x);
      return Rounded(FloatElement(from_.op->id, x), result);
    }
    int64_t x[kMostRegionOperands];
    for (size_t k = 0; k < from_.operands.size(); ++k) {
      x[k] = Converted(k, from_.dtype).integer;
    }
    // The last bit of ~1 is a bool's negation.
    int64_t made = IntegerElement(from_.op->id, x);
    if (from_.op->id == RegionOpId::kNot && from_.dtype == DType::kBool) {
      made &= 1;
    }
    return Rounded(made, result);
  }

 private:
  RegionNumber Get(size_t operand) const {
    const RegionCode::Ref& ref = from_.operands[operand];
    if (ref.kind != RegionCode::Ref::Kind::kNumber) return elements_(ref);
    return {{.real = ref.number}, DType::kF64};
  }

  template <typename C>
  void Fill(C* x) const {
    for (size_t k = 0; k < from_.operands.size(); ++k) {
      const RegionNumber number = Get(k);
      x[k] = ValueOf<C>(number.element, number.dtype);
    }
  }

  Element Converted(size_t operand, DType dtype) const {
    const RegionNumber from = Get(operand);
    if (from_.operands[operand].kind == RegionCode::Ref::Kind::kNumber &&
        IsIntegral(dtype)) {
      const int64_t number = ConvertNumber<int64_t>(from.element.real);
      return {.integer = WrapTo(dtype, number)};
    }
    return ConvertedElement(from, dtype);
  }

  const RegionCode::Instruction& from_;
  RegionElements elements_;
};

}  // namespace

RegionElement ConvertedElement(const RegionNumber& from, DType dtype) {
  if (dtype == DType::kBool) {
    return {.integer = TruthOf(from.element, from.dtype)};
  }
  return IsFloating(from.dtype) ? Rounded(from.element.real, dtype)
                                : Rounded(from.element.integer, dtype);
}

RegionElement EvaluateInstruction(const RegionCode::Instruction& instruction,
                                  RegionElements elements) {
  return Evaluation(instruction, elements).Run();
}

}  // namespace mica
