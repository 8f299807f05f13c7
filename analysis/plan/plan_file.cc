#include "analysis/plan/plan_file.h"

#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "analysis/passes/origins.h"
#include "analysis/plan/control_plan.h"
#include "analysis/plan/planner.h"
#include "framework/base/fingerprint.h"
#include "framework/base/status.h"
#include "framework/ir/content.h"
#include "framework/ir/control_flow.h"
#include "framework/ir/program_editor.h"
#include "framework/saved/saved_program.h"
#include "framework/text/text.h"
#include "kernels/cpu/identity.h"

namespace mica {
namespace {

// Another number for another form of what follows.
constexpr absl::string_view kMagic = "mica plan 3\n";
constexpr size_t kChecksumDigits = 32;

absl::Status Damaged(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("stored Plan: ", what));
}

// The parts of a file, in order; each is preceded by its length.
struct Parts {
  absl::string_view setting;
  absl::string_view content;
  absl::string_view program;
  absl::string_view origins;
  absl::string_view kernels;
  absl::string_view args;
  absl::string_view sizes;
  absl::string_view plan_text;
};

template <typename PartsT, typename Visit>
auto ForEachPart(PartsT& parts, Visit visit) {
  for (auto* part :
       {&parts.setting, &parts.content, &parts.program, &parts.origins,
        &parts.kernels, &parts.args, &parts.sizes, &parts.plan_text}) {
    if (!visit(*part)) return false;
  }
  return true;
}

// A Location without padding, whose bytes would be anything.
struct StoredLocation {
  int32_t home;
  int32_t index;
  int64_t offset;
};
static_assert(std::has_unique_object_representations_v<StoredLocation>);

std::string JoinParts(const Parts& parts) {
  std::string body;
  ForEachPart(parts, [&](absl::string_view part) {
    const uint64_t size = part.size();
    body.append(reinterpret_cast<const char*>(&size), sizeof size);
    body.append(part.data(), part.size());
    return true;
  });
  return absl::StrCat(kMagic, FingerprintOf(body).ToHex(), body);
}

absl::StatusOr<Parts> SplitParts(absl::string_view bytes) {
  if (!absl::ConsumePrefix(&bytes, kMagic)) return Damaged("not one");
  if (bytes.size() < kChecksumDigits) return Damaged("truncated");
  const absl::string_view checksum = bytes.substr(0, kChecksumDigits);
  bytes.remove_prefix(kChecksumDigits);
  if (FingerprintOf(bytes).ToHex() != checksum) return Damaged("checksum");
  Parts parts;
  const bool is_whole = ForEachPart(parts, [&](absl::string_view& part) {
    uint64_t size = 0;
    if (bytes.size() < sizeof size) return false;
    std::memcpy(&size, bytes.data(), sizeof size);
    bytes.remove_prefix(sizeof size);
    if (bytes.size() < size) return false;
    part = bytes.substr(0, size);
    bytes.remove_prefix(size);
    return true;
  });
  if (!is_whole || !bytes.empty()) return Damaged("lengths");
  return parts;
}

absl::StatusOr<PlanChoices> ReadChoices(const Parts& parts) {
  PlanChoices choices;
  if (parts.args.size() % sizeof(StoredLocation) != 0 ||
      parts.sizes.size() != 2 * sizeof(int64_t)) {
    return Damaged("addresses");
  }
  for (size_t at = 0; at < parts.args.size(); at += sizeof(StoredLocation)) {
    StoredLocation stored;
    std::memcpy(&stored, parts.args.data() + at, sizeof stored);
    if (stored.home < 0 || stored.home > static_cast<int>(Home::kFolded)) {
      return Damaged("addresses");
    }
    choices.args.push_back({.home = static_cast<Home>(stored.home),
                            .index = stored.index,
                            .offset = stored.offset});
  }
  std::memcpy(&choices.arena_bytes, parts.sizes.data(), sizeof(int64_t));
  std::memcpy(&choices.live_set_bytes, parts.sizes.data() + sizeof(int64_t),
              sizeof(int64_t));
  for (absl::string_view name :
       absl::StrSplit(parts.kernels, '\n', absl::SkipEmpty())) {
    choices.kernels.insert(std::string(name));
  }
  return choices;
}

// By flat id of the Plan's Program. In one without bodies that no pass was run
// on, ops don't say it themselves.
LargeVector<Origin> StoredOriginsOf(const Plan& plan) {
  if (plan.program().depth() > 0) return FlatOriginsOf(plan.program());
  LargeVector<Origin> origins;
  for (OpId origin : plan.origins()) origins.push_back({.op = origin});
  return origins;
}

// The text of the Plan's Program, without lines.
absl::StatusOr<std::string> ProgramTextOf(const Plan& plan,
                                          const LargeVector<Origin>& origins) {
  ProgramEditor editor(plan.program());
  MICA_RETURN_IF_ERROR(SetOrigins(origins, editor));
  return ToText(editor.Freeze());
}

// The Program of that text, its ops with the lines of those of `program` that
// they come from.
absl::StatusOr<Program> ReadProgram(const Parts& parts, const Program& program,
                                    const OpRegistry& ops) {
  if (parts.origins.size() % sizeof(Origin) != 0) return Damaged("origins");
  std::vector<Origin> origins(parts.origins.size() / sizeof(Origin));
  if (!origins.empty()) {
    std::memcpy(origins.data(), parts.origins.data(), parts.origins.size());
  }
  absl::StatusOr<Program> passed = ParseProgram(parts.program, ops);
  if (!passed.ok()) return Damaged(passed.status().message());
  ProgramEditor editor(*std::move(passed));
  absl::Status status = SetOrigins(origins, editor);
  if (status.ok()) status = TakeLines(program, editor);
  if (!status.ok()) return Damaged(status.message());
  return editor.Freeze();
}

// Those of bodies too.
void AddKernels(const Plan& plan, absl::btree_set<std::string>* kernels) {
  for (const Step& step : plan.steps()) {
    kernels->emplace(step.kernel);
    if (step.control == nullptr) continue;
    for (const auto& body : step.control->bodies) AddKernels(*body, kernels);
  }
  for (const Step& step : plan.folds()) kernels->emplace(step.kernel);
  for (const Plan::Undo& undo : plan.undo()) kernels->emplace(undo.step.kernel);
}

}  // namespace

absl::StatusOr<std::string> EncodePlan(const PlanKey& key, const Plan& plan,
                                       const OpRegistry& ops) {
  if (plan.num_opaque() > 0) {
    return absl::UnimplementedError(
        absl::StrCat("a Plan isn't kept on disk that runs opaque operators: ",
                     DescribeOpaqueOps(plan.program())));
  }
  const LargeVector<Origin> origins = StoredOriginsOf(plan);
  MICA_ASSIGN_OR_RETURN(const std::string program,
                        ProgramTextOf(plan, origins));
  const absl::StatusOr<Program> again = ParseProgram(program, ops);
  if (!again.ok() || ContentOf(*again) != ContentOf(plan.program())) {
    return absl::UnimplementedError(
        "a Plan isn't kept on disk whose Program's text doesn't give it back");
  }
  absl::btree_set<std::string> kernels;
  AddKernels(plan, &kernels);
  const std::string names = absl::StrJoin(kernels, "\n");
  std::vector<StoredLocation> args;
  for (const Location& location : plan.args()) {
    args.push_back({.home = static_cast<int32_t>(location.home),
                    .index = location.index,
                    .offset = location.offset});
  }
  const int64_t sizes[] = {plan.arena_bytes(), plan.live_set_bytes()};
  const std::string plan_text = plan.ToText();
  return JoinParts(
      {.setting = key.setting,
       .content = key.content,
       .program = program,
       .origins = {reinterpret_cast<const char*>(origins.data()),
                   origins.size() * sizeof(Origin)},
       .kernels = names,
       .args = {reinterpret_cast<const char*>(args.data()),
                args.size() * sizeof(StoredLocation)},
       .sizes = {reinterpret_cast<const char*>(sizes), sizeof sizes},
       .plan_text = plan_text});
}

absl::StatusOr<std::shared_ptr<const Plan>> DecodePlan(
    absl::string_view bytes, const PlanKey& key, const Program& program,
    const OpRegistry& ops, const KernelRegistry& kernels,
    const PlanOptions& options) {
  MICA_ASSIGN_OR_RETURN(const Parts parts, SplitParts(bytes));
  if (parts.setting != key.setting || parts.content != key.content) {
    return absl::NotFoundError(
        "the stored Plan is of another Program, build "
        "or machine");
  }
  MICA_ASSIGN_OR_RETURN(const PlanChoices choices, ReadChoices(parts));
  absl::StatusOr<Program> fused = ReadProgram(parts, program, ops);
  if (!fused.ok()) return fused.status();
  if (!fused->OpaqueDefs().empty()) return Damaged("opaque operators");
  if (fused->inputs().size() != program.inputs().size() ||
      fused->variables().size() != program.variables().size() ||
      fused->outputs().size() != program.outputs().size() ||
      !fused->is_static()) {
    return Damaged("the Program's interface");
  }
  const auto is_same = [&](ValueId a, ValueId b) {
    return fused->type(a) == program.type(b);
  };
  for (size_t i = 0; i < program.inputs().size(); ++i) {
    if (!is_same(fused->inputs()[i], program.inputs()[i])) {
      return Damaged("an input");
    }
  }
  for (size_t i = 0; i < program.variables().size(); ++i) {
    if (!is_same(fused->variables()[i].value, program.variables()[i].value)) {
      return Damaged("a variable");
    }
  }
  bool has_results = true;
  ForEachOp(*fused, [&](const Op& op) {
    for (const auto& body : op.bodies) {
      for (ValueId id : body->outputs()) {
        has_results = has_results && id != kNoValue;
      }
    }
  });
  if (!has_results) return Damaged("a body without a result");
  LargeVector<OpId> origins = OriginsOf(*fused);
  Planner planner(ops, kernels, options);
  planner.set_choices(choices);
  auto plan = planner.Run(std::make_shared<const Program>(*std::move(fused)),
                          std::move(origins));
  if (!plan.ok()) return Damaged(plan.status().message());
  if ((*plan)->ToText() != parts.plan_text) return Damaged("another Plan");
  return plan;
}

absl::StatusOr<PlanFileInfo> InspectPlanFile(absl::string_view bytes) {
  MICA_ASSIGN_OR_RETURN(const Parts parts, SplitParts(bytes));
  const absl::string_view line =
      parts.plan_text.substr(0, parts.plan_text.find('\n'));
  return PlanFileInfo{
      .program = std::string(line),
      .is_current = absl::EndsWith(
          parts.setting,
          absl::StrCat("\n", cpu::CodeIdentity(), "\n", cpu::CpuIdentity()))};
}

}  // namespace mica
