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

struct Instruction {
  absl::string_view name, expression;  // Of $0, $1, …
};

constexpr Instruction kInstructions[] = {
    {"neg", "-$0"},
    {"abs", "magnitude($0)"},
    {"relu", "larger($0, (number)0)"},
    {"square", "$0 * $0"},
    {"cube", "$0 * $0 * $0"},
    {"reciprocal", "1 / $0"},
    {"sqrt", "sqrt($0)"},
    {"rsqrt", "1 / sqrt($0)"},
    {"exp", "exp($0)"},
    {"tanh", "tanh($0)"},
    {"sigmoid", "sigmoid($0)"},
    {"silu", "$0 / (1 + exp(-$0))"},
    {"add", "$0 + $1"},
    {"sub", "$0 - $1"},
    {"mul", "$0 * $1"},
    {"div", "$0 / $1"},
    {"maximum", "larger($0, $1)"},
    {"minimum", "smaller($0, $1)"},
    {"add_scaled", "$0 + $2 * $1"},
    {"sub_scaled", "$0 - $2 * $1"},
    {"lerp", "lerp($0, $1, $2)"},
    {"tanh_backward", "$0 * (1 - $1 * $1)"},
    {"addcmul", "$0 + $3 * $1 * $2"},
    {"addcdiv", "$0 + $3 * $1 / $2"},
};

absl::string_view ExpressionOf(absl::string_view name) {
  for (const Instruction& instruction : kInstructions) {
    if (instruction.name == name) return instruction.expression;
  }
  LOG(FATAL) << "no expression for " << name;
  return "";
}

std::string RefCode(const RegionCode::Ref& ref, DType compute) {
  using Kind = RegionCode::Ref::Kind;
  switch (ref.kind) {
    case Kind::kOperand:
      return absl::StrCat("x", ref.index);
    case Kind::kInstruction:
      return absl::StrCat("t", ref.index);
    case Kind::kNumber:
      break;
  }
  return Literal(compute, ref.number);
}

std::string BodyOf(const RegionCode& code, DType compute) {
  std::string body;
  for (size_t i = 0; i < code.instructions.size(); ++i) {
    const RegionCode::Instruction& instruction = code.instructions[i];
    std::vector<std::pair<std::string, std::string>> names;
    for (size_t k = 0; k < instruction.operands.size(); ++k) {
      names.emplace_back(absl::StrCat("$", k),
                         RefCode(instruction.operands[k], compute));
    }
    absl::StrAppend(
        &body, "    const number t", i, " = ",
        absl::StrReplaceAll(ExpressionOf(instruction.op->name), names), ";\n");
  }
  return body;
}

Verdict PrepareRegion(const Target& target, const KernelRequest& request) {
  const auto code = RegionCode::Parse(request.String(1));
  CHECK(code.ok()) << code.status();  // Inference has parsed it.
  ElementLoop loop{.compute = request.results[0].type.dtype,
                   .dims = request.results[0].type.dims};
  loop.body = BodyOf(*code, loop.compute);
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
  kernels.Add("mica.elementwise", kFloats, PrepareRegion);
}

}  // namespace mica::cuda
