#include "analysis/plan/plan_structure.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "analysis/control/check_types.h"
#include "analysis/fuse/fuse.h"
#include "analysis/fuse/fuse_convolution.h"
#include "analysis/fuse/regions.h"
#include "analysis/layout/layout.h"
#include "analysis/op_work.h"
#include "analysis/plan/origin.h"
#include "analysis/rewrite.h"
#include "framework/base/status.h"
#include "framework/ir/content.h"
#include "framework/trace/recorder.h"

namespace mica {
namespace {

template <typename Predicate>
bool HasOp(const Program& program, Predicate predicate) {
  return std::any_of(program.ops().begin(), program.ops().end(), predicate);
}

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

absl::StatusOr<Program> RunFirst(Program program, const OpRegistry& ops,
                                 bool has_layouts) {
  MICA_ASSIGN_OR_RETURN(program, RunPass("fuse convolutions", &FuseConvolutions,
                                         std::move(program), ops));
  MICA_ASSIGN_OR_RETURN(program,
                        RunPass("fuse", &Fuse, std::move(program), ops));
  if (has_layouts) return program;
  return RunMerge(std::move(program), ops);
}

absl::StatusOr<Program> RunLast(Program program, const OpRegistry& ops,
                                bool has_layouts) {
  if (!has_layouts) return program;
  MICA_ASSIGN_OR_RETURN(program, RunPass("choose layouts", &ChooseLayouts,
                                         std::move(program), ops));
  // Last: the passes before it know no regions.
  return RunMerge(std::move(program), ops);
}

absl::StatusOr<Program> RunAll(Program program, const OpRegistry& ops);

// Runs the passes on the bodies alone.
absl::StatusOr<Program> RunInBodies(const Program& program,
                                    const OpRegistry& ops) {
  Rewriter rewriter(program, ops);
  MICA_RETURN_IF_ERROR(rewriter.CopyDeclarations());
  for (const Op& op : program.ops()) {
    Bodies bodies;
    for (const auto& body : op.bodies) {
      MICA_ASSIGN_OR_RETURN(Program lean, RunAll(*body, ops));
      bodies.push_back(std::make_shared<const Program>(std::move(lean)));
    }
    MICA_RETURN_IF_ERROR(rewriter.CopyOp(op, std::move(bodies)));
  }
  return rewriter.Finish();
}

// All passes, on bodies first.
absl::StatusOr<Program> RunAll(Program program, const OpRegistry& ops) {
  if (program.depth() > 0) {
    MICA_ASSIGN_OR_RETURN(program, RunInBodies(program, ops));
  }
  const bool has_layouts = HasOp(program, IsConvolution);
  MICA_ASSIGN_OR_RETURN(program,
                        RunFirst(std::move(program), ops, has_layouts));
  return RunLast(std::move(program), ops, has_layouts);
}

// Calls `visit(kind, number)` for each that StructureOf() may leave open. The
// Program is one that nobody else has seen, so not yet frozen.
template <typename Visit>
void ForEachSize(Program& program, Visit visit) {
  const auto visit_all = [&](SizeKind kind, auto& sizes) {
    for (int64_t& size : sizes) {
      if (size >= 2) visit(kind, size);
    }
  };
  for (ValueId id = 0; id < program.num_values(); ++id) {
    auto& type = const_cast<TensorType&>(program.type(id));
    visit_all(SizeKind::kDim, type.dims);
    visit_all(SizeKind::kStride, type.strides);
  }
  for (const Op& op : program.ops()) {
    auto& arguments = const_cast<Arguments&>(op.arguments);
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (!op.def->schema().params[i].is_size) continue;
      if (auto* size = std::get_if<int64_t>(&arguments[i])) {
        if (*size >= 2) visit(SizeKind::kNumber, *size);
      } else if (auto* sizes =
                     std::get_if<std::vector<int64_t>>(&arguments[i])) {
        visit_all(SizeKind::kDim, *sizes);
      }
    }
  }
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

// True if each op has the result types that it would be given.
bool IsWellTyped(const Program& program) {
  const OpCall::TypeOf type_of = [&](ValueId id) -> const TensorType& {
    return program.type(id);
  };
  return std::all_of(
      program.ops().begin(), program.ops().end(), [&](const Op& op) {
        if (op.def->is_opaque()) return true;
        const auto types = InferTypes(OpCall(*op.def, op.arguments, type_of));
        if (!types.ok() || types->size() != op.results.size()) return false;
        for (size_t i = 0; i < types->size(); ++i) {
          const TensorType& type = program.type(op.results[i]);
          const bool is_right = op.def->is_view()
                                    ? (*types)[i] == type
                                    : SameShape((*types)[i], type);
          if (!is_right) return false;
        }
        return true;
      });
}

}  // namespace

std::shared_ptr<const PlanStructure> PlanStructure::Make(const Program& from,
                                                         Program passed) {
  std::shared_ptr<PlanStructure> structure(new PlanStructure);
  structure->has_layouts_ = HasOp(from, IsConvolution);
  structure->sizes_ = StructureOf(from).sizes;
  structure->passed_ = std::move(passed);
  // What a pass has computed has no counterpart among other sizes.
  const absl::flat_hash_set<OpenSize> known(structure->sizes_.begin(),
                                            structure->sizes_.end());
  bool is_complete = true;
  ForEachSize(structure->passed_, [&](SizeKind kind, int64_t size) {
    is_complete = is_complete && known.contains({kind, size});
  });
  absl::flat_hash_set<const OpDef*> given;
  for (const Op& op : from.ops()) given.insert(op.def);
  const bool has_own = HasOp(structure->passed_, [&](const Op& op) {
    return !op.def->is_opaque() && !given.contains(op.def) && HasOwnNumbers(op);
  });
  return is_complete && !has_own ? structure : nullptr;
}

absl::StatusOr<PassedProgram> PlanStructure::RunPasses(
    const Program& program, const OpRegistry& ops,
    std::shared_ptr<const PlanStructure>* structure) {
  PassedProgram passed;
  MICA_ASSIGN_OR_RETURN(passed.program,
                        RemoveDeadOps(program, ops, &passed.origins));
  MICA_RETURN_IF_ERROR(CheckControlFlow(passed.program));
  NumberSources(passed.origins, passed.program);
  std::shared_ptr<const PlanStructure> made;
  absl::StatusOr<Program> all = absl::UnknownError("");
  if (program.depth() > 0) {
    all = RunAll(std::move(passed.program), ops);
  } else {
    const bool has_layouts = HasOp(program, IsConvolution);
    absl::StatusOr<Program> first =
        RunFirst(std::move(passed.program), ops, has_layouts);
    if (first.ok() && structure != nullptr && !FuseReadsSizes(program)) {
      made = Make(program, *first);
    }
    all = first.ok() ? RunLast(*std::move(first), ops, has_layouts) : first;
  }
  if (!all.ok()) {
    // Once more with the user's lines, for the error.
    MICA_ASSIGN_OR_RETURN(Program lean, RemoveDeadOps(program, ops));
    return RunAll(std::move(lean), ops).status();
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
  ForEachSize(passed.program, [&](SizeKind kind, int64_t& size) {
    size = new_sizes.at({kind, size});
  });
  for (ValueId id = 0; id < passed.program.num_values(); ++id) {
    auto& type = const_cast<TensorType&>(passed.program.type(id));
    // As ProgramBuilder has it.
    if (!type.strides.empty() && type.is_row_major()) type.strides.clear();
  }
  if (passed.program.constants().size() != program.constants().size()) {
    return absl::FailedPreconditionError("other constants");
  }
  for (size_t i = 0; i < program.constants().size(); ++i) {
    const_cast<Constant&>(passed.program.constants()[i]).bytes =
        program.constants()[i].bytes;
  }
  if (!IsWellTyped(passed.program)) {
    return absl::FailedPreconditionError("sizes that don't fit");
  }
  MICA_ASSIGN_OR_RETURN(passed.program,
                        RunLast(std::move(passed.program), ops, has_layouts_));
  passed.origins = RestoreSources(program, passed.program);
  return passed;
}

}  // namespace mica
