#include "analysis/plan/plan_structure.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"
#include "analysis/passes/check_types.h"
#include "analysis/passes/origins.h"
#include "analysis/passes/verify.h"
#include "framework/base/status.h"
#include "framework/ir/content.h"
#include "framework/ir/control_flow.h"
#include "framework/ir/program_editor.h"

namespace mica {
namespace {

// Calls `visit(kind, number)` for each of these that may be left open.
template <typename Sizes, typename Visit>
void VisitSizes(SizeKind kind, Sizes& sizes, const Visit& visit) {
  for (auto& size : sizes) {
    if (size >= 2) visit(kind, size);
  }
}

template <typename Type, typename Visit>
void VisitType(Type& type, const Visit& visit) {
  VisitSizes(SizeKind::kDim, type.dims, visit);
  VisitSizes(SizeKind::kStride, type.strides, visit);
}

template <typename Args, typename Visit>
void VisitArguments(const OpDef& def, Args& arguments, const Visit& visit) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!def.schema().params[i].is_size) continue;
    if (auto* size = std::get_if<int64_t>(&arguments[i])) {
      if (*size >= 2) visit(SizeKind::kNumber, *size);
    } else if (auto* list = std::get_if<std::vector<int64_t>>(&arguments[i])) {
      VisitSizes(SizeKind::kDim, *list, visit);
    }
  }
}

// Calls `visit(kind, number)` for each that StructureOf() may leave open, of a
// function and of a type once.
template <typename Visit>
void ForEachSize(const Program& program, const Visit& visit,
                 SeenFunctions& seen) {
  absl::flat_hash_set<const TensorType*> types;
  for (const Value& value : program.values()) {
    if (types.insert(value.type).second) VisitType(*value.type, visit);
  }
  for (const Op& op : program.ops()) {
    VisitArguments(*op.def, op.arguments, visit);
    if (op.bodies.empty()) continue;
    ForEachNewBody(op, seen,
                   [&](const auto& body) { ForEachSize(*body, visit, seen); });
  }
}
template <typename Visit>
void ForEachSize(const Program& program, const Visit& visit) {
  SeenFunctions seen;
  ForEachSize(program, visit, seen);
}

// Sets each of them to `map(kind, number)`.
template <typename Map>
void MapSizes(ProgramEditor& program, const Map& map) {
  const auto visit = [&](SizeKind kind, int64_t& size) {
    size = map(kind, size);
  };
  program.ForEachBlock([&](ProgramEditor& block) {
    block.MapTypes([&](TensorType type) {
      VisitType(type, visit);
      return type;
    });
    for (OpId id = 0; id < block.num_ops(); ++id) {
      VisitArguments(*block.program().ops()[id].def, block.arguments(id),
                     visit);
    }
  });
}

// Whether there are constants in it, in bodies too.
bool HasConstants(const Program& program) {
  if (!program.constants().empty()) return true;
  return absl::c_any_of(program.ops(), [](const Op& op) {
    return absl::c_any_of(op.bodies,
                          [](const auto& body) { return HasConstants(*body); });
  });
}

// Gives `program` the constants of `from`, bodies too; `origins` are the ops of
// the Program given, by flat id. FailedPrecondition if it has other ones.
absl::Status TakeConstants(const Program& from,
                           absl::Span<const Op* const> origins,
                           ProgramEditor& program) {
  const absl::Span<const Constant> own = program.program().constants();
  if (own.size() != from.constants().size()) {
    return absl::FailedPreconditionError("other constants");
  }
  for (size_t i = 0; i < from.constants().size(); ++i) {
    const Constant& constant = from.constants()[i];
    if (!(program.program().type(own[i].value) == from.type(constant.value))) {
      return absl::FailedPreconditionError("constants of other types");
    }
    MICA_RETURN_IF_ERROR(
        program.SetConstant(static_cast<int>(i), constant.bytes));
  }
  for (OpId id = 0; id < program.num_ops(); ++id) {
    const absl::Span<ProgramEditor> bodies = program.bodies(id);
    if (bodies.empty()) continue;
    const OpId at = program.source(id).origin;
    const Op* origin = at < 0 ? nullptr : origins[at];
    const bool is_found =
        origin == nullptr || origin->bodies.size() != bodies.size();
    for (size_t i = 0; i < bodies.size(); ++i) {
      // A function that a pass has found gets constants as arguments.
      if (is_found && HasConstants(bodies[i].program())) {
        return absl::FailedPreconditionError("a function with constants");
      }
      if (is_found) continue;
      MICA_RETURN_IF_ERROR(
          TakeConstants(*origin->bodies[i], origins, bodies[i]));
    }
  }
  return absl::OkStatus();
}

// Numbers of an op that a pass has made, and that no size stands for.
bool HasOwnNumbers(const Op& op) {
  for (size_t i = 0; i < op.arguments.size(); ++i) {
    if (op.def->schema().params[i].is_size) continue;
    const Argument& argument = op.arguments[i];
    if (std::holds_alternative<int64_t>(argument) ||
        std::holds_alternative<std::vector<int64_t>>(argument)) {
      return true;
    }
  }
  return false;
}

// Less, and what is shared costs more to find than it saves.
bool IsWorthSharing(const PassPipeline& passes, int next_pass) {
  return 2 * next_pass > static_cast<int>(passes.passes().size());
}

}  // namespace

std::shared_ptr<const PlanStructure> PlanStructure::Make(
    const Program& from, absl::Span<const OpenSize> sizes,
    const Program& passed, const PassPipeline& passes, int next_pass) {
  if (!IsWorthSharing(passes, next_pass)) return nullptr;
  std::shared_ptr<PlanStructure> structure(new PlanStructure);
  structure->sizes_.assign(sizes.begin(), sizes.end());
  // What a pass has computed has no counterpart among other sizes.
  const absl::flat_hash_set<OpenSize> known(sizes.begin(), sizes.end());
  bool is_complete = true;
  ForEachSize(passed, [&](SizeKind kind, int64_t size) {
    is_complete = is_complete && known.contains({kind, size});
  });
  if (!is_complete) return nullptr;
  // Operators with numbers, but those of the Program given.
  absl::flat_hash_set<const OpDef*> own;
  ForEachOp(passed, [&](const Op& op) {
    if (!op.def->is_opaque() && HasOwnNumbers(op)) own.insert(op.def);
  });
  ForEachOp(from, [&](const Op& op) {
    if (!own.empty()) own.erase(op.def);  // They are soon all found.
  });
  if (!own.empty()) return nullptr;
  structure->passes_ = passes;
  structure->passed_ = passed;
  structure->next_pass_ = next_pass;
  return structure;
}

absl::StatusOr<PassedProgram> PlanStructure::RunPasses(
    const Program& program, const PassPipeline& passes,
    const PassContext& context, const PassOptions& options,
    absl::Span<const OpenSize> sizes,
    std::shared_ptr<const PlanStructure>* structure) {
  PassedProgram passed;
  int next_pass = 0;
  MICA_ASSIGN_OR_RETURN(passed.program,
                        passes.Begin(program, context, options, &next_pass));
  MICA_ASSIGN_OR_RETURN(passed.program, passes.RunUntilSizesAreRead(
                                            std::move(passed.program), context,
                                            options, &next_pass));
  if (structure != nullptr) {
    *structure = Make(program, sizes, passed.program, passes, next_pass);
  }
  MICA_ASSIGN_OR_RETURN(
      passed.program,
      passes.Run(std::move(passed.program), context, options, next_pass));
  passed.origins = OriginsOf(passed.program);
  return passed;
}

absl::StatusOr<PassedProgram> PlanStructure::Apply(
    const Program& program, absl::Span<const OpenSize> sizes,
    const PassContext& context, const PassOptions& options) const {
  if (sizes.size() != sizes_.size()) {
    return absl::FailedPreconditionError("another structure");
  }
  absl::flat_hash_map<OpenSize, int64_t> new_sizes;
  for (size_t i = 0; i < sizes.size(); ++i) {
    new_sizes[sizes_[i]] = sizes[i].value;
  }
  ProgramEditor editor(passed_);
  MapSizes(editor, [&](SizeKind kind, int64_t size) {
    return new_sizes.at({kind, size});
  });
  std::vector<const Op*> origins;
  ForEachOp(program, [&](const Op& op) { origins.push_back(&op); });
  MICA_RETURN_IF_ERROR(TakeConstants(program, origins, editor));
  MICA_RETURN_IF_ERROR(TakeLines(program, editor));
  PassedProgram passed{.program = editor.Freeze()};
  if (!Verify(passed.program).ok() || !CheckControlFlow(passed.program).ok()) {
    return absl::FailedPreconditionError("sizes that don't fit");
  }
  MICA_ASSIGN_OR_RETURN(
      passed.program,
      passes_.Run(std::move(passed.program), context, options, next_pass_));
  passed.origins = OriginsOf(passed.program);
  return passed;
}

}  // namespace mica
