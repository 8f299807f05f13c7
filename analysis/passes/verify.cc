#include "analysis/passes/verify.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/ir/control_flow.h"

namespace mica {
namespace {

template <typename... What>
absl::Status Malformed(const What&... what) {
  return absl::InternalError(absl::StrCat(what...));
}

std::string NameOf(const Program& program, ValueId id) {
  return absl::StrCat("%", program.value(id).name);
}

// Walks one block in order and knows what stands before.
class BlockVerifier {
 public:
  BlockVerifier(const Program& program, SeenFunctions& seen)
      : program_(program),
        seen_(seen),
        is_defined_(program.num_values(), false) {}

  absl::Status Run() {
    MICA_RETURN_IF_ERROR(Declarations());
    for (size_t i = 0; i < program_.ops().size(); ++i) {
      MICA_RETURN_IF_ERROR(OneOp(static_cast<OpId>(i)));
    }
    for (ValueId id = 0; id < program_.num_values(); ++id) {
      if (!is_defined_[id]) {
        return Malformed(NameOf(program_, id), " comes from nowhere");
      }
    }
    MICA_RETURN_IF_ERROR(Updates());
    for (ValueId id : program_.outputs()) {
      if (id != kNoValue && !Exists(id)) {
        return Malformed("returns value number ", id, ", which isn't there");
      }
    }
    return absl::OkStatus();
  }

 private:
  bool Exists(ValueId id) const {
    return id >= 0 && id < program_.num_values();
  }

  absl::Status Define(ValueId id, ValueKind kind, size_t index,
                      size_t result = 0) {
    if (!Exists(id)) return Malformed("no value number ", id);
    const Value& value = program_.value(id);
    if (is_defined_[id]) {
      return Malformed(NameOf(program_, id), " is defined twice");
    }
    if (value.kind != kind || value.index != static_cast<int32_t>(index) ||
        value.result != static_cast<int32_t>(result)) {
      return Malformed(NameOf(program_, id), " says that it is from elsewhere");
    }
    is_defined_[id] = true;
    return absl::OkStatus();
  }

  absl::Status Declarations() {
    for (size_t i = 0; i < program_.inputs().size(); ++i) {
      MICA_RETURN_IF_ERROR(Define(program_.inputs()[i], ValueKind::kInput, i));
    }
    for (size_t i = 0; i < program_.variables().size(); ++i) {
      MICA_RETURN_IF_ERROR(
          Define(program_.variables()[i].value, ValueKind::kVariable, i));
    }
    for (size_t i = 0; i < program_.constants().size(); ++i) {
      const Constant& constant = program_.constants()[i];
      MICA_RETURN_IF_ERROR(Define(constant.value, ValueKind::kConstant, i));
      if (program_.type(constant.value).num_bytes() !=
          static_cast<int64_t>(constant.bytes.size())) {
        return Malformed(NameOf(program_, constant.value), " is of ",
                         program_.type(constant.value).ToString(), " and has ",
                         constant.bytes.size(), " bytes");
      }
    }
    return absl::OkStatus();
  }

  absl::Status OneOp(OpId id) {
    const Op& op = program_.ops()[id];
    absl::Status status = CheckArguments(*op.def, op.arguments);
    ForEachValue(op.arguments, [&](ValueId operand) {
      if (!Exists(operand)) {
        status.Update(
            Malformed("reads value number ", operand, ", which isn't there"));
      } else if (!is_defined_[operand]) {
        status.Update(Malformed("reads ", NameOf(program_, operand),
                                ", which stands behind it"));
      }
    });
    if (status.ok()) status = Types(op);
    for (size_t i = 0; i < op.results.size(); ++i) {
      status.Update(Define(op.results[i], ValueKind::kResult, id, i));
    }
    ForEachNewBody(op, seen_, [&](const auto& body) {
      status.Update(BlockVerifier(*body, seen_).Run());
    });
    return status.ok() ? status : Annotate(status, Describe(op));
  }

  absl::Status Types(const Op& op) const {
    std::vector<TensorType> types;
    for (ValueId id : op.results) types.push_back(program_.type(id));
    if (ControlKindOf(*op.def) != ControlKind::kNone || !op.bodies.empty()) {
      return ControlTypes(op, std::move(types), program_.values()).status();
    }
    // What follows from symbols, or from data, isn't known here.
    bool is_known = !op.def->is_opaque() && !op.def->is_bounded();
    const OpCall::TypeOf type_of = [this](ValueId id) -> const TensorType& {
      return program_.type(id);
    };
    ForEachValue(op.arguments, [&](ValueId id) {
      is_known = is_known && program_.type(id).is_static();
    });
    if (!is_known || !program_.is_static()) return absl::OkStatus();
    MICA_ASSIGN_OR_RETURN(const TensorTypes inferred,
                          InferTypes(OpCall(*op.def, op.arguments, type_of)));
    if (inferred.size() != types.size()) {
      return Malformed("has ", types.size(), " results instead of ",
                       inferred.size());
    }
    for (size_t i = 0; i < types.size(); ++i) {
      const bool agrees = op.def->is_view() ? inferred[i] == types[i]
                                            : SameShape(inferred[i], types[i]);
      if (!agrees) {
        return Malformed("result is ", inferred[i].ToString(),
                         ", but the program says ", types[i].ToString());
      }
    }
    return absl::OkStatus();
  }

  absl::Status Updates() const {
    std::vector<bool> is_updated(program_.num_values(), false);
    for (const Update& update : program_.updates()) {
      if (!Exists(update.target) || !Exists(update.value)) {
        return Malformed("updates a value that isn't there");
      }
      const Value& target = program_.value(update.target);
      if (target.kind != ValueKind::kInput &&
          target.kind != ValueKind::kVariable) {
        return Malformed("updates ", NameOf(program_, update.target),
                         ", neither an input nor a variable");
      }
      if (is_updated[update.target] ||
          !SameShape(*target.type, program_.type(update.value))) {
        return Malformed("updates ", NameOf(program_, update.target),
                         " twice, or with a value of another type");
      }
      is_updated[update.target] = true;
    }
    return absl::OkStatus();
  }

  const Program& program_;
  SeenFunctions& seen_;
  std::vector<bool> is_defined_;
};

}  // namespace

absl::Status Verify(const Program& program) {
  SeenFunctions seen;
  return BlockVerifier(program, seen).Run();
}

}  // namespace mica
