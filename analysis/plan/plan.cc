#include "analysis/plan/plan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "analysis/control/check_types.h"
#include "analysis/control/control_plan.h"
#include "analysis/fuse/fuse.h"
#include "analysis/fuse/fuse_convolution.h"
#include "analysis/fuse/regions.h"
#include "analysis/layout/layout.h"
#include "analysis/plan/origin.h"
#include "analysis/plan/planner.h"
#include "analysis/rewrite.h"
#include "framework/base/status.h"
#include "framework/ir/control_flow.h"
#include "framework/trace/recorder.h"

namespace mica {
namespace {

std::string LocationText(const Location& location) {
  static constexpr absl::string_view kHomes[] = {
      "none",     "arena",  "constant", "input",
      "variable", "output", "packed",   "folded"};
  std::string text(kHomes[static_cast<int>(location.home)]);
  if (location.home != Home::kNone && location.home != Home::kArena) {
    absl::StrAppend(&text, location.index);
  }
  if (location.home == Home::kArena || location.offset != 0) {
    absl::StrAppend(&text, "+", location.offset);
  }
  return text;
}

std::string Indented(absl::string_view text) {
  std::string indented;
  for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    absl::StrAppend(&indented, "    ", line, "\n");
  }
  return indented;
}

absl::StatusOr<Program> RunPassesOnBlock(const Program& program,
                                         const OpRegistry& ops) {
  const auto run = [&](absl::string_view name, auto pass,
                       const Program& from) -> absl::StatusOr<Program> {
    const TraceSpan span("pass", name);
    return pass(from, ops);
  };
  MICA_ASSIGN_OR_RETURN(Program lean,
                        run("fuse convolutions", &FuseConvolutions, program));
  MICA_ASSIGN_OR_RETURN(lean, run("fuse", &Fuse, lean));
  MICA_ASSIGN_OR_RETURN(lean, run("choose layouts", &ChooseLayouts, lean));
  // Last: the passes before it know no regions.
  return run("merge elementwise", &MergeElementwise, lean);
}

absl::StatusOr<Program> RunPasses(const Program& program,
                                  const OpRegistry& ops);

// Runs the passes on the bodies alone.
absl::StatusOr<Program> RunPassesInBodies(const Program& program,
                                          const OpRegistry& ops) {
  Rewriter rewriter(program, ops);
  MICA_RETURN_IF_ERROR(rewriter.CopyDeclarations());
  for (const Op& op : program.ops()) {
    Bodies bodies;
    for (const auto& body : op.bodies) {
      MICA_ASSIGN_OR_RETURN(Program lean, RunPasses(*body, ops));
      bodies.push_back(std::make_shared<const Program>(std::move(lean)));
    }
    MICA_RETURN_IF_ERROR(rewriter.CopyOp(op, std::move(bodies)));
  }
  return rewriter.Finish();
}

absl::StatusOr<Program> RunPasses(const Program& program,
                                  const OpRegistry& ops) {
  if (program.depth() > 0) {
    MICA_ASSIGN_OR_RETURN(const Program inner, RunPassesInBodies(program, ops));
    return RunPassesOnBlock(inner, ops);
  }
  return RunPassesOnBlock(program, ops);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Plan>> Plan::Build(
    const Program& program, const OpRegistry& ops,
    const KernelRegistry& kernels, const PlanOptions& options) {
  if (!program.is_static()) {
    return absl::InvalidArgumentError(
        absl::StrCat("program @", program.name(),
                     " has symbols; specialise it to sizes first"));
  }
  TraceSpan span("analysis", "plan @", program.name());
  span.Add("ops", static_cast<int64_t>(program.ops().size()));
  std::vector<OpId> origins;
  MICA_ASSIGN_OR_RETURN(Program lean, RemoveDeadOps(program, ops, &origins));
  MICA_RETURN_IF_ERROR(CheckControlFlow(lean));
  if (options.fuse) {
    NumberSources(origins, lean);
    absl::StatusOr<Program> fused = RunPasses(lean, ops);
    if (!fused.ok()) {
      // Once more with the user's lines, for the error.
      MICA_ASSIGN_OR_RETURN(lean, RemoveDeadOps(program, ops));
      return RunPasses(lean, ops).status();
    }
    lean = *std::move(fused);
    origins = RestoreSources(program, lean);
  }
  return Planner(ops, kernels, options)
      .Run(std::move(lean), std::move(origins));
}

const void* Plan::constant(int index) const {
  return reinterpret_cast<const char*>(constant_words_.data()) +
         constant_offsets_[index];
}

TensorType Plan::output_type(int index) const {
  TensorType type = program_.type(program_.outputs()[index]);
  if (!type.is_dense()) type.strides.clear();
  return type;
}

int64_t Plan::plan_bytes() const {
  const auto bytes_of = [](const auto& list) {
    return static_cast<int64_t>(list.size() * sizeof(list[0]));
  };
  int64_t bytes = sizeof(Plan) + bytes_of(origins_) + bytes_of(steps_) +
                  bytes_of(args_) + bytes_of(arg_bytes_) + bytes_of(slices_) +
                  bytes_of(packed_) + bytes_of(folds_) + bytes_of(fold_args_) +
                  bytes_of(folded_) + bytes_of(constant_words_) +
                  bytes_of(constant_offsets_) + bytes_of(program_.ops()) +
                  bytes_of(program_.inputs()) + bytes_of(program_.variables()) +
                  program_.num_values() * static_cast<int64_t>(sizeof(Value));
  for (const Constant& constant : program_.constants()) {
    bytes += static_cast<int64_t>(sizeof constant + constant.bytes.size());
  }
  for (const Step& step : steps_) {
    if (step.control == nullptr) continue;
    for (const auto& body : step.control->bodies) bytes += body->plan_bytes();
  }
  return bytes;
}

int Plan::num_opaque() const {
  int count = 0;
  ForEachOp(program_, [&](const Op& op) { count += op.def->is_opaque(); });
  return count;
}

std::string Plan::ToText() const {
  std::string text = absl::StrCat(
      "plan @", program_.name(), " steps=", steps_.size(),
      " arena_bytes=", arena_bytes_, " live_set_bytes=", live_set_bytes_, "\n");
  auto append_step = [&text](absl::string_view id, const Step& step,
                             absl::Span<const Location> args) {
    auto append = [](std::string* out, const Location& location) {
      absl::StrAppend(out, LocationText(location));
    };
    absl::StrAppend(&text, "  ", id, ": ", step.name, " by ", step.kernel, " (",
                    absl::StrJoin(args.subspan(step.first_arg, step.num_args),
                                  ", ", append),
                    ")\n");
  };
  for (const Step& step : folds_) append_step("fold", step, fold_args_);
  for (size_t i = 0; i < steps_.size(); ++i) {
    append_step(absl::StrCat(i), steps_[i], args_);
    if (steps_[i].control == nullptr) continue;
    absl::StrAppend(&text, Indented(steps_[i].control->ToText()));
  }
  return text;
}

}  // namespace mica
