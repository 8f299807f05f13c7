// Whether a record fits a call.

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "framework/base/hit_code.h"
#include "ops/all.h"
#include "python/capture/known/loud_warnings.h"
#include "python/capture/record/record.h"
#include "python/capture/values/numbers.h"
#include "python/interpreter/gc_pause.h"
#include "python/torch_side/tensors/autograd_access.h"
#include "python/torch_side/tensors/kept_casts.h"

namespace mica {
namespace {

// Whether the warnings that are errors or always shown are those of a record.
bool WarnsAs(int64_t recorded, Miss* miss) {
  if (LoudWarnings() == recorded) return true;
  if (miss != nullptr) {
    *miss = {.kind = "state",
             .note = {.path = "warnings.filters"},
             .expected = "the same errors and warnings that always show",
             .got = "others"};
  }
  return false;
}

// Goes on as time does, by 1 to 5 in a nanosecond. Where the processor tells
// that itself no clock is asked, whose code and data are out of the caches
// after a run.
int64_t Ticks() {
#if defined(__x86_64__)
  return static_cast<int64_t>(__builtin_ia32_rdtsc());
#else
  return HitTimes::Now();
#endif
}

bool MissesCast(const TensorMeta& wanted, Miss* miss) {
  if (miss != nullptr) {
    *miss = {.kind = "torch state",
             .note = {.path = "the cast of a weight that autocast keeps"},
             .expected = wanted.ToString(),
             .got = "another"};
  }
  return false;
}

}  // namespace

MICA_HIT_CODE void Record::Prefetch() {
  // In this time nobody reads so much that the second cache loses what is here.
  constexpr int64_t kMoment = 100'000;
  const int64_t now = Ticks();
  is_prefetched_ = true;
  if (now - std::exchange(looked_at_, now) < kMoment) return;
  PrefetchHitCode();
  mica::Prefetch(this, sizeof(*this));
  inputs_.Prefetch();
  PrefetchItems(lasting_states_);
  PrefetchItems(bound_.inputs.objects);
  PrefetchItems(bound_.states);
  TorchState::Prefetch();
  kernels_.Prefetch();
  guards_.Prefetch();
}

MICA_HIT_CODE bool Record::Fits(const CallArgs& args, const TorchState& now) {
  const GcPause pause;
  BoundCall bound = std::move(bound_);
  const bool fits = Matches(args, now, &bound, nullptr);
  bound.found.clear();
  bound.run.reset();
  bound.inputs.of_arrays.clear();
  bound_ = std::move(bound);
  return fits;
}

void Record::AddState(State state) {
  const bool is_found_anew = state.is_found_anew();
  if (is_found_anew) found_anew_.push_back(states_.size());
  lasting_states_.push_back(is_found_anew ? nullptr : state.tensor);
  states_.push_back(std::move(state));
}

MICA_HIT_CODE bool Record::BindStates(BoundCall* bound, Miss* miss) const {
  bound->states.assign(lasting_states_.begin(), lasting_states_.end());
  bound->found.clear();
  for (const size_t i : found_anew_) {
    const State& state = states_[i];
    if (state.drawn >= 0) {
      bound->found.emplace_back();
    } else if (state.cast.has_value()) {
      PyObject* weight =
          state.input < 0 ? state.tensor : bound->inputs.tensors[state.input];
      bound->found.push_back(KeptCast(weight, *state.cast));
      if (!bound->found.back()) return MissesCast(*state.cast, miss);
    } else {
      bound->found.push_back(GradOf(
          Gradients::Find(gradients_.leaves()[state.leaf], bound->inputs)));
    }
    bound->states[i] = bound->found.back().get();
  }
  return true;
}

MICA_HIT_CODE CallArgs Record::WithSlots(CallArgs args,
                                         std::vector<PyObject*>* values) const {
  if (slots_.empty()) return args;
  *values = slots_.Values();
  args.slots = values->data();
  args.num_slots = values->size();
  return args;
}

MICA_HIT_CODE bool Record::Matches(const CallArgs& args, const TorchState& now,
                                   BoundCall* bound, Miss* miss) {
  std::vector<PyObject*> values;
  if (!MatchesAll(WithSlots(args, &values), now, bound, miss)) return false;
  return absl::c_all_of(members_, [&](const std::shared_ptr<Record>& member) {
    return member->Matches(args, now, &member->bound_, miss);
  });
}

MICA_HIT_CODE bool Record::MatchesTorch(const TorchState& now,
                                        Miss* miss) const {
  if (now != torch_state_) {
    if (miss != nullptr) {
      *miss = {.kind = "torch state",
               .note = {.path = torch_state_.Difference(now)},
               .expected = "the same",
               .got = "another"};
    }
    return false;
  }
  if (!WarnsAs(loud_warnings_, miss)) return false;
  if (kernels_.Hold()) return true;
  if (miss != nullptr) {
    *miss = {.kind = "torch state",
             .note = {.path = absl::StrCat("the kernels of ",
                                           kernels_.FindChanged())},
             .expected = "those it had",
             .got = "others"};
  }
  return false;
}

MICA_HIT_CODE bool Record::MatchesBackward(Miss* miss) const {
  const BackwardPass* backward = this->backward();
  if (backward == nullptr) return true;
  const char* expected = nullptr;
  const char* got = backward->WhyEager();
  if (got != nullptr) {
    expected = "one that can be made for later";
  } else if (backward->IsOutdated()) {
    expected = "gradients that are laid out as recorded";
    got = "others";
  }
  if (expected == nullptr) return backward->CheckReads(miss);
  if (miss != nullptr) {
    *miss = {.kind = "torch state",
             .note = {.path = "the backward pass of the results"},
             .expected = expected,
             .got = got};
  }
  return false;
}

MICA_HIT_CODE bool Record::HasRecordedSizes(const BoundCall& bound,
                                            Miss* miss) const {
  for (size_t i = 0; i < bound.sizes.size(); ++i) {
    const NumberSource& source = size_inputs_.sources()[i];
    const double recorded = NumberOf(source.recorded.get()).value_or(0);
    if (bound.sizes[i] == recorded) continue;
    if (miss != nullptr) {
      *miss = {.kind = source.node < 0 ? "state" : "input",
               .note = source.note,
               .expected = absl::StrCat(recorded),
               .got = absl::StrCat(bound.sizes[i])};
    }
    return false;
  }
  return true;
}

MICA_HIT_CODE bool Record::MatchesAll(const CallArgs& args,
                                      const TorchState& now, BoundCall* bound,
                                      Miss* miss,
                                      const PromotedScalars* any_sizes) {
  const bool is_prefetched = std::exchange(is_prefetched_, false);
  // What follows takes addresses for objects.
  if (std::string path; guards_.any_gone() && IsGone(&path)) {
    if (miss != nullptr) *miss = Miss::OfGone(std::move(path));
    return false;
  }
  if (!MatchesBackward(miss) || !MatchesTorch(now, miss)) return false;
  if (!(any_sizes != nullptr
            ? inputs_.MatchButSizes(args, any_sizes->size_inputs(),
                                    &bound->inputs)
            : inputs_.Match(args, &bound->inputs, miss))) {
    return false;
  }
  // Of records that aren't the first to be tried most fail before this.
  if (!is_prefetched) guards_.Prefetch();
  if (!guards_.Check(miss) || !effects_.Check(miss) ||
      !host_inputs_.Read(bound->inputs, &bound->numbers, miss) ||
      !size_inputs_.Read(bound->inputs, &bound->sizes, miss) ||
      !(any_sizes != nullptr || sizes_ != nullptr ||
        HasRecordedSizes(*bound, miss)) ||
      !gradients_.Check(bound->inputs, miss)) {
    return false;
  }
  if (!BindStates(bound, miss)) return false;
  if (any_sizes != nullptr) return true;
  return FindRun(bound, miss) &&
         bound->run->memory.Check(bound->inputs.tensors, bound->states, miss);
}

bool Record::FitsButForSizes(const CallArgs& args, const TorchState& now,
                             const PromotedScalars& promoted) {
  if (recipe_.tape == nullptr && sizes_ == nullptr) return false;
  const GcPause pause;
  std::vector<PyObject*> values;
  BoundCall bound;
  if (!MatchesAll(WithSlots(args, &values), now, &bound, nullptr, &promoted)) {
    return false;
  }
  for (size_t i = 0; i < bound.inputs.tensors.size(); ++i) {
    const TensorMeta& meta = inputs_.tensors()[i].meta;
    if (!meta.Matches(bound.inputs.tensors[i])) return true;
  }
  if (!HasRecordedSizes(bound, nullptr)) return true;
  for (const std::string& path : promoted.size_inputs()) {
    const int node = inputs_.FindInt(path);
    if (node >= 0 && NumberOf(inputs_.recorded_number(node)) !=
                         NumberOf(bound.inputs.objects[node])) {
      return true;
    }
  }
  return false;
}

void Record::CompareNumbers(const CallArgs& args) const {
  std::vector<PyObject*> values;
  BoundInputs bound;
  inputs_.MatchButSizes(WithSlots(args, &values), {}, &bound);
}

std::vector<double> Record::GivenIn(const Record& other) const {
  // An argument's is known, and others were the same.
  std::vector<double> given = recipe_.given;
  for (size_t i = 0; i < given.size(); ++i) {
    const int node = other.inputs_.FindInt(recipe_.facts.given[i]);
    if (node < 0) continue;
    given[i] = NumberOf(other.inputs_.recorded_number(node)).value_or(0);
  }
  return given;
}

std::vector<std::string> Record::NumbersOfSizes() const {
  std::vector<std::string> paths;
  if (sizes_ == nullptr) return paths;
  const std::vector<std::string>& given = sizes_->made().facts().given;
  for (size_t i = 0; i < given.size(); ++i) {
    if (sizes_->made().IsGivenOpen(static_cast<int>(i))) {
      paths.push_back(given[i]);
    }
  }
  return paths;
}

void Record::NoteNoRun(const BoundCall& bound, const absl::Status& why,
                       Miss* miss) const {
  *miss = {.kind = "input",
           .expected = "sizes for which the recorded runs tell all",
           .got = std::string(why.message())};
  if (sizes_->open().empty()) {
    miss->note = size_inputs_.sources()[0].note;
    return;
  }
  const int input = sizes_->open()[0];
  miss->note.path = inputs_.tensors()[input].path;
  miss->got = absl::StrCat(
      TensorMeta::Of(bound.inputs.tensors[input]).ToString(), ", ", miss->got);
}

MICA_HIT_CODE bool Record::FindRun(BoundCall* bound, Miss* miss) {
  if (sizes_ != nullptr) {
    auto found = sizes_->Find(bound->inputs.tensors, bound->states,
                              bound->sizes, &kernels_);
    if (!found.ok()) {
      if (miss != nullptr) NoteNoRun(*bound, found.status(), miss);
      return false;
    }
    run_ = *std::move(found);
  }
  bound->run = run_;
  return true;
}

absl::Status Record::VarySizes(const Record& other) {
  if (!recipe_.is_complete) {
    return absl::FailedPreconditionError("the run's sizes weren't followed");
  }
  const std::vector<std::string>& given =
      other.sizes_ != nullptr ? other.sizes_->made().facts().given
                              : other.recipe_.facts.given;
  if (!given.empty() && given != recipe_.facts.given) {
    return absl::FailedPreconditionError("takes other numbers for sizes");
  }
  std::vector<SizedTape> runs;
  if (other.sizes_ != nullptr) {
    const auto earlier = other.sizes_->made().runs();
    constexpr size_t kMaxRuns = 4;
    runs.assign(earlier.end() - std::min(earlier.size(), kMaxRuns),
                earlier.end());
  } else {
    runs.push_back({other.recipe_.tape, other.recipe_.given});
  }
  for (SizedTape& run : runs) {
    if (given.empty()) run.given = GivenIn(other);
  }
  runs.push_back({recipe_.tape, recipe_.given});
  for (const Draw& draw : draws_.draws()) {
    if (draw.input >= 0) continue;
    return absl::FailedPreconditionError("draws what it uses exactly");
  }
  auto made = SizeTemplate::Make(std::move(runs), recipe_.facts,
                                 recipe_.num_args, AllOps());
  if (!made.ok()) return made.status();
  for (const Gradients::Leaf& leaf : gradients_.leaves()) {
    if (leaf.input < 0 || !(*made)->IsOpen(leaf.input)) continue;
    return absl::FailedPreconditionError("an argument's gradient");
  }
  for (const State& state : states_) {
    if (state.input < 0 || !(*made)->IsOpen(state.input)) continue;
    return absl::FailedPreconditionError("an argument that autocast casts");
  }
  sizes_ =
      std::make_unique<RecordSizes>(*std::move(made), std::move(recipe_), run_);
  recipe_ = SizeRecipe();
  num_watched_ += other.num_watched_;
  for (const int input : sizes_->open()) {
    inputs_.OpenSizes(input, sizes_->made().OpenDims(input));
    run_->inputs.push_back(inputs_.tensors()[input].meta);
  }
  run_->given = sizes_->made().runs().back().given;
  return absl::OkStatus();
}

}  // namespace mica
