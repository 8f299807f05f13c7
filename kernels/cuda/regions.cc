// Elementwise operators merged into one.

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "framework/op/region_code.h"
#include "glog/logging.h"
#include "kernels/cuda/element_kernel.h"
#include "kernels/cuda/families.h"
#include "kernels/cuda/source.h"

namespace mica::cuda {
namespace {

// Expressions of $0, $1, …, in `number`, the type that is computed in.
absl::string_view ExpressionOf(RegionOpId op) {
  switch (op) {
    case RegionOpId::kCast:
      return "$0";
    case RegionOpId::kNeg:
      return "-$0";
    case RegionOpId::kAbs:
      return "magnitude($0)";
    case RegionOpId::kSign:
      return "(number)($0 > 0) - (number)($0 < 0)";
    case RegionOpId::kRelu:
      return "larger($0, (number)0)";
    case RegionOpId::kSquare:
      return "$0 * $0";
    case RegionOpId::kCube:
      return "$0 * $0 * $0";
    case RegionOpId::kNot:
      return "inverted($0)";
    case RegionOpId::kFloor:
      return "floor($0)";
    case RegionOpId::kCeil:
      return "ceil($0)";
    case RegionOpId::kTrunc:
      return "trunc($0)";
    case RegionOpId::kRound:
      return "rint($0)";
    case RegionOpId::kReciprocal:
      return "1 / $0";
    case RegionOpId::kSqrt:
      return "sqrt($0)";
    case RegionOpId::kRsqrt:
      return "1 / sqrt($0)";
    case RegionOpId::kExp:
      return "exp($0)";
    case RegionOpId::kExp2:
      return "exp2($0)";
    case RegionOpId::kExpm1:
      return "expm1($0)";
    case RegionOpId::kLog:
      return "log($0)";
    case RegionOpId::kLog2:
      return "log2($0)";
    case RegionOpId::kLog10:
      return "log10($0)";
    case RegionOpId::kLog1p:
      return "log1p($0)";
    case RegionOpId::kSin:
      return "sin($0)";
    case RegionOpId::kCos:
      return "cos($0)";
    case RegionOpId::kTan:
      return "tan($0)";
    case RegionOpId::kAsin:
      return "asin($0)";
    case RegionOpId::kAcos:
      return "acos($0)";
    case RegionOpId::kAtan:
      return "atan($0)";
    case RegionOpId::kSinh:
      return "sinh($0)";
    case RegionOpId::kCosh:
      return "cosh($0)";
    case RegionOpId::kTanh:
      return "tanh($0)";
    case RegionOpId::kAsinh:
      return "asinh($0)";
    case RegionOpId::kAcosh:
      return "acosh($0)";
    case RegionOpId::kAtanh:
      return "atanh($0)";
    case RegionOpId::kErf:
      return "erf($0)";
    case RegionOpId::kErfc:
      return "erfc($0)";
    case RegionOpId::kErfinv:
      return "(number)erfinv($0)";
    case RegionOpId::kLgamma:
      return "lgamma($0)";
    case RegionOpId::kDigamma:
      return "(number)digamma($0)";
    case RegionOpId::kSigmoid:
      return "sigmoid($0)";
    case RegionOpId::kSilu:
      return "$0 / (1 + exp(-$0))";
    case RegionOpId::kGelu:
      return "gelu_erf($0)";
    case RegionOpId::kGeluTanh:
      return "gelu_tanh($0)";
    case RegionOpId::kAdd:
      return "$0 + $1";
    case RegionOpId::kSub:
      return "$0 - $1";
    case RegionOpId::kMul:
      return "$0 * $1";
    case RegionOpId::kDiv:
      return "$0 / $1";
    case RegionOpId::kMaximum:
      return "larger($0, $1)";
    case RegionOpId::kMinimum:
      return "smaller($0, $1)";
    case RegionOpId::kFmax:
      return "fmax($0, $1)";
    case RegionOpId::kFmin:
      return "fmin($0, $1)";
    case RegionOpId::kPow:
      return "pow($0, $1)";
    case RegionOpId::kAtan2:
      return "atan2($0, $1)";
    case RegionOpId::kHypot:
      return "hypot($0, $1)";
    case RegionOpId::kFmod:
      return "fmod($0, $1)";
    case RegionOpId::kRemainder:
      return "floored_remainder($0, $1)";
    case RegionOpId::kFloorDiv:
      return "floored_quotient($0, $1)";
    case RegionOpId::kCopysign:
      return "copysign($0, $1)";
    case RegionOpId::kAnd:
      return "$0 & $1";
    case RegionOpId::kOr:
      return "$0 | $1";
    case RegionOpId::kXor:
      return "$0 ^ $1";
    case RegionOpId::kTanhBackward:
      return "$0 * (1 - $1 * $1)";
    case RegionOpId::kSigmoidBackward:
      return "$0 * (1 - $1) * $1";
    case RegionOpId::kLt:
      return "$0 < $1";
    case RegionOpId::kLe:
      return "$0 <= $1";
    case RegionOpId::kGt:
      return "$0 > $1";
    case RegionOpId::kGe:
      return "$0 >= $1";
    case RegionOpId::kEq:
      return "$0 == $1";
    case RegionOpId::kNe:
      return "$0 != $1";
    case RegionOpId::kWhere:
      return "$0 ? $1 : $2";
    case RegionOpId::kAddScaled:
      return "$0 + $2 * $1";
    case RegionOpId::kSubScaled:
      return "$0 - $2 * $1";
    case RegionOpId::kLerp:
      return "lerp($0, $1, $2)";
    case RegionOpId::kAddcmul:
      return "$0 + $3 * $1 * $2";
    case RegionOpId::kAddcdiv:
      return "$0 + $3 * $1 / $2";
  }
  return "";
}

// The element that a reference names, as a number of `dtype`.
std::string RefCode(const RegionCode::Ref& ref, DType dtype) {
  using Kind = RegionCode::Ref::Kind;
  if (ref.kind == Kind::kNumber && dtype != DType::kBool) {
    return Literal(dtype, ref.number);
  }
  const std::string value =
      ref.kind == Kind::kOperand       ? absl::StrCat("x", ref.index)
      : ref.kind == Kind::kInstruction ? absl::StrCat("t", ref.index)
                                       : (ref.number != 0 ? "true" : "false");
  if (dtype == DType::kBool) return absl::StrCat("(", value, " != 0)");
  if (IsFloating(dtype)) {
    return absl::StrCat("((", NumberName(dtype), ")", value, ")");
  }
  return absl::StrCat("((long long)put<", ElementName(dtype),
                      ">(put<long long>(", value, ")))");
}

std::string BodyOf(const RegionCode& code) {
  std::string body;
  for (size_t i = 0; i < code.instructions.size(); ++i) {
    const RegionCode::Instruction& instruction = code.instructions[i];
    std::vector<std::pair<std::string, std::string>> names = {
        {"number", std::string(NumberName(ComputeDType(instruction.dtype)))}};
    for (size_t k = 0; k < instruction.operands.size(); ++k) {
      names.emplace_back(
          absl::StrCat("$", k),
          RefCode(instruction.operands[k],
                  instruction.operand_dtype(static_cast<int>(k))));
    }
    absl::StrAppend(
        &body, "    const auto t", i, " = get(put<",
        ElementName(instruction.result_dtype()), ">(",
        absl::StrReplaceAll(ExpressionOf(instruction.op->id), names), "));\n");
  }
  return body;
}

Verdict PrepareRegion(const Target& target, const KernelRequest& request) {
  const auto code = RegionCode::Parse(request.String(1));
  CHECK(code.ok()) << code.status();  // Inference has parsed it.
  ElementLoop loop{.compute = request.results[0].type.dtype,
                   .keeps_types = true,
                   .dims = request.results[0].type.dims};
  loop.body = BodyOf(*code);
  for (size_t i = 0; i < request.operands.size(); ++i) {
    loop.inputs.push_back(
        ArrayOf(OperandLane(request, 0, static_cast<int>(i)), loop.dims));
  }
  for (size_t r = 0; r < request.results.size(); ++r) {
    if (!request.results[r].is_used) continue;
    loop.outputs.push_back(
        ArrayOf(ResultLane(request, static_cast<int>(r)), loop.dims));
    loop.results.push_back(absl::StrCat("t", code->results[r]));
  }
  return PrepareElements(target, request, loop);
}

}  // namespace

void RegisterRegions(const Kernels& kernels) {
  kernels.Add("mica.elementwise", kRealDTypes, PrepareRegion);
}

}  // namespace mica::cuda
