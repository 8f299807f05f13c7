#include "analysis/plan/planner.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "analysis/passes/rewrite.h"
#include "framework/base/status.h"
#include "framework/ir/control_flow.h"
#include "framework/ir/fetch_ahead.h"
#include "framework/tensor/parts.h"
#include "framework/tensor/tensor.h"
#include "framework/trace/recorder.h"
#include "kernels/cpu/team_size.h"

namespace mica {

absl::StatusOr<std::shared_ptr<const Plan>> Planner::Run(
    std::shared_ptr<const Program> program, LargeVector<OpId> origins) {
  plan_->num_threads_ = options_.num_threads;
  plan_->team_size_ = options_.has_queue() ? 1 : options_.num_threads;
  const cpu::TeamSize team(plan_->team_size_);
  plan_->program_ = std::move(program);
  plan_->origins_ = std::move(origins);
  MICA_RETURN_IF_ERROR(MakeSteps());
  // The memory of what isn't read again serves the next tables.
  reads_ = {};
  resolved_ = {};
  places_ = {};
  if (options_.has_queue()) OrderForQueue();
  FindSaves();
  {
    const TraceSpan span("analysis", "pack memory");
    if (options_.reuse_buffers) LendOutputs();
    // Bodies pack small arenas of their own.
    if (choices_ != nullptr && role_ == Role::kProgram) {
      MICA_RETURN_IF_ERROR(TakeOffsets());
    } else {
      AssignOffsets();
    }
    MarkReadFolds();
  }
  if (options_.num_streams > 1) PlaceOnStreams();
  if (is_queue_of_use_) PlaceInQueue();
  return std::move(plan_);
}

Planner::Planner(const Planner& outer, const PlanOptions& options, Role role,
                 std::vector<Change> inputs)
    : ops_(outer.ops_),
      kernels_(outer.kernels_),
      options_(options),
      selector_(outer.kernels_, options.prepare_aten),
      made_(outer.made_),
      role_(role),
      is_in_body_(outer.is_in_body_ || role == Role::kBody),
      inputs_(std::move(inputs)),
      plan_(new Plan) {
  if (outer.choices_ != nullptr) set_choices(*outer.choices_);
  plan_->names_ = outer.plan_->names_;
}

absl::Status Planner::MakeSteps() {
  {
    const TraceSpan span("analysis", "resolve views");
    if (!has_reads_) reads_ = FindReads(this->program());
    MICA_ASSIGN_OR_RETURN(resolved_,
                          ResolveViews(this->program(), reads_.views));
    NoteLastOps();
  }
  {
    const TraceSpan span("analysis", "place results, select kernels");
    PlaceExternals();
    PlaceOutputs();
    MarkFolded();
    PlaceCommits();
    MICA_RETURN_IF_ERROR(AddOpSteps());
    MICA_RETURN_IF_ERROR(AddOutputCopies());
    MICA_RETURN_IF_ERROR(AddUpdates());
    MoveToOutputs();
  }
  return absl::OkStatus();
}

void Planner::PlaceExternals() {
  places_.resize(program().num_values());
  is_updated_.assign(program().num_values(), false);
  is_escaping_.assign(program().num_values(), false);
  auto place = [this](ValueId id, Home home, size_t index) {
    places_[id].location = {.home = home, .index = static_cast<int>(index)};
  };
  for (size_t i = 0; i < program().inputs().size(); ++i) {
    place(program().inputs()[i], Home::kInput, i);
  }
  for (size_t i = 0; i < program().variables().size(); ++i) {
    place(program().variables()[i].value, Home::kVariable, i);
  }
  for (size_t i = 0; i < program().constants().size(); ++i) {
    place(program().constants()[i].value, Home::kConstant, i);
  }
  AddConstants(program().constants());
  for (const Update& update : program().updates()) {
    is_updated_[update.target] = true;
    is_escaping_[resolved_[update.value].base] = true;
  }
}

int32_t Planner::AddConstants(absl::Span<const Constant> constants) {
  const auto first = static_cast<int32_t>(plan_->constant_offsets_.size());
  // One word behind all, so that there always is an address.
  const size_t words = plan_->constant_words_.size();
  int64_t end =
      static_cast<int64_t>(words == 0 ? 0 : words - 1) * sizeof(uint64_t);
  for (const Constant& constant : constants) {
    plan_->constant_offsets_.push_back(end);
    end += AlignUp(static_cast<int64_t>(constant.bytes.size()));
  }
  plan_->constant_words_.resize(end / sizeof(uint64_t) + 1);
  for (size_t i = 0; i < constants.size(); ++i) {
    const std::vector<uint8_t>& bytes = constants[i].bytes;
    if (bytes.empty()) continue;
    std::memcpy(const_cast<void*>(plan_->constant(first + static_cast<int>(i))),
                bytes.data(), bytes.size());
  }
  return first;
}

// A view's memory is its base's.
void Planner::NoteLastOps() {
  for (OpId view : reads_.views) {
    const ValueId id = program().ops()[view].results[0];
    OpId& last = reads_.last_op[resolved_[id].base];
    last = std::max(last, reads_.last_op[id]);
  }
}

// A computed output is written where the caller wants it, and so is what an
// output shows all of in another form; other views, inputs and what is returned
// twice are copied there.
void Planner::PlaceOutputs() {
  const absl::Span<const ValueId> outputs = program().outputs();
  first_writes_.assign(outputs.size(), -1);
  for (ValueId id : outputs) is_escaping_[resolved_[id].base] = true;
  for (const bool are_views : {false, true}) {
    for (size_t i = 0; i < outputs.size(); ++i) {
      const ValueId base = resolved_[outputs[i]].base;
      const bool is_placed = places_[base].location.home != Home::kNone;
      if ((base != outputs[i]) != are_views || IsExternal(base) || is_placed) {
        continue;
      }
      if (are_views && !IsWhole(outputs[i])) continue;
      places_[base].location = {.home = Home::kOutput,
                                .index = static_cast<int>(i)};
    }
  }
}

bool Planner::IsWhole(ValueId view) const {
  const TensorType& type = program().type(view);
  const TensorType& base = program().type(resolved_[view].base);
  return resolved_[view].offset == 0 && type.is_dense() && base.is_dense() &&
         type.extent_bytes() == base.extent_bytes();
}

const KernelRequest& Planner::MakeRequest(const Op& op) {
  request_.def = op.def;
  request_.arguments = &op.arguments;
  request_.num_threads = NumPieces(op);
  request_.operands.clear();
  ForEachValue(op.arguments, [&](ValueId id) {
    request_.operands.push_back(
        {.type = program().type(id), .is_frozen = IsFrozen(id)});
  });
  request_.results.clear();
  for (ValueId id : op.results) {
    request_.results.push_back(
        {.type = program().type(id), .is_used = reads_.uses[id] > 0});
  }
  return request_;
}

absl::string_view Planner::NameOf(const Selected& selected) {
  absl::string_view& name = kernel_names_[selected.prepared.get()];
  if (name.empty()) name = plan_->names_->emplace_back(selected.kernel);
  return name;
}

Planner::SliceId Planner::NewSlice(int64_t bytes, StepId step) {
  slices_.push_back({.first = step, .last = step, .bytes = bytes});
  return static_cast<SliceId>(slices_.size()) - 1;
}

void Planner::Touch(SliceId slice, StepId step) {
  if (slice >= 0) slices_[slice].last = std::max(slices_[slice].last, step);
}

Planner::Place Planner::PlaceOf(ValueId value) const {
  Place place = places_[resolved_[value].base];
  place.location.offset += resolved_[value].offset;
  place.bytes = program().type(value).extent_bytes();
  return place;
}

absl::Status Planner::AddOpSteps() {
  // Room at once: what grows by doubling is moved as often.
  const size_t num_steps = program().ops().size() - reads_.views.size();
  constexpr size_t kUsualArgs = 4;
  plan_->steps_.reserve(num_steps + program().outputs().size() +
                        program().updates().size());
  plan_->args_.reserve(kUsualArgs * num_steps);
  plan_->arg_bytes_.reserve(kUsualArgs * num_steps);
  arg_slices_.reserve(kUsualArgs * num_steps);
  slices_.reserve(num_steps);
  for (size_t i = 0; i < program().ops().size(); ++i) {
    FetchAhead(program().ops(), i);
    const Op& op = program().ops()[i];
    if (op.def->is_view() || (op.bodies.empty() && IsCommitted(op))) continue;
    const auto id = static_cast<OpId>(i);
    const absl::Status status = is_folded_[i] ? AddFold(id) : AddOpStep(id);
    if (!status.ok()) return Annotate(status, Describe(op));
  }
  return absl::OkStatus();
}

absl::Status Planner::AddOpStep(OpId id) {
  const Op& op = program().ops()[id];
  if (!op.bodies.empty()) {
    const bool is_call = ControlKindOf(*op.def) == ControlKind::kCall;
    return is_call && options_.inline_calls ? AddCallSteps(id)
                                            : AddControlStep(id);
  }
  MICA_ASSIGN_OR_RETURN(const Selected selected,
                        selector_.Select(MakeRequest(op)));
  if (const auto part = part_steps_.find(&op); part != part_steps_.end()) {
    MICA_RETURN_IF_ERROR(AddSave(op, part->second));
  }
  const std::vector<ValueId> operands = OperandsOf(op);
  Step step{.name = op.def->name(),
            .kernel = NameOf(selected),
            .prepared = selected.prepared,
            .op = id};
  std::vector<Place> operand_places;
  for (ValueId operand : operands) operand_places.push_back(PlaceOf(operand));
  AddArgs(step, operand_places, PlaceResults(op, *selected.prepared, operands));
  if (role_ == Role::kFunction && !IsCommitted(op)) {
    NoteReuse(op, step, operands);
  }
  plan_->steps_.push_back(std::move(step));
  return absl::OkStatus();
}

int Planner::FindInPlaceOperand(const Op& op, const Prepared& prepared,
                                const std::vector<ValueId>& operands) const {
  if (!options_.reuse_buffers || op.results.empty()) return -1;
  for (size_t i = 0; i < operands.size() && i < 32; ++i) {
    if (places_[resolved_[operands[i]].base].slice >= 0 &&
        MayTakeOperand(op, prepared, operands, i)) {
      return static_cast<int>(i);
    }
  }
  return -1;
}

bool Planner::MayTakeOperand(const Op& op, const Prepared& prepared,
                             const std::vector<ValueId>& operands,
                             size_t index) const {
  if ((prepared.inplace_operands >> index & 1) == 0) return false;
  const TensorType& result = program().type(op.results[0]);
  const OpId id = program().value(op.results[0]).index;
  const ValueId base = resolved_[operands[index]].base;
  const TensorType& operand = program().type(operands[index]);
  const bool dies_here = reads_.last_op[base] == id && !is_escaping_[base];
  const bool fits =
      operand.dims == result.dims && resolved_[operands[index]].offset == 0 &&
      operand.EffectiveStrides() == result.EffectiveStrides() &&
      ElementBytes(operand.dtype) == ElementBytes(result.dtype) &&
      program().type(base).extent_bytes() == result.extent_bytes();
  if (!dies_here || !fits) return false;
  // The same bytes read in another way, or by an operand that the kernel
  // still reads after it has begun to write.
  for (size_t j = 0; j < operands.size(); ++j) {
    const bool is_same = resolved_[operands[j]].offset == 0 &&
                         program().type(operands[j]) == operand && j < 32 &&
                         (prepared.inplace_operands >> j & 1) != 0;
    const bool may_overlap =
        j < 32 && (prepared.overlapping_operands >> j & 1) != 0;
    if (resolved_[operands[j]].base == base && !is_same && !may_overlap) {
      return false;
    }
  }
  return true;
}

void Planner::NoteReuse(const Op& op, const Step& step,
                        const std::vector<ValueId>& operands) {
  if (op.results.empty() || reads_.uses[op.results[0]] == 0 ||
      FindInPlaceOperand(op, *step.prepared, operands) >= 0) {
    return;
  }
  for (size_t i = 0; i < operands.size() && i < 32; ++i) {
    const Value& base = program().value(resolved_[operands[i]].base);
    if (base.kind != ValueKind::kInput ||
        !MayTakeOperand(op, *step.prepared, operands, i)) {
      continue;
    }
    reuses_.push_back({.input = base.index,
                       .result = step.first_arg + step.num_operands,
                       .bytes = base.type->extent_bytes()});
    return;
  }
}

std::vector<Planner::Place> Planner::PlaceResults(
    const Op& op, const Prepared& prepared,
    const std::vector<ValueId>& operands) {
  for (size_t i = 0; i < op.results.size(); ++i) {
    const ValueId id = op.results[i];
    Place& place = places_[id];
    if (reads_.uses[id] == 0) continue;
    const bool is_output = place.location.home == Home::kOutput;
    if (place.location.home != Home::kNone && !is_output) continue;
    const int inplace = i == 0 && !IsCommitted(op)
                            ? FindInPlaceOperand(op, prepared, operands)
                            : -1;
    const SliceId slice =
        inplace >= 0 ? places_[resolved_[operands[inplace]].base].slice : -1;
    if (is_output) {
      // What dies here lies there from the beginning.
      if (slice >= 0) output_slices_.push_back({slice, place.location.index});
      continue;
    }
    place.location.home = Home::kArena;
    place.slice =
        slice >= 0 ? slice : NewSlice(program().type(id).extent_bytes());
  }
  std::vector<Place> results;
  for (ValueId id : op.results) {
    results.push_back(places_[id]);
    results.back().bytes = program().type(id).extent_bytes();
  }
  return results;
}

void Planner::AddArgs(Step& step, const std::vector<Place>& operands,
                      const std::vector<Place>& results) {
  step.first_arg = static_cast<int32_t>(arg_slices_.size());
  step.num_operands = static_cast<int32_t>(operands.size());
  const auto add = [this](const Place& place) {
    Touch(place.slice);
    NoteWrite(place.location, current_step());
    plan_->args_.push_back(place.location);
    plan_->arg_bytes_.push_back(place.bytes);
    arg_slices_.push_back(place.slice);
  };
  for (const Place& operand : operands) add(operand);
  for (const PackRequest& pack : step.prepared->packs) {
    const int32_t arg = step.first_arg + pack.operand;
    const Location& from = plan_->args_[arg];
    const int32_t packed = AddPacked(step.prepared.get(), pack.operand,
                                     {.from = from,
                                      .from_bytes = plan_->arg_bytes_[arg],
                                      .bytes = pack.bytes,
                                      .layout = pack.layout,
                                      .pack = pack.pack});
    plan_->args_[arg] = {.home = Home::kPacked, .index = packed};
    plan_->arg_bytes_[arg] = 0;
    arg_slices_[arg] = -1;
  }
  for (const Place& result : results) add(result);
  if (step.prepared->scratch_bytes > 0) {
    add({.location = {.home = Home::kArena},
         .slice = NewSlice(step.prepared->scratch_bytes),
         .bytes = step.prepared->scratch_bytes});
  }
  step.num_args = static_cast<int32_t>(arg_slices_.size()) - step.first_arg;
}

// Steps of one kernel with equal requests share what it is prepared to.
int32_t Planner::AddPacked(const Prepared* kernel, int operand,
                           PackedOperand packed) {
  const auto next = static_cast<int32_t>(plan_->packed_.size());
  if (kernel != nullptr) {
    const Location& from = packed.from;
    const auto [it, is_new] = packed_.try_emplace(
        {kernel, operand, from.home, from.index, from.offset}, next);
    if (!is_new) return it->second;
  }
  plan_->packed_.push_back(std::move(packed));
  packed_for_.emplace_back(kernel, operand);
  return next;
}

absl::Status Planner::AddCopy(std::string name, const Place& from,
                              const TensorType& from_type, const Place& to,
                              const TensorType& to_type) {
  const OpDef* clone = ops_.Find("aten.clone");
  if (clone == nullptr) return absl::NotFoundError("no operator aten.clone");
  const Arguments arguments = {ValueRef{0}, Argument()};
  // Complex numbers are copied by their parts.
  KernelRequest request{.def = clone,
                        .arguments = &arguments,
                        .operands = {{.type = PartsType(from_type)}},
                        .results = {{.type = PartsType(to_type)}},
                        .num_threads = options_.num_threads};
  const absl::StatusOr<Selected> selected = selector_.Select(request);
  if (!selected.ok()) return Annotate(selected.status(), name);
  Step step{.name = plan_->names_->emplace_back(std::move(name)),
            .kernel = NameOf(*selected),
            .prepared = selected->prepared};
  AddArgs(step,
          {{.location = from.location,
            .slice = from.slice,
            .bytes = from_type.extent_bytes()}},
          {{.location = to.location,
            .slice = to.slice,
            .bytes = to_type.extent_bytes()}});
  plan_->steps_.push_back(std::move(step));
  return absl::OkStatus();
}

absl::Status Planner::AddOutputCopies() {
  for (size_t i = 0; i < program().outputs().size(); ++i) {
    const ValueId id = program().outputs()[i];
    const Location to = {.home = Home::kOutput, .index = static_cast<int>(i)};
    if (PlaceOf(id).location == to) continue;
    MICA_RETURN_IF_ERROR(AddCopy(absl::StrCat("copy output ", i), PlaceOf(id),
                                 program().type(id), {to},
                                 plan_->output_type(static_cast<int>(i))));
  }
  return absl::OkStatus();
}

}  // namespace mica
