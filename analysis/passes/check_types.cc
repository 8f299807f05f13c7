#include "analysis/passes/check_types.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/ir/control_flow.h"

namespace mica {
namespace {

// A value with its type and what makes it: "f32[2] by aten.relu (m.py:3)".
std::string TypeAndMaker(const Program& program, ValueId id) {
  if (id == kNoValue) return "absent";
  const Value& value = program.value(id);
  const std::string type = value.type->ToString();
  switch (value.kind) {
    case ValueKind::kResult:
      return absl::StrCat(type, " by ", Describe(program.ops()[value.index]));
    case ValueKind::kInput:
      return absl::StrCat(type, ", the input %", value.name);
    case ValueKind::kVariable:
      return absl::StrCat(type, ", variable \"",
                          program.variables()[value.index].name, "\"");
    case ValueKind::kConstant:
      return absl::StrCat(type, ", the constant %", value.name);
  }
  return type;
}

// The first that reads a value: "aten.add.Tensor (m.py:7) reads it".
std::string FirstReader(const Program& program, ValueId value) {
  for (const Op& op : program.ops()) {
    bool reads = false;
    ForEachValue(op.arguments,
                 [&](ValueId id) { reads = reads || id == value; });
    if (reads) return absl::StrCat(Describe(op), " reads it");
  }
  for (const Update& update : program.updates()) {
    if (update.value == value) {
      return absl::StrCat("%", program.value(update.target).name,
                          " is updated with it");
    }
  }
  for (ValueId id : program.outputs()) {
    if (id == value) return "it is returned";
  }
  return "a later round reads it";
}

absl::Status Mismatch(const Program& program, const Op& op, size_t result,
                      const std::string& first, const std::string& second) {
  const ValueId id = op.results[result];
  return absl::InvalidArgumentError(absl::StrCat(
      Describe(op), ": %", program.value(id).name, " is ", first, ", but ",
      second, ", and ", FirstReader(program, id),
      "; kernels are chosen before a run, so dtype, dims and layout must be "
      "the same"));
}

absl::Status CheckIf(const Program& program, const Op& op) {
  const Program& then = *op.bodies[0];
  const Program& other = *op.bodies[1];
  for (size_t i = 0; i < op.results.size(); ++i) {
    const ValueId a = then.outputs()[i];
    const ValueId b = other.outputs()[i];
    const bool fits = a != kNoValue && b != kNoValue &&
                      then.type(a) == other.type(b) &&
                      OwnedType(then.type(a)) == program.type(op.results[i]);
    if (fits) continue;
    return Mismatch(program, op, i,
                    absl::StrCat("in 'then' ", TypeAndMaker(then, a)),
                    absl::StrCat("in 'else' ", TypeAndMaker(other, b)));
  }
  return absl::OkStatus();
}

absl::Status CheckWhile(const Program& program, const Op& op) {
  const Program& body = *op.bodies[1];
  const std::vector<ValueId> operands = BodyOperands(op);
  for (size_t i = 0; i < op.results.size(); ++i) {
    const ValueId next = body.outputs()[i];
    const TensorType& carried = body.type(body.inputs()[i]);
    if (next != kNoValue && body.type(next) == carried) continue;
    std::string first =
        absl::StrCat("at first ", TypeAndMaker(program, operands[i]));
    if (!(program.type(operands[i]) == carried)) {
      absl::StrAppend(&first, ", carried as ", carried.ToString());
    }
    return Mismatch(program, op, i, first,
                    absl::StrCat("after a round ", TypeAndMaker(body, next)));
  }
  return absl::OkStatus();
}

absl::Status CheckBlock(const Program& program, SeenFunctions& seen) {
  if (program.depth() == 0) return absl::OkStatus();
  for (const Op& op : program.ops()) {
    if (op.bodies.empty()) continue;
    const ControlKind kind = ControlKindOf(*op.def);
    if (kind == ControlKind::kIf) MICA_RETURN_IF_ERROR(CheckIf(program, op));
    if (kind == ControlKind::kWhile) {
      MICA_RETURN_IF_ERROR(CheckWhile(program, op));
    }
    absl::Status status;
    ForEachNewBody(op, seen, [&](const auto& body) {
      if (status.ok()) status = CheckBlock(*body, seen);
    });
    MICA_RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckControlFlow(const Program& program) {
  SeenFunctions seen;
  return CheckBlock(program, seen);
}

}  // namespace mica
