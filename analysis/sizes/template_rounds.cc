// Templates of runs that go through their loops in other numbers of rounds.

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "analysis/sizes/rounds_of_numbers.h"
#include "analysis/sizes/runs_in_rounds.h"
#include "analysis/sizes/size_template.h"
#include "analysis/sizes/size_walk.h"
#include "framework/base/status.h"

namespace mica {
namespace {

// What a longer run would take too long to plan for.
constexpr int64_t kMaxCalls = 50'000;

// Item `item` of a list of numbers, or, if that is -1, a number.
void CopyNumber(const TapeValue& from, int32_t item, TapeValue& to) {
  const auto copy = [&]<typename T>(const std::vector<T>* list) {
    auto* made = std::get_if<std::vector<T>>(&to);
    const auto index = static_cast<size_t>(item);
    if (list == nullptr || made == nullptr) return;
    if (index < list->size() && index < made->size()) {
      (*made)[index] = (*list)[index];
    }
  };
  if (item < 0) {
    to = from;
  } else {
    copy(std::get_if<std::vector<int64_t>>(&from));
    copy(std::get_if<std::vector<double>>(&from));
  }
}

}  // namespace

absl::Status SizeTemplate::CheckCounts(
    SizeNumbers& numbers, absl::Span<const TensorSizes> sizes) const {
  std::vector<int32_t> counts;
  for (const SizeFacts::Loop& loop : facts_.loops) {
    const auto count = static_cast<int32_t>(loop.calls.size()) - 1;
    const std::optional<int32_t> now =
        CountRounds(loop, tape(), counts, numbers, sizes);
    counts.push_back(count);
    // What other calls give as a list is as long as it was.
    if (now == count || (!now.has_value() && loop.step == 0)) continue;
    return Unlike(absl::StrCat("a loop goes another number of times",
                               loop.at.empty() ? "" : " (", loop.at,
                               loop.at.empty() ? "" : ")"));
  }
  // Loops may take the parts of several tensors.
  for (size_t i = 0; i < tape().calls.size() && !facts_.loops.empty(); ++i) {
    const auto call = static_cast<int32_t>(i);
    const std::optional<int32_t> count = CountParts(tape(), call, sizes);
    if (!count.has_value()) continue;
    const auto given = static_cast<int32_t>(OutputsOf(tape().calls[i]).size());
    if (*count == given) continue;
    return Unlike("a tensor has another number of parts");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int32_t>> SizeTemplate::CountsAt(
    absl::Span<const TensorSizes> inputs,
    absl::Span<const double> given) const {
  // Sizes as those of inputs have them that were the same in all runs;
  // CheckCounts() tells whether that holds.
  constexpr int64_t kUnknownSize = -1;
  std::vector<int64_t> of_group(groups_->size(), kUnknownSize);
  for (size_t i = 0; i < inputs.size(); ++i) {
    for (const auto& [dim, group] : groups_->of(tape().inputs[i])) {
      of_group[group] = inputs[i].sizes[dim];
    }
  }
  std::vector<TensorSizes> sizes = SizesOf(tape());
  for (size_t t = 0; t < sizes.size(); ++t) {
    for (const auto& [dim, group] : groups_->of(static_cast<TapeTensorId>(t))) {
      sizes[t].sizes[dim] = of_group[group];
    }
  }
  // Others follow from what comes before the first loop.
  const int32_t begin = facts_.loops.empty() ? 0 : facts_.loops[0].calls[0];
  Walk walk(*this, given);
  walk.GoTo(inputs, begin).IgnoreError();
  for (size_t t = 0; t < sizes.size(); ++t) {
    const TapeTensor& tensor = tape().tensors[t];
    const bool is_open = absl::c_linear_search(sizes[t].sizes, kUnknownSize);
    if (is_open && tensor.call >= 0 && !facts_.loops.empty() &&
        tensor.call < facts_.loops[0].calls[0] &&
        walk.IsKnown(static_cast<TapeTensorId>(t))) {
      sizes[t] = walk.sizes()[t];
    }
  }
  SizeNumbers numbers(facts_, *groups_, sizes, given);
  std::vector<int32_t> counts;
  int64_t num_calls = static_cast<int64_t>(tape().calls.size());
  for (size_t i = 0; i < facts_.loops.size(); ++i) {
    const SizeFacts::Loop& loop = facts_.loops[i];
    const std::optional<int32_t> count =
        CountRounds(loop, tape(), counts, numbers, sizes);
    // CheckCounts() tells whether that holds.
    const auto own = static_cast<int32_t>(loop.calls.size()) - 1;
    counts.push_back(count.value_or(own));
    if (counts.back() == own) continue;
    if (counts.back() < std::max(loop.steady, 1)) {
      return Unlike("a loop goes less often than it takes to settle");
    }
    num_calls += int64_t{counts.back() - own} *
                 (loop.calls.back() - *(loop.calls.end() - 2));
  }
  if (num_calls > kMaxCalls) return Unlike("its loops make too many calls");
  return counts;
}

// Makes the template of other numbers of rounds, of what the rounds do that
// there are.
class SizeTemplate::Unroller {
 public:
  Unroller(const SizeTemplate& old, std::vector<int32_t> counts)
      : old_(old),
        numbers_(old.facts_, counts),
        others_(old.tape(), old.rounds_, std::move(counts)),
        made_(new SizeTemplate(old.num_args_, old.ops_)) {}

  absl::StatusOr<std::unique_ptr<SizeTemplate>> Make() {
    MICA_RETURN_IF_ERROR(others_.Make());
    made_->facts_ = numbers_.Make(
        [this](TapeTensorId id, TapeTensorId before, const Origin& in) {
          return others_.Find(id, before, in);
        });
    MICA_RETURN_IF_ERROR(MakeTape());
    const std::vector<RoundBegins> loops = others_.loops();
    for (size_t l = 0; l < loops.size(); ++l) {
      SizeFacts::Loop& loop = made_->facts_.loops[l];
      loop.calls = loops[l];
      if (loop.call >= 0) loop.call = NewCall(loop.call);
    }
    std::vector<TapeTensorId> origins;
    for (const Origin& origin : others_.tensors()) {
      origins.push_back(origin.old);
      made_->lies_.push_back(old_.lies_[origin.old]);
      const auto alias = old_.aliases_.find(origin.old);
      if (alias == old_.aliases_.end()) continue;
      made_->aliases_[static_cast<TapeTensorId>(origins.size()) - 1] =
          alias->second;
    }
    made_->groups_ =
        std::make_unique<SizeGroups>(old_.groups_->Renumbered(origins));
    for (size_t t = 0; t < origins.size(); ++t) {
      MICA_RETURN_IF_ERROR(MapExplained(static_cast<TapeTensorId>(t)));
    }
    MICA_RETURN_IF_ERROR(MapSlots());
    MICA_RETURN_IF_ERROR(MapSlices());
    MapConstants();
    return std::move(made_);
  }

 private:
  using Origin = OtherRounds::Origin;

  int32_t NewCall(int32_t old) const {
    const auto calls = others_.calls();
    const auto it = absl::c_find_if(
        calls, [old](const Origin& origin) { return origin.old == old; });
    return static_cast<int32_t>(it - calls.begin());
  }

  // The tape, with the numbers of results that are sizes.
  absl::Status MakeTape() {
    Tape tape = others_.TakeTape();
    std::vector<bool> is_lost(tape.host_values.size());
    for (size_t i = 0; i < tape.host_values.size(); ++i) {
      TapeHostValue& number = tape.host_values[i];
      for (const TapeHostOperand& operand : number.operands) {
        is_lost[i] = is_lost[i] || (operand.id >= 0 && is_lost[operand.id]);
      }
      if (number.size < 0) continue;
      number.size = numbers_.Find(number.size, -1, {});
      is_lost[i] = number.size < 0;
      if (is_lost[i]) number.is_constant = true;
    }
    for (const int32_t id : tape.host_results) {
      if (is_lost[id]) {
        return Unlike("gives a number of a round that isn't made");
      }
    }
    for (const TapeCall& call : tape.calls) {
      for (const TapeValue& arg : call.args) {
        const auto* number = std::get_if<TapeHostRef>(&arg);
        if (number == nullptr || !is_lost[number->id]) continue;
        return Unlike("goes by a number of a round that isn't made");
      }
    }
    made_->own_tape_ = std::make_shared<Tape>(std::move(tape));
    made_->runs_ = {
        {.tape = made_->own_tape_, .given = old_.runs_.back().given}};
    return absl::OkStatus();
  }

  // As a copy in `in` has it.
  absl::Status MapTerms(std::vector<SizeTerm>& terms, const Origin& in) const {
    for (SizeTerm& term : terms) {
      if (term.number < 0) continue;
      Rounds::Place before = numbers_.PlaceOf(term.number);
      int32_t earlier = term.number;
      if (before.loop >= 0 && before.loop == in.loop) {
        --before.round;
        earlier = numbers_.OldAt(before);
      }
      term.number = numbers_.Find(term.number, earlier, in);
      if (term.number < 0) return Unlike("a number of a round isn't known");
    }
    return absl::OkStatus();
  }

  absl::Status MapExplained(TapeTensorId id) {
    const Origin& origin = others_.tensors()[id];
    const auto it = old_.explained_.find(origin.old);
    if (it == old_.explained_.end()) return absl::OkStatus();
    std::vector<SizeSlot>& slots = made_->explained_[id];
    slots = it->second;
    for (SizeSlot& slot : slots) {
      slot.tensor = id;
      MICA_RETURN_IF_ERROR(MapTerms(slot.terms, origin));
    }
    return absl::OkStatus();
  }

  // Numbers of a round that differ from those of the one before have to be
  // known to.
  absl::Status CheckNumbers(const Origin& in,
                            absl::Span<const SizeSlot* const> slots) const {
    Rounds::Place place = old_.rounds_.OfCall(in.old);
    --place.round;
    const TapeCall& call = old_.tape().calls[in.old];
    const TapeCall& before = old_.tape().calls[old_.rounds_.CallAt(place)];
    for (size_t i = 0; i < call.args.size(); ++i) {
      const TapeValue& value = call.args[i];
      if (std::holds_alternative<TapeTensorRef>(value) ||
          std::holds_alternative<TapeTensorList>(value)) {
        MICA_RETURN_IF_ERROR(CheckConstants(call, value, in));
        continue;
      }
      // With those that are followed as they were in the round before.
      TapeValue fixed = value;
      const auto arg = static_cast<int32_t>(i);
      for (const SizeSlot* slot : slots) {
        if (slot->call >= 0 && slot->arg == arg) {
          CopyNumber(before.args[i], slot->item, fixed);
        }
      }
      if (fixed == before.args[i]) continue;
      return Unlike(absl::StrCat(call.op, ": ", call.arg_names[i],
                                 " isn't the same in each round",
                                 LineOf(call)));
    }
    return absl::OkStatus();
  }

  absl::Status CheckConstants(const TapeCall& call, const TapeValue& value,
                              const Origin& in) const {
    absl::Status status;
    ForEachTensor(value, [&](TapeTensorId id) {
      const TapeTensor& tensor = old_.tape().tensors[id];
      Rounds::Place place = old_.rounds_.Of(id);
      if (tensor.bytes == nullptr || place.loop != in.loop ||
          constants_.contains(id)) {
        return;
      }
      --place.round;
      const TapeTensorId before = old_.rounds_.At(place);
      if (before != kNoTapeTensor &&
          old_.tape().tensors[before].bytes != nullptr &&
          *old_.tape().tensors[before].bytes == *tensor.bytes) {
        return;
      }
      status = Unlike(absl::StrCat(
          call.op, ": a constant isn't the same in each round", LineOf(call)));
    });
    return status;
  }

  absl::Status MapSlots() {
    const Tape& tape = old_.tape();
    std::vector<int32_t> first_use(tape.tensors.size(), -1);
    for (size_t i = 0; i < tape.calls.size(); ++i) {
      for (const TapeValue& arg : tape.calls[i].args) {
        ForEachTensor(arg, [&](TapeTensorId id) {
          if (first_use[id] < 0) first_use[id] = static_cast<int32_t>(i);
        });
      }
    }
    std::vector<std::vector<const SizeSlot*>> of_call(tape.calls.size());
    for (const SizeSlot& slot : old_.slots_) {
      const int32_t call = slot.call >= 0 ? slot.call : first_use[slot.tensor];
      of_call[call].push_back(&slot);
      if (slot.call < 0) constants_.insert(slot.tensor);
    }
    for (size_t i = 0; i < others_.calls().size(); ++i) {
      const Origin& origin = others_.calls()[i];
      const auto& slots = of_call[origin.old];
      if (origin.is_copy()) MICA_RETURN_IF_ERROR(CheckNumbers(origin, slots));
      for (const SizeSlot* old : slots) {
        SizeSlot slot = *old;
        if (slot.call >= 0) {
          slot.call = static_cast<int32_t>(i);
        } else {
          slot.tensor =
              others_.Find(slot.tensor, Before(slot.tensor, origin), origin);
          if (slot.tensor == kNoTapeTensor) {
            return Unlike("a constant of a round isn't known");
          }
        }
        MICA_RETURN_IF_ERROR(MapTerms(slot.terms, origin));
        made_->slots_.push_back(std::move(slot));
      }
    }
    return absl::OkStatus();
  }

  // What stands in the round before in a tensor's place; for one of no round
  // of the loop, itself.
  TapeTensorId Before(TapeTensorId id, const Origin& in) const {
    Rounds::Place place = old_.rounds_.Of(id);
    if (place.loop < 0 || place.loop != in.loop) return id;
    --place.round;
    return old_.rounds_.At(place);
  }

  absl::Status MapSlices() {
    for (const SizeFacts::Slice& slice : old_.slices_) {
      const Rounds::Place place = old_.rounds_.Of(slice.tensor);
      Origin in{.loop = place.loop, .round = place.round, .from = place.round};
      if (place.loop >= 0 && place.round >= others_.count(place.loop)) continue;
      MICA_RETURN_IF_ERROR(MapSlice(slice, in));
      if (place.loop < 0 || place.round + 1 < old_.rounds_.count(place.loop)) {
        continue;
      }
      while (++in.round < others_.count(place.loop)) {
        MICA_RETURN_IF_ERROR(MapSlice(slice, in));
      }
    }
    return absl::OkStatus();
  }

  absl::Status MapSlice(SizeFacts::Slice slice, const Origin& in) {
    slice.tensor = others_.Find(slice.tensor, Before(slice.tensor, in), in);
    for (TapeHostOperand* operand : {&slice.start, &slice.stop}) {
      if (operand->id < 0) continue;
      std::vector<SizeTerm> place = {{.number = operand->id}};
      MICA_RETURN_IF_ERROR(MapTerms(place, in));
      operand->id = place[0].number;
    }
    if (slice.tensor == kNoTapeTensor) {
      return Unlike("a slice in a round isn't known");
    }
    made_->slices_.push_back(slice);
    return absl::OkStatus();
  }

  // What had to be as it was in the last round has to be so in those after it.
  void MapConstants() {
    for (const auto& [number, value] : old_.constant_) {
      const Rounds::Place place = numbers_.PlaceOf(number);
      if (place.loop >= 0 && place.round >= others_.count(place.loop)) continue;
      made_->constant_.emplace_back(number, value);
      if (place.loop < 0) continue;
      const int32_t last = old_.rounds_.count(place.loop) - 1;
      for (int32_t round = last + 1;
           place.round == last && round < others_.count(place.loop); ++round) {
        const Origin in{.loop = place.loop, .round = round, .from = last};
        const int32_t before =
            numbers_.OldAt({place.loop, place.round - 1, place.position});
        const int32_t copy = numbers_.Find(number, before, in);
        // Unknown ones aren't as they were.
        made_->constant_.emplace_back(copy < 0 ? number : copy,
                                      copy < 0 ? SizeFacts::kUnknown : value);
      }
    }
  }

  const SizeTemplate& old_;
  const NumbersInRounds numbers_;
  OtherRounds others_;
  std::unique_ptr<SizeTemplate> made_;
  std::set<TapeTensorId> constants_;  // That are followed.
};

absl::StatusOr<std::unique_ptr<SizeTemplate>> SizeTemplate::WithCounts(
    std::vector<int32_t> counts) const {
  return Unroller(*this, std::move(counts)).Make();
}

}  // namespace mica
