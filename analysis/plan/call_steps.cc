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
    for (const Step& step : body_.steps().first(body_.num_compute())) {
      AddStep(step);
    }
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
    for (const Step& step : body_.steps().subspan(body_.num_compute())) {
      AddStep(step);
    }
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
        taken_.push_back({own, slice});
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
        plan_.fold_args_.push_back(PlaceOf(arg, /*slice=*/-1).location);
      }
      plan_.folds_.push_back(std::move(step));
    }
  }

  void AddPacked() {
    for (size_t i = 0; i < body_.packed().size(); ++i) {
      PackedOperand packed = body_.packed()[i];
      packed.from = PlaceOf(packed.from, /*slice=*/-1).location;
      const auto& [kernel, operand] = draft_.packed_for[i];
      packed_.push_back(planner_.AddPacked(kernel, operand, std::move(packed)));
    }
  }

  void AddStep(Step step) {
    const int32_t first = step.first_arg;
    step.first_arg = static_cast<int32_t>(planner_.arg_slices_.size());
    step.call = SiteOf(step);
    for (int32_t i = first; i < first + step.num_args; ++i) {
      const Place place = PlaceOf(body_.args()[i], draft_.arg_slices[i]);
      planner_.Touch(place.slice);
      planner_.NoteWrite(place.location, planner_.current_step());
      plan_.args_.push_back(place.location);
      plan_.arg_bytes_.push_back(body_.arg_bytes()[i]);
      planner_.arg_slices_.push_back(place.slice);
    }
    plan_.steps_.push_back(std::move(step));
  }

  int32_t SiteOf(const Step& step) const { return first_site_ + 1 + step.call; }

  int Uses(int32_t result) const {
    return planner_.reads_.uses[op_.results[result]];
  }

  // Where here is what is at `location` in the function, in its slice `slice`.
  Place PlaceOf(Location location, SliceId slice) {
    switch (location.home) {
      case Home::kNone:
        return {};
      case Home::kArena:
        return {.location = location, .slice = SliceOf(slice)};
      case Home::kInput:
        return Within(operands_[location.index], location.offset);
      case Home::kOutput:
        return Within(ResultOf(location.index), location.offset);
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
    for (const auto& [own, taken] : taken_) {
      if (own == slice) return taken;
    }
    return first_slice_ + slice;
  }

  // Placed when the first step writes it, so that it lives no longer.
  const Place& ResultOf(int32_t index) {
    Place& place = results_[index];
    if (place.location.home != Home::kNone) return place;
    const ValueId id = op_.results[index];
    Place unread;
    Place& of_value = Uses(index) > 0 ? planner_.places_[id] : unread;
    if (of_value.location.home == Home::kNone) {
      const int64_t bytes = planner_.program().type(id).extent_bytes();
      of_value = {.location = {.home = Home::kArena},
                  .slice = planner_.NewSlice(bytes)};
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
  // Slices of the function that lie in an operand's slice, and in which.
  std::vector<std::pair<SliceId, SliceId>> taken_;
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
  auto layout = std::make_shared<CallLayout>(*this, id, *draft);
  if (layout->has_commits()) commit_calls_.push_back(std::move(layout));
  return absl::OkStatus();
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
