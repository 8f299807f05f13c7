#include "analysis/plan/plan.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "analysis/passes/check_types.h"
#include "analysis/passes/dead_ops.h"
#include "analysis/passes/origins.h"
#include "analysis/passes/rewrite.h"
#include "analysis/pipeline/fusing.h"
#include "analysis/pipeline/pass_dump.h"
#include "analysis/plan/control_plan.h"
#include "analysis/plan/part_writes.h"
#include "analysis/plan/planner.h"
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

// What of a Plan's making is written to files, if somebody wants that.
class PlanDump {
 public:
  explicit PlanDump(const PlanOptions& options) {
    std::string folder = options.dump_folder.empty()
                             ? PassDump::FolderFromEnvironment()
                             : options.dump_folder;
    if (!folder.empty()) dump_.emplace(std::move(folder));
  }

  PassOptions pass_options() {
    PassOptions options;
    if (dump_.has_value()) options.dump = &*dump_;
    return options;
  }

  absl::StatusOr<std::shared_ptr<const Plan>> Finish(
      absl::StatusOr<std::shared_ptr<const Plan>> plan) {
    if (plan.ok() && dump_.has_value()) {
      MICA_RETURN_IF_ERROR(dump_->WritePlan((*plan)->ToText()));
    }
    return plan;
  }

 private:
  std::optional<PassDump> dump_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const Plan>> Plan::Build(
    const Program& program, const OpRegistry& ops,
    const KernelRegistry& kernels, const PlanOptions& options) {
  return Build(std::make_shared<const Program>(program), ops, kernels, options);
}

absl::StatusOr<std::shared_ptr<const Plan>> Plan::Build(
    std::shared_ptr<const Program> program, const OpRegistry& ops,
    const KernelRegistry& kernels, const PlanOptions& options,
    const ProgramStructure* own) {
  if (!program->is_static()) {
    return absl::InvalidArgumentError(
        absl::StrCat("program @", program->name(),
                     " has symbols; specialise it to sizes first"));
  }
  if (const OpId id = program->first_bounded_op(); id >= 0) {
    return absl::UnimplementedError(
        absl::StrCat(Describe(program->ops()[id]),
                     ": the size of its result depends on data; an Executor "
                     "runs such programs in segments"));
  }
  const bool is_as_written = options.precision == Precision::kAsWritten;
  if (!is_as_written && (!options.frozen || !options.fuse)) {
    return absl::InvalidArgumentError(
        absl::StrCat("precision ", PrecisionName(options.precision),
                     ": wants frozen variables, and passes"));
  }
  TraceSpan span("analysis", "plan @", program->name());
  span.Add("ops", static_cast<int64_t>(program->ops().size()));
  Planner planner(ops, kernels, options);
  PassedProgram passed;
  PlanDump dump(options);
  if (options.fuse) {
    const bool has_functions = options.has_functions() &&
                               !(options.write_parts && WritesParts(*program));
    MICA_ASSIGN_OR_RETURN(
        const Fusing fusing,
        FusingOf(options.fusing, has_functions
                                     ? PassPipeline::AllWithFunctions()
                                     : PassPipeline::All()));
    std::shared_ptr<const PlanStructure> structure;
    MICA_ASSIGN_OR_RETURN(
        passed, PlanStructure::RunPasses(
                    *program, fusing.passes.With(options.precision),
                    {ops, kernels, fusing.regions}, dump.pass_options(),
                    own == nullptr ? absl::Span<const OpenSize>() : own->sizes,
                    own == nullptr ? nullptr : &structure));
    planner.set_structure(std::move(structure));
  } else {
    // In a body there may be some.
    if (program->depth() == 0) {
      Reads reads = FindReads(*program);
      if (!reads.has_dead_ops) {
        planner.set_reads(std::move(reads));
        passed.origins.resize(program->ops().size());
        std::iota(passed.origins.begin(), passed.origins.end(), 0);
        return planner.Run(std::move(program), std::move(passed.origins));
      }
    }
    MICA_ASSIGN_OR_RETURN(passed.program,
                          RemoveDeadOps(WithOrigins(*program), ops));
    MICA_RETURN_IF_ERROR(CheckControlFlow(passed.program));
    passed.origins = OriginsOf(passed.program);
  }
  return dump.Finish(
      planner.Run(std::make_shared<const Program>(std::move(passed.program)),
                  std::move(passed.origins)));
}

absl::StatusOr<std::shared_ptr<const Plan>> Plan::BuildBy(
    std::shared_ptr<const PlanStructure> structure, const Program& program,
    const ProgramStructure& own, const OpRegistry& ops,
    const KernelRegistry& kernels, const PlanOptions& options) {
  TraceSpan span("analysis", "plan by structure @", program.name());
  span.Add("ops", static_cast<int64_t>(program.ops().size()));
  PlanDump dump(options);
  MICA_ASSIGN_OR_RETURN(const Fusing fusing,
                        FusingOf(options.fusing, PassPipeline::All()));
  MICA_ASSIGN_OR_RETURN(
      PassedProgram passed,
      structure->Apply(program, own.sizes, {ops, kernels, fusing.regions},
                       dump.pass_options()));
  Planner planner(ops, kernels, options);
  planner.set_structure(std::move(structure));
  return dump.Finish(
      planner.Run(std::make_shared<const Program>(std::move(passed.program)),
                  std::move(passed.origins)));
}

const SourceLine& Plan::source(const Step& step) const {
  static const auto& unknown = *new SourceLine;
  const Op* found = op(step);
  return found == nullptr ? unknown : found->source;
}

OpId Plan::origin(const Step& step) const {
  if (step.op < 0) return -1;
  if (step.call < 0) return origins_[step.op];
  const CallSite& call = calls_[step.call];
  const OpId first = call.function->ops()[step.op].source.origin;
  return first < 0 ? -1 : first + call.origin_shift;
}

const void* Plan::constant(int index) const {
  return reinterpret_cast<const char*>(constant_words_.data()) +
         constant_offsets_[index];
}

TensorType Plan::output_type(int index) const {
  TensorType type = program().type(program().outputs()[index]);
  if (!type.is_dense()) type.strides.clear();
  return type;
}

int64_t Plan::plan_bytes() const {
  const auto bytes_of = [](const auto& list) {
    return static_cast<int64_t>(list.size() * sizeof(list[0]));
  };
  int64_t bytes = sizeof(Plan) + bytes_of(origins_) + bytes_of(steps_) +
                  bytes_of(undo_) + bytes_of(calls_) + bytes_of(args_) +
                  bytes_of(arg_bytes_) + bytes_of(slices_) + bytes_of(packed_) +
                  bytes_of(folds_) + bytes_of(fold_args_) + bytes_of(folded_) +
                  bytes_of(constant_words_) + bytes_of(constant_offsets_) +
                  bytes_of(program().ops()) + bytes_of(program().inputs()) +
                  bytes_of(program().variables()) +
                  program().num_values() * static_cast<int64_t>(sizeof(Value));
  for (const Constant& constant : program().constants()) {
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
  ForEachOp(program(), [&](const Op& op) { count += op.def->is_opaque(); });
  return count;
}

std::string Plan::ToText() const {
  std::string text = absl::StrCat(
      "plan @", program().name(), " steps=", steps_.size(),
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
  for (const Undo& undo : undo_) {
    append_step(absl::StrCat("if ", undo.save, " ran"), undo.step, args_);
  }
  return text;
}

}  // namespace mica
