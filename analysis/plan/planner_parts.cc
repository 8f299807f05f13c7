// Parts of inputs and variables are written where they are, and what was there
// is kept, so that a run that fails can be taken back.

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analysis/passes/program_facts.h"
#include "analysis/plan/part_writes.h"
#include "analysis/plan/planner.h"
#include "framework/base/status.h"

namespace mica {
namespace {

// A value of a request that the Program doesn't have: what was read.
constexpr ValueId kOldPart = -2;

// An operator's arguments from those of an op with a PartWrite; what that
// leaves open has its default.
Arguments ArgumentsFrom(const Op& op, const std::vector<int>& params,
                        const OpDef& def) {
  Arguments arguments;
  for (int param : params) {
    arguments.push_back(param == PartWrite::kPart ? Argument(ValueRef{kOldPart})
                                                  : op.arguments[param]);
  }
  const std::vector<Param>& all = def.schema().params;
  for (size_t i = params.size(); i < all.size(); ++i) {
    arguments.push_back(all[i].default_value);
  }
  return arguments;
}

}  // namespace

absl::StatusOr<Planner::PartSteps> Planner::PreparePart(const Op& op) {
  const PartWrite& part = *op.def->part_write();
  PartSteps steps;
  steps.reader = ops_.Find(part.reader);
  steps.writer = ops_.Find(part.writer);
  if (steps.reader == nullptr || steps.writer == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("no operator ", part.reader, " or ", part.writer));
  }
  steps.read_arguments = ArgumentsFrom(op, part.reader_params, *steps.reader);
  steps.write_arguments = ArgumentsFrom(op, part.writer_params, *steps.writer);
  const auto type_of = [&](ValueId id) -> const TensorType& {
    return id == kOldPart ? steps.old_type : program().type(id);
  };
  MICA_ASSIGN_OR_RETURN(
      const TensorTypes types,
      InferTypes(OpCall(*steps.reader, steps.read_arguments, type_of)));
  steps.old_type = types[0];
  steps.old_type.strides.clear();
  const auto request_of = [&](const OpDef* def, const Arguments& arguments,
                              const TensorType& result) {
    KernelRequest request{.def = def,
                          .arguments = &arguments,
                          .results = {{.type = result}},
                          .num_threads = options_.num_threads};
    ForEachValue(arguments, [&](ValueId id) {
      request.operands.push_back({.type = type_of(id)});
    });
    return request;
  };
  if (!steps.reader->is_view()) {
    MICA_ASSIGN_OR_RETURN(
        steps.read, selector_.Select(request_of(
                        steps.reader, steps.read_arguments, steps.old_type)));
  }
  MICA_ASSIGN_OR_RETURN(steps.write, selector_.Select(request_of(
                                         steps.writer, steps.write_arguments,
                                         program().type(op.results[0]))));
  return steps;
}

bool Planner::CanWritePart(const Op& op) {
  const auto in_place = [](const absl::StatusOr<Selected>& selected) {
    return selected.ok() && (selected->prepared->inplace_operands & 1) != 0;
  };
  if (!in_place(selector_.Select(MakeRequest(op)))) return false;
  absl::StatusOr<PartSteps> steps = PreparePart(op);
  // More than a half of it is as quickly computed aside.
  if (!steps.ok() || !in_place(steps->write) ||
      2 * steps->old_type.num_bytes() >
          program().type(op.results[0]).num_bytes()) {
    return false;
  }
  part_steps_[&op] = *std::move(steps);
  return true;
}

void Planner::PlaceParts() {
  part_targets_.assign(program().num_values(), kNoValue);
  if (!options_.write_parts || role_ != Role::kProgram ||
      !options_.reuse_buffers) {
    return;
  }
  part_targets_ = FindPartTargets(
      program(),
      {.resolved = resolved_,
       .is_placed =
           [this](ValueId id) {
             return places_[id].location.home != Home::kNone;
           },
       .can_write = [this](const Op& op) { return CanWritePart(op); }});
  absl::erase_if(part_steps_, [this](const auto& prepared) {
    return part_targets_[prepared.first->results[0]] == kNoValue;
  });
  for (const auto& [op, steps] : part_steps_) {
    places_[op->results[0]] = places_[part_targets_[op->results[0]]];
  }
}

std::vector<Planner::Place> Planner::PlacesOf(const Arguments& arguments,
                                              const Place& old_part) const {
  std::vector<Place> places;
  ForEachValue(arguments, [&](ValueId id) {
    places.push_back(id == kOldPart ? old_part : PlaceOf(id));
  });
  return places;
}

absl::Status Planner::AddSave(const Op& op, PartSteps& steps) {
  const int64_t bytes = steps.old_type.num_bytes();
  steps.old = {.location = {.home = Home::kArena},
               .slice = NewSlice(bytes),
               .bytes = bytes};
  steps.first_arg_of_save = static_cast<int32_t>(arg_slices_.size());
  undone_.push_back(&op);
  std::string name =
      absl::StrCat("save what ", op.def->name(), " is to overwrite");
  if (steps.reader->is_view()) {
    const OpCall::TypeOf type_of = [&](ValueId id) -> const TensorType& {
      return program().type(id);
    };
    const OpCall call(*steps.reader, steps.read_arguments, type_of);
    MICA_ASSIGN_OR_RETURN(const View view, steps.reader->view()(call));
    Place from = PlaceOf(ProgramFacts::ValueOf(op, 0));
    from.location.offset += view.offset * ElementBytes(steps.old_type.dtype);
    TensorType type = steps.old_type;
    type.strides = view.strides;
    return AddCopy(std::move(name), from, type, steps.old, steps.old_type);
  }
  Step step{.name = plan_->names_->emplace_back(std::move(name)),
            .kernel = NameOf(steps.read),
            .prepared = steps.read.prepared};
  AddArgs(step, PlacesOf(steps.read_arguments, steps.old), {steps.old});
  plan_->steps_.push_back(std::move(step));
  return absl::OkStatus();
}

void Planner::AddUndo() {
  for (auto it = undone_.rbegin(); it != undone_.rend(); ++it) {
    PartSteps& steps = part_steps_.at(*it);
    Step step{.name = plan_->names_->emplace_back(
                  absl::StrCat("take back ", (*it)->def->name())),
              .kernel = NameOf(steps.write),
              .prepared = steps.write.prepared};
    Place result = places_[(*it)->results[0]];
    result.bytes = program().type((*it)->results[0]).extent_bytes();
    AddArgs(step, PlacesOf(steps.write_arguments, steps.old), {result});
    undo_saves_.push_back(steps.first_arg_of_save);
    plan_->undo_.push_back({.step = std::move(step)});
  }
  KeepForUndo();
}

void Planner::KeepForUndo() {
  const StepId last = plan_->num_compute_ - 1;
  for (const Plan::Undo& undo : plan_->undo_) {
    for (int32_t i = 0; i < undo.step.num_args; ++i) {
      const SliceId slice = arg_slices_[undo.step.first_arg + i];
      if (slice < 0) continue;
      const bool is_own = slices_[slice].first < 0 ||
                          slices_[slice].first > last;  // Scratch of the undo.
      if (is_own) slices_[slice].first = last;
      slices_[slice].last = last;
    }
  }
}

void Planner::FindSaves() {
  if (plan_->undo_.empty()) return;
  absl::flat_hash_map<int32_t, StepId> steps;  // By first arg.
  for (StepId id = 0; id < plan_->num_compute_; ++id) {
    steps[plan_->steps_[id].first_arg] = id;
  }
  for (size_t i = 0; i < plan_->undo_.size(); ++i) {
    plan_->undo_[i].save = steps.at(undo_saves_[i]);
  }
}

}  // namespace mica
