// Operators whose results have an element for each of their operands'.

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "kernels/cuda/element_kernel.h"
#include "kernels/cuda/families.h"
#include "kernels/cuda/source.h"
#include "kernels/reference/pointwise.h"

namespace mica::cuda {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// What an operator computes: an expression of $0, $1, …, which stand for the
// numbers given for `params`, in their order.
struct Element {
  std::vector<int> params;
  std::string expression;
  ComputeIn compute = ComputeIn::kResult;
  // For absent operands.
  std::vector<double> none_values = {};
  // Position of an integer divisor, 0 as which is an error; -1: none.
  int divisor = -1;
};

// A constant argument as a number of the computation.
std::string ConstantOf(const KernelRequest& request, int param, double none,
                       DType compute) {
  const Argument& argument = (*request.arguments)[param];
  if (IsNone(argument)) return Literal(compute, none);
  if (compute == DType::kBool) {
    return request.Number(param) != 0 ? "(number)1" : "(number)0";
  }
  const auto* integer = std::get_if<int64_t>(&argument);
  if (integer != nullptr && !IsFloating(compute)) {
    return IntegerLiteral(*integer);
  }
  return Literal(compute, request.Number(param));
}

bool IsValue(const KernelRequest& request, int param) {
  return std::holds_alternative<ValueRef>((*request.arguments)[param]);
}

// Whether an integer divisor may be 0, of which a device can't tell in time.
bool MayDivideByZero(const KernelRequest& request, const Element& element,
                     DType compute) {
  if (element.divisor < 0 || IsFloating(compute)) return false;
  const int param = element.params[element.divisor];
  return IsValue(request, param) || request.Number(param) == 0;
}

Verdict PrepareElement(const Target& target, const KernelRequest& request,
                       const Element& element) {
  if (!request.results[0].is_used) return PrepareCalls({});
  const Lane out = ResultLane(request);
  ElementLoop loop{
      .compute = ComputeDType(request, element.params, element.compute),
      .dims = out.dims,
      .outputs = {ArrayOf(out, out.dims)}};
  if (MayDivideByZero(request, element, loop.compute)) {
    return No{"an integer divisor may be 0"};
  }
  std::vector<std::pair<std::string, std::string>> names;
  for (size_t i = 0; i < element.params.size(); ++i) {
    const int param = element.params[i];
    const std::string name = absl::StrCat("$", i);
    if (IsValue(request, param)) {
      names.emplace_back(name, absl::StrCat("x", loop.inputs.size()));
      loop.inputs.push_back(ArrayOf(OperandLane(request, param), out.dims));
    } else {
      const double none =
          i < element.none_values.size() ? element.none_values[i] : 0;
      names.emplace_back(name, ConstantOf(request, param, none, loop.compute));
    }
  }
  loop.results = {absl::StrReplaceAll(element.expression, names)};
  return PrepareElements(target, request, loop);
}

void Add(const Kernels& kernels, absl::string_view op, Element element) {
  kernels.Add(op, kReals,
              PrepareFn([target = kernels.target, element = std::move(element)](
                            const KernelRequest& request) {
                return PrepareElement(target, request, element);
              }));
}

void AddOne(const Kernels& kernels, absl::string_view name,
            absl::string_view expression) {
  Add(kernels, absl::StrCat("aten.", name), {{0}, std::string(expression)});
}

void RegisterReal(const Kernels& kernels) {
  for (const char* name :
       {"exp",  "expm1", "exp2",  "log",   "log1p", "log2", "log10",  "sqrt",
        "sin",  "cos",   "tan",   "asin",  "acos",  "atan", "sinh",   "cosh",
        "tanh", "asinh", "acosh", "atanh", "erf",   "erfc", "sigmoid"}) {
    AddOne(kernels, name, absl::StrCat(name, "($0)"));
  }
  AddOne(kernels, "rsqrt", "1 / sqrt($0)");
  AddOne(kernels, "reciprocal", "1 / $0");
  AddOne(kernels, "floor", "floor_of($0)");
  AddOne(kernels, "ceil", "ceil_of($0)");
  AddOne(kernels, "trunc", "trunc_of($0)");
  AddOne(kernels, "round", "round_of($0)");
  AddOne(kernels, "frac", "$0 - trunc_of($0)");
  AddOne(kernels, "neg", "-$0");
  AddOne(kernels, "abs", "magnitude($0)");
  AddOne(kernels, "sign", "($0 > 0) - ($0 < 0)");
  AddOne(kernels, "sgn", "($0 > 0) - ($0 < 0)");
  AddOne(kernels, "square", "$0 * $0");
  for (const auto& [name, expression] :
       {std::pair("isnan", "is_nan($0)"),
        std::pair("isinf", "isinf((double)$0)"),
        std::pair("isfinite", "isfinite((double)$0)"),
        std::pair("signbit", "signbit((double)$0)"),
        std::pair("logical_not", "$0 == 0")}) {
    Add(kernels, absl::StrCat("aten.", name),
        {{0}, expression, ComputeIn::kOperands});
  }
  Add(kernels, "aten.logit",
      {.params = {0, 1},
       .expression =
           "log(($1 >= 0 ? ($0 < $1 ? $1 : $0 > 1 - $1 ? 1 - $1 : $0) : $0) / "
           "(1 - ($1 >= 0 ? ($0 < $1 ? $1 : $0 > 1 - $1 ? 1 - $1 : $0) : $0)))",
       .none_values = {0, -1}});
}

void RegisterArithmetic(const Kernels& kernels) {
  for (const char* kind : {".Tensor", ".Scalar"}) {
    Add(kernels, absl::StrCat("aten.add", kind), {{0, 1, 2}, "$0 + $2 * $1"});
    Add(kernels, absl::StrCat("aten.sub", kind), {{0, 1, 2}, "$0 - $2 * $1"});
    Add(kernels, absl::StrCat("aten.rsub", kind), {{0, 1, 2}, "$1 - $2 * $0"});
    Add(kernels, absl::StrCat("aten.mul", kind), {{0, 1}, "$0 * $1"});
    Add(kernels, absl::StrCat("aten.div", kind), {{0, 1}, "quotient($0, $1)"});
    Add(kernels, absl::StrCat("aten.lerp", kind),
        {{0, 1, 2}, "lerp($0, $1, $2)"});
    Add(kernels, absl::StrCat("aten.remainder", kind),
        {.params = {0, 1},
         .expression = "floored_remainder($0, $1)",
         .divisor = 1});
    Add(kernels, absl::StrCat("aten.fmod", kind),
        {.params = {0, 1},
         .expression = "truncated_remainder($0, $1)",
         .divisor = 1});
  }
  for (const char* op : {"aten.floor_divide", "aten.floor_divide.Scalar"}) {
    Add(kernels, op,
        {.params = {0, 1},
         .expression = "floored_quotient($0, $1)",
         .divisor = 1});
  }
  Add(kernels, "aten.remainder.Scalar_Tensor",
      {.params = {0, 1},
       .expression = "floored_remainder($0, $1)",
       .divisor = 1});
  Add(kernels, "aten.addcmul", {{0, 1, 2, 3}, "$0 + $3 * $1 * $2"});
  Add(kernels, "aten.addcdiv", {{0, 1, 2, 3}, "$0 + quotient($3 * $1, $2)"});
  Add(kernels, "aten.pow.Tensor_Scalar", {{0, 1}, "power_of($0, $1)"});
  Add(kernels, "aten.pow.Tensor_Tensor", {{0, 1}, "power($0, $1)"});
  Add(kernels, "aten.pow.Scalar", {{0, 1}, "power($0, $1)"});
  Add(kernels, "aten.atan2", {{0, 1}, "atan2($0, $1)"});
  Add(kernels, "aten.hypot", {{0, 1}, "hypot($0, $1)"});
  Add(kernels, "aten.copysign.Tensor", {{0, 1}, "copysign($0, $1)"});
  Add(kernels, "aten.logaddexp", {{0, 1}, "log_add_exp($0, $1)"});
  Add(kernels, "aten.xlogy.Tensor",
      {{0, 1}, "$0 == 0 && !is_nan($1) ? 0 : $0 * log($1)"});
}

void RegisterQuotientsWithMode(const Kernels& kernels) {
  for (const char* op : {"aten.div.Tensor_mode", "aten.div.Scalar_mode"}) {
    kernels.Add(
        op, kReals,
        PrepareFn([target = kernels.target](const KernelRequest& request) {
          if (!request.Has(2)) {
            return PrepareElement(target, request,
                                  {{0, 1}, "quotient($0, $1)"});
          }
          return PrepareElement(
              target, request,
              {.params = {0, 1},
               .expression = request.String(2) == "floor"
                                 ? "floored_quotient($0, $1)"
                                 : "truncated_quotient($0, $1)",
               .divisor = 1});
        }));
  }
}

void RegisterExtremes(const Kernels& kernels) {
  for (const char* op :
       {"aten.maximum", "aten.clamp_min", "aten.clamp_min.Tensor"}) {
    Add(kernels, op, {{0, 1}, "larger($0, $1)"});
  }
  for (const char* op :
       {"aten.minimum", "aten.clamp_max", "aten.clamp_max.Tensor"}) {
    Add(kernels, op, {{0, 1}, "smaller($0, $1)"});
  }
  Add(kernels, "aten.fmax", {{0, 1}, "is_nan($1) ? $0 : $0 >= $1 ? $0 : $1"});
  Add(kernels, "aten.fmin", {{0, 1}, "is_nan($1) ? $0 : $0 <= $1 ? $0 : $1"});
  for (const char* op : {"aten.clamp", "aten.clamp.Tensor"}) {
    Add(kernels, op,
        {.params = {0, 1, 2},
         .expression = "smaller(larger($0, $1), $2)",
         .none_values = {0, -kInfinity, kInfinity}});
  }
}

void RegisterLogic(const Kernels& kernels) {
  for (const auto& [name, sign] :
       {std::pair("eq", "=="), std::pair("ne", "!="), std::pair("lt", "<"),
        std::pair("le", "<="), std::pair("gt", ">"), std::pair("ge", ">=")}) {
    for (const char* kind : {".Tensor", ".Scalar"}) {
      Add(kernels, absl::StrCat("aten.", name, kind),
          {{0, 1}, absl::StrCat("$0 ", sign, " $1"), ComputeIn::kOperands});
    }
  }
  for (const auto& [name, sign] :
       {std::pair("and", "&&"), std::pair("or", "||"),
        std::pair("xor", "!=")}) {
    Add(kernels, absl::StrCat("aten.logical_", name),
        {{0, 1},
         absl::StrCat("($0 != 0) ", sign, " ($1 != 0)"),
         ComputeIn::kOperands});
  }
  for (const auto& [name, sign] :
       {std::pair("and", "&"), std::pair("or", "|"), std::pair("xor", "^")}) {
    for (const char* kind : {".Tensor", ".Scalar"}) {
      Add(kernels, absl::StrCat("aten.bitwise_", name, kind),
          {{0, 1}, absl::StrCat("bits_of($0) ", sign, " bits_of($1)")});
    }
  }
  for (const char* kind : {".Tensor", ".Tensor_Scalar"}) {
    Add(kernels, absl::StrCat("aten.bitwise_left_shift", kind),
        {{0, 1}, "shifted_left(bits_of($0), bits_of($1))"});
    Add(kernels, absl::StrCat("aten.bitwise_right_shift", kind),
        {{0, 1}, "shifted_right(bits_of($0), bits_of($1))"});
  }
  kernels.Add(
      "aten.bitwise_not", kReals,
      PrepareFn([target = kernels.target](const KernelRequest& request) {
        const bool is_bool = request.results[0].type.dtype == DType::kBool;
        return PrepareElement(target, request,
                              {{0}, is_bool ? "$0 == 0" : "~bits_of($0)"});
      }));
}

void RegisterChoicesAndCopies(const Kernels& kernels) {
  for (const char* op : {"aten.where.self", "aten.where.ScalarOther",
                         "aten.where.ScalarSelf", "aten.where.Scalar"}) {
    Add(kernels, op, {{0, 1, 2}, "$0 != 0 ? $1 : $2"});
  }
  for (const char* op :
       {"aten.masked_fill.Scalar", "aten.masked_fill.Tensor"}) {
    Add(kernels, op, {{1, 2, 0}, "$0 != 0 ? $1 : $2"});
  }
  for (const char* op : {"aten._to_copy", "aten.clone", "aten.lift_fresh_copy",
                         "aten._local_scalar_dense"}) {
    Add(kernels, op, {{0}, "$0"});
  }
  for (const char* op : {"aten.copy", "aten.fill.Scalar", "aten.fill.Tensor"}) {
    Add(kernels, op, {{1}, "$0"});
  }
}

void RegisterActivations(const Kernels& kernels) {
  AddOne(kernels, "relu", "$0 < 0 ? 0 : $0");
  AddOne(kernels, "hardsigmoid", "relu6($0 + 3) / 6");
  AddOne(kernels, "hardswish", "$0 * relu6($0 + 3) / 6");
  AddOne(kernels, "silu", "$0 * sigmoid($0)");
  AddOne(kernels, "mish", "$0 * tanh(log1p(exp($0)))");
  for (const char* op : {"aten.leaky_relu", "aten._prelu_kernel"}) {
    Add(kernels, op, {{0, 1}, "$0 > 0 ? $0 : $0 * $1"});
  }
  Add(kernels, "aten.threshold", {{0, 1, 2}, "$0 <= $1 ? $2 : $0"});
  Add(kernels, "aten.hardtanh", {{0, 1, 2}, "smaller(larger($0, $1), $2)"});
  Add(kernels, "aten.hardshrink",
      {{0, 1}, "$0 >= -$1 && $0 <= $1 ? $0 - $0 : $0"});
  Add(kernels, "aten.softshrink",
      {{0, 1}, "$0 > $1 ? $0 - $1 : $0 < -$1 ? $0 + $1 : $0 * 0"});
  Add(kernels, "aten.elu",
      {{0, 1, 2, 3}, "$0 > 0 ? $0 * $2 : expm1($0 * $3) * $1 * $2"});
  Add(kernels, "aten.celu", {{0, 1}, "$0 > 0 ? $0 : $1 * expm1($0 / $1)"});
  Add(kernels, "aten.softplus",
      {{0, 1, 2}, "$0 * $1 > $2 ? $0 : log1p(exp($0 * $1)) / $1"});
  kernels.Add(
      "aten.gelu", kFloats,
      PrepareFn([target = kernels.target](const KernelRequest& request) {
        const bool is_tanh = request.String(1) == "tanh";
        return PrepareElement(
            target, request, {{0}, is_tanh ? "gelu_tanh($0)" : "gelu_erf($0)"});
      }));
}

constexpr absl::string_view kGeluErfBackward =
    "$0 * ((1 + erf($1 * (number)0.70710678118654752440)) / 2 + $1 * exp(-$1 * "
    "$1 / 2) * (number)0.39894228040143267794)";
// The derivative of gelu_tanh, by the product rule.
constexpr absl::string_view kGeluTanhBackward =
    "$0 * ((1 + tanh((number)0.79788456080286535588 * ($1 + (number)0.044715 * "
    "$1 * $1 * $1))) / 2 + $1 / 2 * (1 - tanh((number)0.79788456080286535588 * "
    "($1 + (number)0.044715 * $1 * $1 * $1)) * "
    "tanh((number)0.79788456080286535588 * ($1 + (number)0.044715 * $1 * $1 * "
    "$1))) * (number)0.79788456080286535588 * (1 + 3 * (number)0.044715 * $1 * "
    "$1))";

void RegisterActivationsBackward(const Kernels& kernels) {
  Add(kernels, "aten.threshold_backward", {{0, 1, 2}, "$1 <= $2 ? 0 : $0"});
  Add(kernels, "aten.hardtanh_backward",
      {{0, 1, 2, 3}, "$1 <= $2 || $1 >= $3 ? 0 : $0"});
  Add(kernels, "aten.leaky_relu_backward",
      {{0, 1, 2}, "$1 > 0 ? $0 : $0 * $2"});
  Add(kernels, "aten.hardswish_backward",
      {{0, 1}, "$1 <= -3 ? 0 : $1 < 3 ? $0 * ($1 / 3 + (number)0.5) : $0"});
  Add(kernels, "aten.hardsigmoid_backward",
      {{0, 1}, "$1 > -3 && $1 < 3 ? $0 / 6 : 0"});
  for (const char* op :
       {"aten.hardshrink_backward", "aten.softshrink_backward"}) {
    Add(kernels, op, {{0, 1, 2}, "$1 >= -$2 && $1 <= $2 ? 0 : $0"});
  }
  Add(kernels, "aten.sigmoid_backward", {{0, 1}, "$0 * ((1 - $1) * $1)"});
  Add(kernels, "aten.tanh_backward", {{0, 1}, "$0 * (1 - $1 * $1)"});
  Add(kernels, "aten.silu_backward",
      {{0, 1}, "$0 * (sigmoid($1) * (1 + $1 * (1 - sigmoid($1))))"});
  Add(kernels, "aten.mish_backward",
      {{0, 1},
       "$0 * (tanh(log1p(exp($1))) + $1 * sigmoid($1) * (1 - "
       "tanh(log1p(exp($1))) * tanh(log1p(exp($1)))))"});
  Add(kernels, "aten.elu_backward",
      {{0, 1, 2, 3, 4, 5},
       "!($5 <= 0) ? $0 * $2 : $4 != 0 ? $0 * $3 * ($5 + $1 * $2) : $0 * $3 * "
       "($1 * $2) * exp($5 * $3)"});
  Add(kernels, "aten.softplus_backward",
      {{0, 1, 2, 3}, "$1 * $2 > $3 ? $0 : $0 * sigmoid($1 * $2)"});
  Add(kernels, "aten.log_sigmoid_backward",
      {{0, 1, 2}, "$0 * ($1 < 0 ? 1 - $2 / (1 + $2) : $2 / (1 + $2))"});
  Add(kernels, "aten.native_dropout_backward", {{0, 1, 2}, "$0 * $1 * $2"});
  kernels.Add(
      "aten.gelu_backward", kFloats,
      PrepareFn([target = kernels.target](const KernelRequest& request) {
        const bool is_tanh = request.String(2) == "tanh";
        return PrepareElement(
            target, request,
            {{0, 1},
             std::string(is_tanh ? kGeluTanhBackward : kGeluErfBackward)});
      }));
}

}  // namespace

void RegisterElements(const Kernels& kernels) {
  RegisterReal(kernels);
  RegisterArithmetic(kernels);
  RegisterQuotientsWithMode(kernels);
  RegisterExtremes(kernels);
  RegisterLogic(kernels);
  RegisterChoicesAndCopies(kernels);
  RegisterActivations(kernels);
  RegisterActivationsBackward(kernels);
}

}  // namespace mica::cuda
