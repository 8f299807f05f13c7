#include "analysis/plan/plan_structure.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "analysis/control/check_types.h"
#include "analysis/fuse/fuse.h"
#include "analysis/fuse/fuse_convolution.h"
#include "analysis/fuse/regions.h"
#include "analysis/layout/layout.h"
#include "analysis/op_work.h"
#include "analysis/plan/origin.h"
#include "analysis/plan/own_bodies.h"
#include "analysis/rewrite.h"
#include "framework/base/status.h"
#include "framework/ir/content.h"
#include "framework/ir/control_flow.h"
#include "framework/ir/program_builder.h"
#include "framework/trace/recorder.h"

namespace mica {
namespace {

template <typename Pass>
absl::StatusOr<Program> RunPass(absl::string_view name, Pass pass,
                                Program program, const OpRegistry& ops) {
  const TraceSpan span("pass", name);
  return pass(std::move(program), ops);
}

absl::StatusOr<Program> RunMerge(Program program, const OpRegistry& ops) {
  return RunPass("merge elementwise", &MergeElementwise, std::move(program),
                 ops);
}

using PassFn = absl::FunctionRef<absl::StatusOr<Program>(Program program)>;

// Runs `pass` on the bodies alone.
absl::StatusOr<Program> RunInBodies(PassFn pass, Program program,
                                    const OpRegistry& ops) {
  if (program.depth() == 0) return program;
  Rewriter rewriter(program, ops);
  MICA_RETURN_IF_ERROR(rewriter.CopyDeclarations());
  for (const Op& op : program.ops()) {
    Bodies bodies;
    for (const auto& body : op.bodies) {
      MICA_ASSIGN_OR_RETURN(Program passed, pass(*body));
      bodies.push_back(std::make_shared<const Program>(std::move(passed)));
    }
    MICA_RETURN_IF_ERROR(rewriter.CopyOp(op, std::move(bodies)));
  }
  return rewriter.Finish();
}

bool HasConvolution(const Program& program) {
  return std::any_of(program.ops().begin(), program.ops().end(), IsConvolution);
}

// What is part of the structure, bodies first.
absl::StatusOr<Program> RunFirst(Program program, const OpRegistry& ops,
                                 const KernelRegistry& kernels) {
  const auto run_first = [&](Program body) {
    return RunFirst(std::move(body), ops, kernels);
  };
  MICA_ASSIGN_OR_RETURN(program,
                        RunInBodies(run_first, std::move(program), ops));
  const auto fuse_convolutions = [&](Program unfused, const OpRegistry&) {
    return FuseConvolutions(std::move(unfused), ops, kernels);
  };
  MICA_ASSIGN_OR_RETURN(program, RunPass("fuse convolutions", fuse_convolutions,
                                         std::move(program), ops));
  const auto fuse = [&](Program unfused, const OpRegistry&) {
    return Fuse(std::move(unfused), ops, kernels);
  };
  MICA_ASSIGN_OR_RETURN(program,
                        RunPass("fuse", fuse, std::move(program), ops));
  if (HasConvolution(program)) return program;
  return RunMerge(std::move(program), ops);
}

// What is decided for each Program's sizes: layouts, and what has to wait for
// them.
absl::StatusOr<Program> RunLast(Program program, const OpRegistry& ops) {
  bool has_convolution = false;
  ForEachOp(program, [&](const Op& op) {
    has_convolution = has_convolution || IsConvolution(op);
  });
  if (!has_convolution) return program;
  const auto run_last = [&](Program body) {
    return RunLast(std::move(body), ops);
  };
  MICA_ASSIGN_OR_RETURN(program,
                        RunInBodies(run_last, std::move(program), ops));
  if (!HasConvolution(program)) return program;
  MICA_ASSIGN_OR_RETURN(program, RunPass("choose layouts", &ChooseLayouts,
                                         std::move(program), ops));
  // Last: the passes before it know no regions.
  return RunMerge(std::move(program), ops);
}

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

// Calls `visit(kind, number)` for each that StructureOf() may leave open.
template <typename Visit>
void ForEachSize(const Program& program, const Visit& visit) {
  for (ValueId id = 0; id < program.num_values(); ++id) {
    VisitType(program.type(id), visit);
  }
  for (const Op& op : program.ops()) {
    VisitArguments(*op.def, op.arguments, visit);
    for (const auto& body : op.bodies) ForEachSize(*body, visit);
  }
}

// Sets each of them to `map(kind, number)`. Nobody else has seen the Program
// and its bodies yet.
template <typename Map>
void MapSizes(Program& program, const Map& map) {
  const auto visit = [&](SizeKind kind, int64_t& size) {
    size = map(kind, size);
  };
  ProgramBuilder::MapTypes(program, [&](TensorType type) {
    VisitType(type, visit);
    return type;
  });
  for (const Op& op : program.ops()) {
    VisitArguments(*op.def, const_cast<Arguments&>(op.arguments), visit);
    ForEachOwnBody(op, [&](Program& body) { MapSizes(body, map); });
  }
}

// Gives `program`, whose lines are numbers (origin.h), the constants of `from`,
// bodies too; `origins` are the ops of the Program that the numbers count.
// FailedPrecondition if it has other ones.
absl::Status TakeConstants(const Program& from,
                           absl::Span<const Op* const> origins,
                           Program& program) {
  if (program.constants().size() != from.constants().size()) {
    return absl::FailedPreconditionError("other constants");
  }
  for (size_t i = 0; i < from.constants().size(); ++i) {
    const Constant& constant = from.constants()[i];
    Constant& own = const_cast<Constant&>(program.constants()[i]);
    if (!(program.type(own.value) == from.type(constant.value))) {
      return absl::FailedPreconditionError("constants of other types");
    }
    own.bytes = constant.bytes;
  }
  absl::Status status;
  for (const Op& op : program.ops()) {
    if (op.bodies.empty()) continue;
    const Op& origin = *origins[op.source.line - 1];
    size_t next = 0;
    ForEachOwnBody(op, [&](Program& body) {
      status.Update(TakeConstants(*origin.bodies[next++], origins, body));
    });
  }
  return status;
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

// True if each op has the result types that it would be given, in bodies too.
bool IsWellTyped(const Program& program);

bool IsWellTyped(const Program& program, const Op& op) {
  if (op.def->is_opaque()) return true;
  if (!op.bodies.empty()) {
    std::vector<TensorType> types;
    for (ValueId id : op.results) types.push_back(program.type(id));
    return ControlTypes(op, std::move(types), program.values()).ok() &&
           std::all_of(op.bodies.begin(), op.bodies.end(),
                       [](const auto& body) { return IsWellTyped(*body); });
  }
  const OpCall::TypeOf type_of = [&](ValueId id) -> const TensorType& {
    return program.type(id);
  };
  const auto types = InferTypes(OpCall(*op.def, op.arguments, type_of));
  if (!types.ok() || types->size() != op.results.size()) return false;
  for (size_t i = 0; i < types->size(); ++i) {
    const TensorType& type = program.type(op.results[i]);
    const bool is_right =
        op.def->is_view() ? (*types)[i] == type : SameShape((*types)[i], type);
    if (!is_right) return false;
  }
  return true;
}

bool IsWellTyped(const Program& program) {
  return std::all_of(program.ops().begin(), program.ops().end(),
                     [&](const Op& op) { return IsWellTyped(program, op); });
}

}  // namespace

std::shared_ptr<const PlanStructure> PlanStructure::Make(
    const Program& from, const Program& passed) {
  std::shared_ptr<PlanStructure> structure(new PlanStructure);
  structure->sizes_ = StructureOf(from).sizes;
  // What a pass has computed has no counterpart among other sizes.
  const absl::flat_hash_set<OpenSize> known(structure->sizes_.begin(),
                                            structure->sizes_.end());
  bool is_complete = true;
  ForEachSize(passed, [&](SizeKind kind, int64_t size) {
    is_complete = is_complete && known.contains({kind, size});
  });
  absl::flat_hash_set<const OpDef*> given;
  ForEachOp(from, [&](const Op& op) { given.insert(op.def); });
  if (!is_complete) return nullptr;
  ForEachOp(passed, [&](const Op& op) {
    const bool is_own = !op.def->is_opaque() && !given.contains(op.def);
    is_complete = is_complete && !(is_own && HasOwnNumbers(op));
  });
  if (!is_complete) return nullptr;
  structure->passed_ = passed;
  return structure;
}

absl::StatusOr<PassedProgram> PlanStructure::RunPasses(
    const Program& program, const OpRegistry& ops,
    const KernelRegistry& kernels,
    std::shared_ptr<const PlanStructure>* structure) {
  PassedProgram passed;
  MICA_ASSIGN_OR_RETURN(passed.program,
                        RemoveDeadOps(program, ops, &passed.origins));
  MICA_RETURN_IF_ERROR(CheckControlFlow(passed.program));
  NumberSources(passed.origins, passed.program);
  std::shared_ptr<const PlanStructure> made;
  absl::StatusOr<Program> all =
      RunFirst(std::move(passed.program), ops, kernels);
  if (all.ok() && structure != nullptr && !FuseReadsSizes(program)) {
    made = Make(program, *all);
  }
  if (all.ok()) all = RunLast(*std::move(all), ops);
  if (!all.ok()) {
    // Once more with the user's lines, for the error.
    MICA_ASSIGN_OR_RETURN(Program lean, RemoveDeadOps(program, ops));
    MICA_ASSIGN_OR_RETURN(lean, RunFirst(std::move(lean), ops, kernels));
    return RunLast(std::move(lean), ops).status();
  }
  passed.program = *std::move(all);
  passed.origins = RestoreSources(program, passed.program);
  if (structure != nullptr) *structure = std::move(made);
  return passed;
}

absl::StatusOr<PassedProgram> PlanStructure::Apply(
    const Program& program, const OpRegistry& ops) const {
  const std::vector<OpenSize> sizes = StructureOf(program).sizes;
  if (sizes.size() != sizes_.size()) {
    return absl::FailedPreconditionError("another structure");
  }
  absl::flat_hash_map<OpenSize, int64_t> new_sizes;
  for (size_t i = 0; i < sizes.size(); ++i) {
    new_sizes[sizes_[i]] = sizes[i].value;
  }
  PassedProgram passed{.program = passed_};
  OwnBodies(passed.program);
  MapSizes(passed.program, [&](SizeKind kind, int64_t size) {
    return new_sizes.at({kind, size});
  });
  std::vector<const Op*> origins;
  ForEachOp(program, [&](const Op& op) { origins.push_back(&op); });
  MICA_RETURN_IF_ERROR(TakeConstants(program, origins, passed.program));
  if (!IsWellTyped(passed.program) || !CheckControlFlow(passed.program).ok()) {
    return absl::FailedPreconditionError("sizes that don't fit");
  }
  MICA_ASSIGN_OR_RETURN(passed.program,
                        RunLast(std::move(passed.program), ops));
  passed.origins = RestoreSources(program, passed.program);
  return passed;
}

}  // namespace mica
