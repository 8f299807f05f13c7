// Whether a record fits a call.

#include <utility>

#include "absl/strings/str_cat.h"
#include "python/capture/known/loud_warnings.h"
#include "python/capture/record/record.h"
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

void Record::Prefetch() {
  // In this time nobody reads so much that the second cache loses what is here.
  constexpr int64_t kMomentNs = 50'000;
  const int64_t now = HitTimes::Now();
  is_prefetched_ = true;
  if (now - std::exchange(looked_at_ns_, now) < kMomentNs) return;
  mica::Prefetch(this, sizeof(*this));
  inputs_.Prefetch();
  PrefetchItems(states_);
  PrefetchItems(bound_.inputs.objects);
  PrefetchItems(bound_.states);
  TorchState::Prefetch();
  kernels_.Prefetch();
  guards_.Prefetch();
}

bool Record::Fits(const CallArgs& args, const TorchState& now) {
  const GcPause pause;
  BoundCall bound = std::move(bound_);
  const bool fits = Matches(args, now, &bound, nullptr);
  bound.found.clear();
  bound_ = std::move(bound);
  return fits;
}

bool Record::BindStates(BoundCall* bound, Miss* miss) const {
  bound->states.clear();
  bound->states.reserve(states_.size());
  bound->found.clear();
  for (const State& state : states_) {
    if (!state.is_found_anew()) {
      bound->states.push_back(state.tensor);
      continue;
    }
    if (state.cast.has_value()) {
      PyObject* weight =
          state.input < 0 ? state.tensor : bound->inputs.tensors[state.input];
      bound->found.push_back(KeptCast(weight, *state.cast));
      if (!bound->found.back()) return MissesCast(*state.cast, miss);
    } else {
      bound->found.push_back(GradOf(
          Gradients::Find(gradients_.leaves()[state.leaf], bound->inputs)));
    }
    bound->states.push_back(bound->found.back().get());
  }
  return true;
}

CallArgs Record::WithSlots(CallArgs args,
                           std::vector<PyObject*>* values) const {
  if (slots_.empty()) return args;
  *values = slots_.Values();
  args.slots = values->data();
  args.num_slots = values->size();
  return args;
}

bool Record::Matches(const CallArgs& args, const TorchState& now,
                     BoundCall* bound, Miss* miss) {
  std::vector<PyObject*> values;
  return MatchesAll(WithSlots(args, &values), now, bound, miss);
}

bool Record::MatchesTorch(const TorchState& now, Miss* miss) const {
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

bool Record::MatchesAll(const CallArgs& args, const TorchState& now,
                        BoundCall* bound, Miss* miss) {
  const bool is_prefetched = std::exchange(is_prefetched_, false);
  // What follows takes addresses for objects.
  if (std::string path; guards_.any_gone() && IsGone(&path)) {
    if (miss != nullptr) *miss = Miss::OfGone(std::move(path));
    return false;
  }
  if (const char* why = backward_ ? backward_->WhyEager() : nullptr) {
    if (miss != nullptr) {
      *miss = {.kind = "torch state",
               .note = {.path = "the backward pass of the results"},
               .expected = "one that can be made for later",
               .got = why};
    }
    return false;
  }
  if (backward_ != nullptr && backward_->IsOutdated()) {
    if (miss != nullptr) {
      *miss = {.kind = "torch state",
               .note = {.path = "the backward pass of the results"},
               .expected = "gradients that are laid out as recorded",
               .got = "others"};
    }
    return false;
  }
  if (backward_ != nullptr && !backward_->CheckReads(miss)) return false;
  if (!MatchesTorch(now, miss)) return false;
  if (!inputs_.Match(args, &bound->inputs, miss)) return false;
  // Of records that aren't the first to be tried most fail before this.
  if (!is_prefetched) guards_.Prefetch();
  if (!guards_.Check(miss) || !effects_.Check(miss) ||
      !host_inputs_.Read(bound->inputs, &bound->numbers, miss) ||
      !gradients_.Check(bound->inputs, miss)) {
    return false;
  }
  return BindStates(bound, miss) &&
         memory_.Check(bound->inputs.tensors, bound->states, miss);
}

}  // namespace mica
