// Lays a function's steps out where it is called.
//
// A function is planned once for all its calls, up to the point where slices
// get their places in the arena (Planner::Draft). A call takes its steps over
// as they are; what changes is whose memory their addresses are counted from.
// An input's is the operand's, an output's the call's result, a slice becomes
// one of this Plan, and so do constants, folded values and packed copies. The
// arena, streams and the queue are then planned over all steps, with lifetimes
// as exact as if there had been no function.

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analysis/passes/origins.h"
#include "analysis/plan/control_plan.h"
#include "analysis/plan/planner.h"
#include "framework/base/status.h"
#include "framework/ir/control_flow.h"

namespace mica {

// One call, while its steps are added.
class Planner::CallLayout {
 public:
  CallLayout(Planner& planner, OpId id, const Draft& draft)
      : planner_(planner),
        plan_(*planner.plan_),
        op_(planner.program().ops()[id]),
        draft_(draft),
        body_(*draft.plan),
        results_(op_.results.size()) {
    for (ValueId operand : BodyOperands(op_)) {
      operands_.push_back(planner.PlaceOf(operand));
    }
    AddSites(id);
    AddSlices();
    if (planner.options_.reuse_buffers) TakeInputs(id);
    first_constant_ = planner.FirstConstantOf(body_.program());
    AddFolds();
    AddPacked();
    AddSteps(0, body_.num_compute());
  }

  const Op& op() const { return op_; }

  bool has_commits() const {
    return body_.num_compute() < static_cast<StepId>(body_.steps().size());
  }

  // What runs with the updates.
  void AddCommits() {
    // What only these steps use lives from here on.
    const StepId shift = planner_.current_step() - body_.num_compute();
    for (size_t i = 0; i < draft_.slices.size(); ++i) {
      const Lifetime& slice = draft_.slices[i];
      if (slice.first < body_.num_compute() || slice.bytes == 0) continue;
      Lifetime& here = planner_.slices_[first_slice_ + i];
      here = {.first = slice.first + shift,
              .last = slice.last + shift,
              .bytes = slice.bytes};
    }
    AddSteps(body_.num_compute(), static_cast<StepId>(body_.steps().size()));
  }

 private:
  void AddSites(OpId id) {
    first_site_ = static_cast<int32_t>(plan_.calls_.size());
    const OpId shift = op_.source.origin_shift;
    plan_.calls_.push_back(
        {.function = op_.bodies[0].get(), .op = id, .origin_shift = shift});
    for (CallSite site : body_.calls()) {
      site.caller += first_site_ + 1;
      site.origin_shift += shift;
      plan_.calls_.push_back(site);
    }
  }

  void AddSlices() {
    first_slice_ = static_cast<SliceId>(planner_.slices_.size());
    const StepId first_step = planner_.current_step();
    for (Lifetime slice : draft_.slices) {
      if (slice.first >= body_.num_compute()) slice = {};  // See AddCommits().
      slice.first += first_step;
      slice.last = first_step + std::min(slice.last, body_.num_compute() - 1);
      planner_.slices_.push_back(slice);
    }
  }

  // Inputs that die in this call lend their memory to results, as operands of
  // other ops do.
  void TakeInputs(OpId id) {
    const std::vector<ValueId> operands = BodyOperands(op_);
    for (const Reuse& reuse : draft_.reuses) {
      const ValueId operand = operands[reuse.input];
      const ValueId base = planner_.resolved_[operand].base;
      const SliceId slice = planner_.places_[base].slice;
      const bool is_read_once =
          std::count_if(operands.begin(), operands.end(), [&](ValueId other) {
            return planner_.resolved_[other].base == base;
          }) == 1;
      if (slice < 0 || !is_read_once || planner_.reads_.last_op[base] != id ||
          planner_.is_escaping_[base] ||
          planner_.resolved_[operand].offset != 0 ||
          planner_.program().type(base).extent_bytes() != reuse.bytes) {
        continue;
      }
      const Location& at = body_.args()[reuse.result];
      if (at.home == Home::kArena) {
        const SliceId own = draft_.arg_slices[reuse.result];
        taken_.resize(draft_.slices.size(), -1);
        taken_[own] = slice;
        planner_.slices_[first_slice_ + own] = {};  // No step names it.
      } else if (at.home == Home::kOutput && Uses(at.index) > 0) {
        Place& result = planner_.places_[op_.results[at.index]];
        if (result.location.home == Home::kOutput) {
          planner_.output_slices_.push_back({slice, result.location.index});
        } else if (result.location.home == Home::kNone) {
          result = {.location = {.home = Home::kArena}, .slice = slice};
        }
      }
    }
  }

  void AddFolds() {
    const StepId step_here = planner_.current_step();
    first_folded_ = static_cast<int32_t>(plan_.folded_.size());
    for (const FoldedValue& value : body_.folded()) {
      plan_.folded_.push_back({.bytes = value.bytes});
    }
    for (Step step : body_.folds()) {
      const auto args =
          body_.fold_args().subspan(step.first_arg, step.num_args);
      step.first_arg = static_cast<int32_t>(plan_.fold_args_.size());
      step.call = SiteOf(step);
      for (const Location& arg : args) {
        plan_.fold_args_.push_back(PlaceOf(arg, step_here).location);
      }
      plan_.folds_.push_back(std::move(step));
    }
  }

  void AddPacked() {
    const StepId step_here = planner_.current_step();
    for (size_t i = 0; i < body_.packed().size(); ++i) {
      PackedOperand packed = body_.packed()[i];
      packed.from = PlaceOf(packed.from, step_here).location;
      const auto& [kernel, operand] = draft_.packed_for[i];
      packed_.push_back(planner_.AddPacked(kernel, operand, std::move(packed)));
    }
  }

  // Adds the function's steps [begin, end) behind those that there are. All but
  // the addresses that lead out of the function is copied as it is.
  void AddSteps(StepId begin, StepId end) {
    if (begin == end) return;
    const absl::Span<const Step> steps =
        body_.steps().subspan(begin, end - begin);
    const int32_t first = steps.front().first_arg;
    const int32_t num_args =
        steps.back().first_arg + steps.back().num_args - first;
    const auto shift =
        static_cast<int32_t>(planner_.arg_slices_.size()) - first;
    const auto args = body_.args().subspan(first, num_args);
    const auto bytes = body_.arg_bytes().subspan(first, num_args);
    plan_.args_.insert(plan_.args_.end(), args.begin(), args.end());
    plan_.arg_bytes_.insert(plan_.arg_bytes_.end(), bytes.begin(), bytes.end());
    AddArgSlices(steps, begin);
    AddBorders(begin, first, num_args, shift);
    for (const Step& step : steps) {
      Step& added = plan_.steps_.emplace_back(step);
      added.first_arg += shift;
      added.call = SiteOf(step);
    }
  }

  // Says in which slices of this Plan the steps' args are. How long its own
  // slices live AddSlices() has said of steps that compute.
  void AddArgSlices(absl::Span<const Step> steps, StepId begin) {
    const bool touches = begin > 0 || !taken_.empty();
    StepId here = planner_.current_step();
    for (const Step& step : steps) {
      for (int32_t i = 0; i < step.num_args; ++i) {
        const SliceId own = draft_.arg_slices[step.first_arg + i];
        const SliceId slice = own < 0 ? -1 : SliceOf(own);
        planner_.arg_slices_.push_back(slice);
        if (touches) planner_.Touch(slice, here);
      }
      ++here;
    }
  }

  // Sets the addresses of args [first, first + num_args) of the function, the
  // first of which are of step `begin`, that lead out of it.
  void AddBorders(StepId begin, int32_t first, int32_t num_args,
                  int32_t shift) {
    const StepId first_step = planner_.current_step();
    auto it = std::lower_bound(
        draft_.borders.begin(), draft_.borders.end(), first,
        [](const Draft::Border& border, int arg) { return border.arg < arg; });
    for (; it != draft_.borders.end() && it->arg < first + num_args; ++it) {
      const StepId step = first_step + it->step - begin;
      const Place place = PlaceOf(body_.args()[it->arg], step);
      planner_.Touch(place.slice, step);
      planner_.NoteWrite(place.location, step);
      plan_.args_[it->arg + shift] = place.location;
      planner_.arg_slices_[it->arg + shift] = place.slice;
    }
  }

  int32_t SiteOf(const Step& step) const { return first_site_ + 1 + step.call; }

  int Uses(int32_t result) const {
    return planner_.reads_.uses[op_.results[result]];
  }

  // Where here is what is at `location`, in no slice of the function, when step
  // `step` of this Plan uses it.
  Place PlaceOf(Location location, StepId step) {
    switch (location.home) {
      case Home::kNone:
      case Home::kArena:  // A function's is in slices.
        return {};
      case Home::kInput:
        return Within(operands_[location.index], location.offset);
      case Home::kOutput:
        return Within(ResultOf(location.index, step), location.offset);
      case Home::kConstant:
        location.index += first_constant_;
        break;
      case Home::kFolded:
        location.index += first_folded_;
        break;
      case Home::kPacked:
        location.index = packed_[location.index];
        break;
      case Home::kVariable:  // A function has none.
        break;
    }
    return {.location = location};
  }

  static Place Within(Place place, int64_t offset) {
    place.location.offset += offset;
    return place;
  }

  SliceId SliceOf(SliceId slice) const {
    if (!taken_.empty() && taken_[slice] >= 0) return taken_[slice];
    return first_slice_ + slice;
  }

  // Placed when the first step writes it, so that it lives no longer.
  const Place& ResultOf(int32_t index, StepId step) {
    Place& place = results_[index];
    if (place.location.home != Home::kNone) return place;
    const ValueId id = op_.results[index];
    Place unread;
    Place& of_value = Uses(index) > 0 ? planner_.places_[id] : unread;
    if (of_value.location.home == Home::kNone) {
      const int64_t bytes = planner_.program().type(id).extent_bytes();
      of_value = {.location = {.home = Home::kArena},
                  .slice = planner_.NewSlice(bytes, step)};
    }
    place = of_value;
    return place;
  }

  Planner& planner_;
  Plan& plan_;
  const Op& op_;
  const Draft& draft_;
  const Plan& body_;
  std::vector<Place> operands_, results_;
  int32_t first_site_ = 0, first_constant_ = 0, first_folded_ = 0;
  SliceId first_slice_ = 0;
  // By slice of the function: the operand's in which it lies, or -1. Empty if
  // none does.
  std::vector<SliceId> taken_;
  std::vector<int32_t> packed_;  // By packed copy of the function.
};

absl::Status Planner::AddCallSteps(OpId id) {
  const Op& op = program().ops()[id];
  std::shared_ptr<const Draft> draft;
  if (const auto it = commit_drafts_.find(&op); it != commit_drafts_.end()) {
    draft = it->second;
  } else {
    MICA_ASSIGN_OR_RETURN(draft, DraftOf(op, /*wanted=*/{}));
  }
  MICA_RETURN_IF_ERROR(CheckResults(program(), op, *draft->plan));
  if (reserved_.insert(draft.get()).second) {
    ReserveForCalls(op.bodies[0].get(), *draft);
  }
  auto layout = std::make_shared<CallLayout>(*this, id, *draft);
  if (layout->has_commits()) commit_calls_.push_back(std::move(layout));
  return absl::OkStatus();
}

void Planner::ReserveForCalls(const Program* function, const Draft& draft) {
  const absl::Span<const Op> ops = program().ops();
  const auto count = std::count_if(ops.begin(), ops.end(), [&](const Op& op) {
    return !op.bodies.empty() && op.bodies[0].get() == function;
  });
  const auto reserve = [count](auto& table, size_t size) {
    table.reserve(table.size() + count * size);
  };
  reserve(plan_->steps_, draft.plan->steps().size());
  reserve(plan_->args_, draft.arg_slices.size());
  reserve(plan_->arg_bytes_, draft.arg_slices.size());
  reserve(arg_slices_, draft.arg_slices.size());
  reserve(slices_, draft.slices.size());
}

CallCommits Planner::CommitsOf(const Op& call, const std::vector<int>& wanted) {
  const auto draft = options_.inline_calls
                         ? DraftOf(call, wanted)
                         : absl::UnimplementedError("calls are steps");
  if (!draft.ok()) {
    // What fails here is told when the call's steps are added.
    return {.results = std::vector<bool>(call.results.size(), false),
            .inputs = std::vector<bool>(BodyOperands(call).size(), false),
            .kept = std::vector<bool>(call.results.size(), false)};
  }
  commit_drafts_[&call] = *draft;
  return (*draft)->commits;
}

absl::Status Planner::AddCommits() {
  auto call = commit_calls_.begin();
  for (size_t i = 0; has_commits_ && i < program().ops().size(); ++i) {
    const Op& op = program().ops()[i];
    if (!IsCommitted(op)) continue;
    if (!op.bodies.empty()) {
      if (call != commit_calls_.end() && &(*call)->op() == &op) {
        (*call++)->AddCommits();
      }
      continue;
    }
    const absl::Status status = AddOpStep(static_cast<OpId>(i));
    if (!status.ok()) return Annotate(status, Describe(op));
  }
  commit_calls_.clear();
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const Planner::Draft>> Planner::DraftOf(
    const Op& call, const std::vector<int>& wanted) {
  const std::shared_ptr<const Program>& function = call.bodies[0];
  std::vector<Change> inputs = InputsOf(call);
  std::shared_ptr<const Draft>& known = made_->drafts[{
      {function.get(), Role::kFunction, inputs}, wanted, is_in_body_}];
  if (known == nullptr) {
    Planner planner(*this, options_, Role::kFunction, std::move(inputs));
    planner.wanted_commits_ = wanted;
    auto draft = planner.RunDraft(function);
    if (!draft.ok()) {
      return Annotate(draft.status(), absl::StrCat("@", function->name()));
    }
    known = *std::move(draft);
  }
  return known;
}

absl::StatusOr<std::shared_ptr<const Planner::Draft>> Planner::RunDraft(
    std::shared_ptr<const Program> program) {
  plan_->origins_ = OriginsOf(*program);
  plan_->program_ = std::move(program);
  MICA_RETURN_IF_ERROR(MakeSteps());
  auto draft = std::make_shared<Draft>();
  draft->commits = CommitsMade();
  draft->plan = std::move(plan_);
  draft->arg_slices = std::move(arg_slices_);
  draft->slices = std::move(slices_);
  draft->reuses = std::move(reuses_);
  draft->packed_for = std::move(packed_for_);
  const Plan& plan = *draft->plan;
  for (StepId step = 0; step < static_cast<StepId>(plan.steps().size());
       ++step) {
    const int32_t first = plan.steps()[step].first_arg;
    for (int32_t i = first; i < first + plan.steps()[step].num_args; ++i) {
      const bool leads_out =
          draft->arg_slices[i] < 0 && plan.args()[i].home != Home::kNone;
      if (leads_out) draft->borders.push_back({.arg = i, .step = step});
    }
  }
  return draft;
}

CallCommits Planner::CommitsMade() const {
  CallCommits commits;
  for (ValueId id : program().outputs()) {
    commits.results.push_back(has_commits_ && commit_targets_[id] != kNoValue);
  }
  commits.inputs.assign(program().inputs().size(), false);
  commits.kept.assign(program().outputs().size(), false);
  for (const Location& at : plan_->args().subspan(first_commit_arg_)) {
    if (at.home == Home::kInput) commits.inputs[at.index] = true;
    if (at.home == Home::kOutput) commits.kept[at.index] = true;
  }
  return commits;
}

int32_t Planner::FirstConstantOf(const Program& function) {
  if (function.constants().empty()) return 0;
  const auto [it, is_new] = first_constants_.try_emplace(&function, 0);
  if (is_new) it->second = AddConstants(function.constants());
  return it->second;
}

}  // namespace mica
