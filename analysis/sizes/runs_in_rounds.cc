#include "analysis/sizes/runs_in_rounds.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <variant>

#include "absl/algorithm/container.h"
#include "analysis/sizes/aligned_run.h"
#include "analysis/sizes/backward_loops.h"
#include "analysis/sizes/library_loops.h"
#include "analysis/sizes/rounds_of_numbers.h"
#include "analysis/sizes/size_walk.h"
#include "framework/base/status.h"

namespace mica {
namespace {

constexpr double kMaxRounds = 1 << 20;

// Loop::like of each.
std::vector<int32_t> LikesOf(const SizeFacts& facts) {
  std::vector<int32_t> likes;
  for (const SizeFacts::Loop& loop : facts.loops) likes.push_back(loop.like);
  return likes;
}

// The rounds of a run, of those of another one that has facts.
class RoundsOfRun {
 public:
  // `watched`: the tape of the other one.
  RoundsOfRun(const SizedTape& run, const SizeFacts& facts, const Tape& watched)
      : tape_(*run.tape),
        facts_(facts),
        watched_(watched),
        groups_({&run, 1}),
        sizes_(watched.tensors.size()),
        numbers_(facts, groups_, sizes_, run.given) {}

  absl::StatusOr<Rounds> Find() {
    std::vector<RoundBegins> loops;
    std::vector<int32_t> counts;
    for (const SizeFacts::Loop& loop : facts_.loops) {
      bool is_known = true;
      if (loop.like >= 0) {
        is_known = counts[loop.like] > loop.less;
      } else if (loop.step == 0) {
        const TapeValue& of = watched_.calls[loop.call].args[0];
        ForEachTensor(
            of, [&](TapeTensorId id) { is_known &= FindSizes(id, loops); });
      } else {
        is_known = FindSizes(loop.start, loops) && FindSizes(loop.stop, loops);
      }
      // Else as often as in the watched run, or the runs turn out to differ.
      const auto watched = static_cast<int32_t>(loop.calls.size()) - 1;
      const std::optional<int32_t> count =
          is_known ? CountRounds(loop, watched_, counts, numbers_, sizes_)
                   : std::nullopt;
      counts.push_back(count.value_or(watched));
      loops.push_back(BeginsOf(loop, counts.back(), loops));
      if (loops.back().back() > static_cast<int32_t>(tape_.calls.size())) {
        return Unlike("a loop's rounds aren't alike");
      }
    }
    return Rounds(tape_, std::move(loops), LikesOf(facts_));
  }

 private:
  // A call between loops, in this run.
  int32_t Moved(int32_t call, absl::Span<const RoundBegins> loops) const {
    int32_t moved = call;
    for (size_t l = 0; l < loops.size(); ++l) {
      if (facts_.loops[l].calls.back() > call) break;
      moved = call - facts_.loops[l].calls.back() + loops[l].back();
    }
    return moved;
  }

  RoundBegins BeginsOf(const SizeFacts::Loop& loop, int32_t count,
                       absl::Span<const RoundBegins> loops) const {
    RoundBegins begins = {Moved(loop.calls[0], loops)};
    const auto last = static_cast<int32_t>(loop.calls.size()) - 2;
    for (int32_t round = 0; round < count; ++round) {
      const int32_t like = std::min(round, last);
      begins.push_back(begins.back() + loop.calls[like + 1] - loop.calls[like]);
    }
    return begins;
  }

  // The own tensor that is this one in the watched run; kNoTapeTensor if nobody
  // can tell.
  TapeTensorId Find(TapeTensorId id,
                    absl::Span<const RoundBegins> loops) const {
    const TapeTensor& tensor = watched_.tensors[id];
    if (tensor.origin == TapeOrigin::kInput) {
      const auto input = static_cast<size_t>(tensor.input);
      return input < tape_.inputs.size() ? tape_.inputs[input] : kNoTapeTensor;
    }
    if (tensor.origin == TapeOrigin::kAlias) return FindAlias(id, loops);
    if (tensor.origin != TapeOrigin::kCall || !IsOutside(tensor.call)) {
      return kNoTapeTensor;
    }
    const int32_t call = Moved(tensor.call, loops);
    if (call >= static_cast<int32_t>(tape_.calls.size())) return kNoTapeTensor;
    const TapeCall& made = tape_.calls[call];
    const auto output = static_cast<size_t>(tensor.output);
    if (made.op != watched_.calls[tensor.call].op ||
        output >= made.outputs.size()) {
      return kNoTapeTensor;
    }
    const auto* ref = std::get_if<TapeTensorRef>(&made.outputs[output]);
    if (ref != nullptr) return ref->id;
    const auto* list = std::get_if<TapeTensorList>(&made.outputs[output]);
    const auto item = static_cast<size_t>(std::max(tensor.item, 0));
    return list != nullptr && item < list->ids.size() ? list->ids[item]
                                                      : kNoTapeTensor;
  }

  // Of the aliases of one tensor, the one that comes as late.
  TapeTensorId FindAlias(TapeTensorId id,
                         absl::Span<const RoundBegins> loops) const {
    const TapeTensorId base = watched_.tensors[id].base;
    const TapeTensorId own = Find(base, loops);
    const auto is_of = [](const Tape& tape, TapeTensorId one, TapeTensorId of) {
      return tape.tensors[one].origin == TapeOrigin::kAlias &&
             tape.tensors[one].base == of;
    };
    int left = 0;
    for (TapeTensorId one = 0; one < id; ++one) {
      left += is_of(watched_, one, base) ? 1 : 0;
    }
    const auto count = static_cast<TapeTensorId>(tape_.tensors.size());
    for (TapeTensorId one = 0; own != kNoTapeTensor && one < count; ++one) {
      if (is_of(tape_, one, own) && left-- == 0) return one;
    }
    return kNoTapeTensor;
  }

  // Finds the sizes of the tensor that is this one in the watched run.
  bool FindSizes(TapeTensorId id, absl::Span<const RoundBegins> loops) {
    const TapeOrigin origin = watched_.tensors[id].origin;
    const bool is_fixed =
        origin == TapeOrigin::kState || origin == TapeOrigin::kConstant;
    const TapeTensorId own = is_fixed ? id : Find(id, loops);
    if (own == kNoTapeTensor) return false;
    const TapeTensor& like = (is_fixed ? watched_ : tape_).tensors[own];
    sizes_[id] = {like.sizes, like.strides, like.offset};
    return true;
  }

  bool FindSizes(const TapeHostOperand& operand,
                 absl::Span<const RoundBegins> loops) {
    if (operand.id < 0) return true;
    const SizeFacts::Number& number = facts_.numbers[operand.id];
    if (number.loop >= 0) return false;
    if (number.tensor != kNoTapeTensor) {
      return FindSizes(number.tensor, loops);
    }
    return absl::c_all_of(number.operands, [&](const auto& one) {
      return FindSizes(one, loops);
    });
  }

  bool IsOutside(int32_t call) const {
    return absl::c_all_of(facts_.loops, [call](const SizeFacts::Loop& loop) {
      return call < loop.calls.front() || call >= loop.calls.back();
    });
  }

  const Tape& tape_;
  const SizeFacts& facts_;
  const Tape& watched_;
  const SizeGroups groups_;
  std::vector<TensorSizes> sizes_;  // By tensor of the watched run.
  SizeNumbers numbers_;
};

// Facts of a run that made fewer rounds than one that it was aligned with.
class FactsInRounds {
 public:
  FactsInRounds(const SizeFacts& facts, const Rounds& own, const Rounds& like,
                const std::vector<TapeTensorId>& tensors)
      : facts_(facts),
        own_(own),
        like_(like),
        tensors_(tensors),
        numbers_(facts, like.counts()) {}

  SizeFacts Make() {
    SizeFacts made =
        numbers_.Make([this](TapeTensorId id, TapeTensorId before,
                             const auto& in) { return Find(id, before, in); });
    for (int32_t loop = 0; loop < like_.num_loops(); ++loop) {
      SizeFacts::Loop& one = made.loops[loop];
      one.calls = like_.begins(loop);
      if (one.call >= 0) one.call = Moved(one.call);
    }
    made.exact = facts_.exact;
    for (const SizeFacts::Pinned& pinned : facts_.pinned) {
      made.pinned.push_back({tensors_[pinned.tensor], pinned.at});
    }
    for (const SizeFacts::Use& use : facts_.uses) {
      made.uses.push_back(Copied(use, {}));
    }
    AddNew(made);
    return made;
  }

 private:
  using Origin = OtherRounds::Origin;

  // Where a call, or what comes after one, is.
  int32_t Moved(int32_t call) const {
    int32_t moved = call;
    for (int32_t loop = 0; loop < own_.num_loops(); ++loop) {
      const RoundBegins& own = own_.begins(loop);
      if (own.front() > call) break;
      if (own.back() <= call) {
        moved = call - own.back() + like_.begins(loop).back();
        continue;
      }
      const auto round =
          std::upper_bound(own.begin(), own.end(), call) - own.begin() - 1;
      return call - own[round] + like_.begins(loop)[round];
    }
    return moved;
  }

  TapeTensorId Find(TapeTensorId id, TapeTensorId before,
                    const Origin& in) const {
    if (!in.is_copy() || before == id) return tensors_[id];
    if (before == kNoTapeTensor) return kNoTapeTensor;
    const Rounds::Place place = own_.Of(id), there = own_.Of(before);
    if (place.loop != in.loop || there.loop != in.loop ||
        place.position != there.position || there.round + 1 != place.round) {
      return kNoTapeTensor;
    }
    return like_.At(
        {place.loop, place.round + in.round - in.from, place.position});
  }

  SizeFacts::Use Copied(SizeFacts::Use use, const Origin& in) const {
    const int32_t shift = in.loop < 0 ? 0
                                      : like_.begins(in.loop)[in.round] -
                                            own_.begins(in.loop)[in.from];
    if (in.loop < 0) {
      const int32_t loop = own_.num_calls() > use.first_call
                               ? own_.OfCall(use.first_call).loop
                               : -1;
      for (int32_t& number : use.numbers) {
        const Rounds::Place place = numbers_.PlaceOf(number);
        // What comes after a loop uses the last round's.
        if (place.loop >= 0 && place.loop != loop) {
          number = numbers_.Find(number, number, {});
        }
      }
      use.end_call = use.end_call > use.first_call ? Moved(use.end_call - 1) + 1
                                                   : Moved(use.end_call);
      use.first_call = Moved(use.first_call);
    } else {
      use.first_call += shift;
      use.end_call += shift;
      for (int32_t& number : use.numbers) number = CopiedNumber(number, in);
    }
    for (SizeFacts::Slice& slice : use.slices) {
      if (slice.tensor != kNoTapeTensor)
        slice.tensor = CopiedTensor(slice.tensor, in);
      for (TapeHostOperand* operand : {&slice.start, &slice.stop}) {
        if (operand->id < 0 || in.loop < 0) continue;
        operand->id = CopiedNumber(operand->id, in);
      }
    }
    return use;
  }

  int32_t CopiedNumber(int32_t number, const Origin& in) const {
    Rounds::Place place = numbers_.PlaceOf(number);
    if (place.loop != in.loop) return number;
    --place.round;
    return numbers_.Find(number, numbers_.OldAt(place), in);
  }
  TapeTensorId CopiedTensor(TapeTensorId id, const Origin& in) const {
    Rounds::Place place = own_.Of(id);
    if (place.loop < 0 || place.loop != in.loop) return tensors_[id];
    place.round += in.round - in.from;
    return like_.At(place);
  }

  // What new rounds do as the last one did.
  void AddNew(SizeFacts& made) const {
    for (int32_t loop = 0; loop < own_.num_loops(); ++loop) {
      const int32_t last = own_.count(loop) - 1;
      for (int32_t round = last + 1; round < like_.count(loop); ++round) {
        const Origin in{.loop = loop, .round = round, .from = last};
        for (const SizeFacts::Use& use : facts_.uses) {
          if (use.first_call < own_.begins(loop)[last] ||
              use.end_call > own_.begins(loop)[last + 1] ||
              use.first_call == use.end_call) {
            continue;
          }
          made.uses.push_back(Copied(use, in));
        }
        for (const SizeFacts::Exact& exact : facts_.exact) {
          const Rounds::Place place = numbers_.PlaceOf(exact.number);
          if (place.loop != loop || place.round != last) continue;
          made.exact.push_back({CopiedNumber(exact.number, in), exact.at});
        }
        for (const SizeFacts::Pinned& pinned : facts_.pinned) {
          const Rounds::Place place = own_.Of(pinned.tensor);
          if (place.loop != loop || place.round != last) continue;
          made.pinned.push_back({CopiedTensor(pinned.tensor, in), pinned.at});
        }
      }
    }
  }

  const SizeFacts& facts_;
  const Rounds& own_;
  const Rounds& like_;
  const std::vector<TapeTensorId>& tensors_;
  const NumbersInRounds numbers_;
};

// The numbers that are fed to each run, in order.
std::vector<int32_t> InputsOf(const Tape& tape) {
  std::vector<int32_t> inputs;
  for (const TapeHostValue& value : tape.host_values) {
    if (value.kind == TapeHostValue::Kind::kInput && !value.is_constant) {
      inputs.push_back(value.input);
    }
  }
  return inputs;
}

bool UsesNumbers(const Tape& tape) {
  const auto is_number = [](const TapeValue& value) {
    return std::holds_alternative<TapeHostRef>(value) ||
           std::holds_alternative<TapeHostList>(value);
  };
  return !tape.host_results.empty() || !tape.host_reads.empty() ||
         absl::c_any_of(tape.calls, [&](const TapeCall& call) {
           return absl::c_any_of(call.args, is_number) ||
                  absl::c_any_of(call.outputs, is_number);
         });
}

bool HasUnknown(const SizeFacts& facts) {
  const auto is_unknown = [](int32_t number) { return number < 0; };
  return absl::c_any_of(facts.uses,
                        [&](const SizeFacts::Use& use) {
                          return absl::c_any_of(use.numbers, is_unknown);
                        }) ||
         absl::c_any_of(facts.exact,
                        [&](const SizeFacts::Exact& exact) {
                          return is_unknown(exact.number);
                        }) ||
         absl::c_any_of(facts.pinned, [](const SizeFacts::Pinned& pinned) {
           return pinned.tensor == kNoTapeTensor;
         });
}

}  // namespace

std::optional<int32_t> CountParts(const Tape& tape, int32_t call,
                                  absl::Span<const TensorSizes> sizes) {
  const TapeCall& parts = tape.calls[call];
  const bool is_unbind = parts.op == "aten.unbind.int";
  if (!is_unbind && parts.op != "aten.split.Tensor") return std::nullopt;
  const auto* of = std::get_if<TapeTensorRef>(&parts.args[0]);
  const auto* dim = std::get_if<int64_t>(&parts.args[is_unbind ? 1 : 2]);
  const auto* each = std::get_if<int64_t>(&parts.args[1]);
  if (of == nullptr || dim == nullptr || each == nullptr) return std::nullopt;
  const std::vector<int64_t>& dims = sizes[of->id].sizes;
  const auto rank = static_cast<int64_t>(dims.size());
  const int64_t at = *dim < 0 ? *dim + rank : *dim;
  const int64_t step = is_unbind ? 1 : *each;
  if (at < 0 || at >= rank || step <= 0 || dims[at] < 0) return std::nullopt;
  return static_cast<int32_t>((dims[at] + step - 1) / step);
}

Rounds RoundsOf(const Tape& tape, const SizeFacts& facts) {
  std::vector<RoundBegins> begins;
  for (const SizeFacts::Loop& loop : facts.loops) begins.push_back(loop.calls);
  return Rounds(tape, std::move(begins), LikesOf(facts));
}

std::optional<int32_t> CountRounds(const SizeFacts::Loop& loop,
                                   const Tape& tape,
                                   absl::Span<const int32_t> earlier,
                                   SizeNumbers& numbers,
                                   absl::Span<const TensorSizes> sizes) {
  if (loop.like >= 0) return earlier[loop.like] - loop.less;
  if (loop.step == 0) return CountParts(tape, loop.call, sizes);
  const double length = numbers.Of(loop.stop) - numbers.Of(loop.start);
  const double count = std::ceil(length / static_cast<double>(loop.step));
  if (!(count >= 0 && count < kMaxRounds)) return std::nullopt;
  return static_cast<int32_t>(count);
}

absl::StatusOr<RunsInRounds> AlignRuns(std::vector<SizedTape> runs,
                                       SizeFacts facts) {
  AddLibraryLoops(*runs.back().tape, facts);
  AddBackwardLoops(*runs.back().tape, facts);
  RunsInRounds made{.runs = std::move(runs), .facts = std::move(facts)};
  if (made.facts.loops.empty()) return made;
  std::vector<Rounds> rounds;
  const Tape& watched_tape = *made.runs.back().tape;
  size_t most = made.runs.size() - 1;
  bool differ = false;
  for (const SizedTape& run : made.runs) {
    MICA_ASSIGN_OR_RETURN(rounds.emplace_back(),
                          RoundsOfRun(run, made.facts, watched_tape).Find());
    differ |= rounds.back().counts() != rounds.front().counts();
  }
  if (!differ) return made;
  const auto goes_as_often = [&](size_t a, size_t b) {
    for (int32_t loop = 0; loop < rounds[a].num_loops(); ++loop) {
      if (rounds[a].count(loop) < rounds[b].count(loop)) return false;
    }
    return true;
  };
  for (size_t i = 0; i < rounds.size(); ++i) {
    if (goes_as_often(i, most)) most = i;
  }
  const SizedTape like = made.runs[most];
  const size_t watched = made.runs.size() - 1;
  Tape last = *like.tape;
  std::vector<SizedTape> aligned;
  for (size_t i = 0; i < rounds.size(); ++i) {
    if (i == most) continue;
    if (!goes_as_often(most, i)) {
      return Unlike(
          "one run goes through a loop more often, another one "
          "through another loop");
    }
    MICA_ASSIGN_OR_RETURN(
        AlignedRun run,
        AlignRun(*made.runs[i].tape, rounds[i], *like.tape, rounds[most]));
    made.recorded.push_back({made.runs[i], rounds[i]});
    if (i == watched) {
      SizeFacts facts_of_last =
          FactsInRounds(made.facts, rounds[i], rounds[most], run.tensors)
              .Make();
      if (HasUnknown(facts_of_last))
        return Unlike("a loop's rounds aren't alike");
      made.facts = std::move(facts_of_last);
      const bool has_sizes = absl::c_any_of(
          run.tape.host_values, [](const auto& one) { return one.size >= 0; });
      const bool are_fed_alike = InputsOf(last) == InputsOf(run.tape);
      if (last.host_values.empty() || (!are_fed_alike && !UsesNumbers(last))) {
        last.host_values = run.tape.host_values;
        last.host_results = run.tape.host_results;
      } else if (!are_fed_alike) {
        return Unlike("the runs take other numbers");
      } else if (has_sizes && !run.tape.host_results.empty()) {
        return Unlike("gives numbers of loops");
      }
    }
    aligned.push_back({std::make_shared<const Tape>(std::move(run.tape)),
                       made.runs[i].given});
    made.counts.push_back(rounds[i].counts());
  }
  made.counts.push_back(rounds[most].counts());
  aligned.push_back(
      {std::make_shared<const Tape>(std::move(last)), like.given});
  made.rounds = std::move(rounds[most]);
  made.runs = std::move(aligned);
  return made;
}

}  // namespace mica
