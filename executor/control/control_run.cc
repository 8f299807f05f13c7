#include "executor/control/control_run.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "executor/control/body_run.h"
#include "framework/base/status.h"
#include "framework/ir/control_flow.h"
#include "framework/tensor/tensor.h"
#include "framework/trace/recorder.h"

namespace mica {
namespace {

bool IsTrue(const void* predicate) {
  return *static_cast<const uint8_t*>(predicate) != 0;
}

}  // namespace

ControlRun::ControlRun(const Step& step, const Binding& binding,
                       Outcome& outcome)
    : control_(*step.control),
      outcome_(outcome),
      num_operands_(static_cast<size_t>(step.num_operands)),
      num_results_(static_cast<size_t>(step.num_args - step.num_operands) -
                   (control_.scratch_bytes > 0 ? 1 : 0)),
      args_(step.num_args, nullptr) {
  const int num_tables = control_.kind == ControlKind::kWhile ? kNumTables : 1;
  for (const auto& body : control_.bodies) {
    bodies_.push_back(
        std::make_unique<BodyRun>(body, binding, outcome, num_tables));
  }
  for (const ControlPlan::Carried& carried : control_.carried) {
    reads_initial_in_place_ =
        reads_initial_in_place_ && carried.type == carried.initial_type;
  }
}

ControlRun::~ControlRun() = default;

bool ControlRun::Launch(const void* state, void* const* args,
                        LaunchContext& context) {
  return static_cast<ControlRun*>(const_cast<void*>(state))->Run(args, context);
}

bool ControlRun::Run(void* const* args, LaunchContext& context) {
  const bool is_while = control_.kind == ControlKind::kWhile;
  if (!std::equal(args_.begin(), args_.end(), args)) {
    std::copy_n(args, args_.size(), args_.begin());
    if (is_while) {
      LayWhile();
    } else {
      LayOnce();
    }
  }
  return is_while ? RunWhile(context) : RunOnce(context);
}

char* ControlRun::result(size_t index) const {
  void* given = args_[num_operands_ + index];
  return given != nullptr ? static_cast<char*>(given)
                          : scratch() + control_.carried[index].result_offset;
}

absl::Span<void* const> ControlRun::PackedFor(size_t body) const {
  const size_t num_inputs = control_.bodies[0]->program().inputs().size();
  size_t first = num_inputs + num_predicates();
  for (size_t i = 0; i < body; ++i) {
    first += control_.bodies[i]->packed().size();
  }
  return absl::MakeConstSpan(args_).subspan(
      first, control_.bodies[body]->packed().size());
}

void ControlRun::LayOnce() {
  const auto args = absl::MakeConstSpan(args_);
  std::vector<void*> results(args_.begin() + num_operands_,
                             args_.begin() + num_operands_ + num_results_);
  for (size_t i = 0; i < control_.unread.size(); ++i) {
    if (control_.unread[i] >= 0) results[i] = scratch() + control_.unread[i];
  }
  for (size_t i = 0; i < bodies_.size(); ++i) {
    bodies_[i]->Lay(0, {.inputs = args.subspan(
                            num_predicates(), num_operands_ - num_predicates()),
                        .packed = PackedFor(i),
                        .outputs = results,
                        .arena = control_.scratch_bytes > 0
                                     ? scratch() + control_.arena_offset
                                     : nullptr});
  }
}

bool ControlRun::RunOnce(LaunchContext& context) {
  const bool is_if = control_.kind == ControlKind::kIf;
  const int body = !is_if || IsTrue(operand(0)) ? 0 : 1;
  return bodies_[body]->Run(0, context) || Fail(body, -1, context);
}

void ControlRun::LayWhile() {
  std::vector<void*> inputs(args_.begin(), args_.begin() + num_operands_);
  std::vector<void*> results, spares;
  for (size_t i = 0; i < num_results_; ++i) {
    results.push_back(result(i));
    spares.push_back(spare(i));
  }
  void* predicate = scratch() + control_.predicate_offset;
  void* arena = scratch() + control_.arena_offset;
  for (const Table table : {kFirst, kFromResult, kFromSpare}) {
    if (table != kFirst) {
      const std::vector<void*>& from = table == kFromResult ? results : spares;
      std::copy(from.begin(), from.end(), inputs.begin());
    }
    bodies_[0]->Lay(table, {.inputs = inputs,
                            .packed = PackedFor(0),
                            .outputs = absl::MakeConstSpan(&predicate, 1),
                            .arena = arena});
    bodies_[1]->Lay(table, {.inputs = inputs,
                            .packed = PackedFor(1),
                            .outputs = table == kFromResult ? spares : results,
                            .arena = arena});
  }
}

bool ControlRun::RunWhile(LaunchContext& context) {
  const void* predicate = scratch() + control_.predicate_offset;
  Table table = kFirst;
  if (!reads_initial_in_place_) {
    CopyInitial(kFromSpare);
    table = kFromSpare;
  }
  for (int64_t round = 0;; ++round) {
    TraceSpan span("step", "round");
    span.Add("round", round);
    if (outcome_.must_end()) {
      return context.Fail(
          Annotate(outcome_.status(), absl::StrCat("before round ", round)));
    }
    if (!bodies_[0]->Run(table, context)) return Fail(0, round, context);
    if (!IsTrue(predicate)) break;
    if (!bodies_[1]->Run(table, context)) return Fail(1, round, context);
    table = table == kFromResult ? kFromSpare : kFromResult;
  }
  if (table == kFirst) CopyInitial(kFromResult);
  if (table == kFromSpare) CopySpareToResults();
  return true;
}

void ControlRun::CopyInitial(Table to) {
  for (size_t i = 0; i < num_results_; ++i) {
    const ControlPlan::Carried& carried = control_.carried[i];
    CopyElements({.data = operand(i), .type = carried.initial_type},
                 {.data = to == kFromResult ? result(i) : spare(i),
                  .type = carried.type});
  }
}

void ControlRun::CopySpareToResults() {
  for (size_t i = 0; i < num_results_; ++i) {
    const int64_t bytes = control_.carried[i].type.extent_bytes();
    if (bytes > 0) std::memcpy(result(i), spare(i), bytes);
  }
}

bool ControlRun::Fail(int body, int64_t round, LaunchContext& context) const {
  const absl::string_view name = BodyNames(control_.kind)[body];
  return context.Fail(Annotate(
      context.status,
      round < 0 ? std::string(name) : absl::StrCat(name, ", round ", round)));
}

StepLaunch MakeLaunch(const Step& step, const Binding& binding,
                      Outcome& outcome,
                      std::vector<std::unique_ptr<KernelInstance>>& instances) {
  if (step.control != nullptr) {
    instances.push_back(std::make_unique<ControlRun>(step, binding, outcome));
    return {.fn = &ControlRun::Launch, .state = instances.back().get()};
  }
  const Prepared& prepared = *step.prepared;
  if (prepared.make_instance != nullptr) {
    instances.push_back(prepared.make_instance());
    return {.fn = prepared.launch, .state = instances.back().get()};
  }
  return {.fn = prepared.launch, .state = prepared.state.get()};
}

}  // namespace mica
