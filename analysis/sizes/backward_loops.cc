#include "analysis/sizes/backward_loops.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "absl/algorithm/container.h"
#include "analysis/sizes/added_loops.h"
#include "analysis/sizes/rounds.h"
#include "analysis/sizes/runs_in_rounds.h"
#include "analysis/sizes/size_walk.h"
#include "kernels/reference/host_arithmetic.h"

namespace mica {
namespace {

// Fewer don't tell how far apart rounds are.
constexpr int32_t kFewestRounds = 4;
// How many rounds of the program's may lie beside those of a backward loop.
constexpr int32_t kMostLess = 4;

// A number that a call of this operator takes: the round of the other loop that
// it is about, times a factor, and an offset.
struct Taken {
  std::string op;
  size_t arg = 0;
  int64_t factor = 1;
  int64_t offset = 0;
  bool operator<(const Taken& other) const {
    return std::tie(op, arg, factor, offset) <
           std::tie(other.op, other.arg, other.factor, other.offset);
  }
};

struct Found {
  SizeFacts::Loop loop;
  bool ascends = false;
  std::set<Taken> taken;
};

class BackwardLoops {
 public:
  BackwardLoops(const Tape& tape, const SizeFacts& facts)
      : tape_(tape), facts_(facts), rounds_(RoundsOf(tape, facts)) {}

  std::vector<Found> Find() {
    for (int32_t loop = 0; loop < rounds_.num_loops(); ++loop) {
      if (rounds_.count(loop) < kFewestRounds) continue;
      for (const std::vector<int32_t>& uses : UsesOf(loop)) {
        if (auto found = Around(loop, uses)) Keep(*std::move(found));
      }
    }
    for (int32_t call = 0; call < num_calls();) {
      const int32_t end = EndOfLikeCalls(call);
      if (auto found = TakenApart(call, end)) Keep(*std::move(found));
      call = end;
    }
    while (TrimOne()) {
    }
    return std::move(found_);
  }

 private:
  int32_t num_calls() const { return static_cast<int32_t>(tape_.calls.size()); }

  bool IsBackwardCall(int32_t call) const {
    return call >= 0 && call < num_calls() && IsBackward(tape_.calls[call]) &&
           rounds_.OfCall(call).loop < 0;
  }

  // Of each tensor that a round of the loop makes, by round, the first call of
  // the backward pass that takes it, or an alias of it; -1 if none does.
  std::vector<std::vector<int32_t>> UsesOf(int32_t loop) const {
    std::map<int32_t, std::vector<int32_t>> uses;  // By position.
    for (int32_t call = rounds_.begins(loop).back(); call < num_calls();
         ++call) {
      if (!IsBackwardCall(call)) continue;
      for (const TapeValue& arg : tape_.calls[call].args) {
        ForEachTensor(arg, [&](TapeTensorId id) {
          const Rounds::Place place = rounds_.Of(BaseOf(tape_, id));
          if (place.loop != loop) return;
          std::vector<int32_t>& of =
              uses.try_emplace(place.position, rounds_.count(loop), -1)
                  .first->second;
          if (of[place.round] < 0) of[place.round] = call;
        });
      }
    }
    std::vector<std::vector<int32_t>> made;
    for (auto& [position, of] : uses) made.push_back(std::move(of));
    return made;
  }

  bool AreAlike(int32_t call, int32_t other) const {
    return IsBackwardCall(call) && IsBackwardCall(other) &&
           tape_.calls[call].op == tape_.calls[other].op &&
           tape_.calls[call].args.size() == tape_.calls[other].args.size();
  }

  // The loop of which these calls are, one in each round but the outermost.
  std::optional<Found> Around(int32_t loop,
                              const std::vector<int32_t>& uses) const {
    const int32_t count = rounds_.count(loop);
    const int32_t length = uses[1] - uses[2];
    if (uses[2] < 0 || length <= 0) return std::nullopt;
    // The last ones are alike.
    int32_t begin = uses[2], end = begin;
    while (AreAlike(begin - 1, begin - 1 + length)) --begin;
    while (AreAlike(end, end + length)) ++end;
    end += length;
    const int32_t rounds = (end - begin) / length;
    if (rounds < 2 || count - rounds > kMostLess || rounds > count) {
      return std::nullopt;
    }
    return Made(loop, begin, length, rounds, /*ascends=*/false);
  }

  // Where calls end that do the same with one tensor.
  int32_t EndOfLikeCalls(int32_t call) const {
    int32_t end = call + 1;
    while (AreAlike(call, end) && !tape_.calls[call].args.empty() &&
           std::holds_alternative<TapeTensorRef>(tape_.calls[call].args[0]) &&
           tape_.calls[call].args[0] == tape_.calls[end].args[0]) {
      ++end;
    }
    return end;
  }

  // The loop of these calls, of each round of an earlier one.
  std::optional<Found> TakenApart(int32_t begin, int32_t end) const {
    if (end - begin < kFewestRounds) return std::nullopt;
    for (int32_t loop = 0; loop < rounds_.num_loops(); ++loop) {
      if (rounds_.count(loop) != end - begin) continue;
      if (rounds_.begins(loop).back() > begin) continue;
      return Made(loop, begin, 1, end - begin, /*ascends=*/true);
    }
    return std::nullopt;
  }

  Found Made(int32_t loop, int32_t begin, int32_t length, int32_t rounds,
             bool ascends) const {
    Found made{.loop = {.like = loop,
                        .less = rounds_.count(loop) - rounds,
                        .steady = 1,
                        .at = facts_.loops[loop].at},
               .ascends = ascends};
    for (int32_t round = 0; round <= rounds; ++round) {
      made.loop.calls.push_back(begin + round * length);
    }
    for (int32_t call = begin; call < begin + length; ++call) {
      for (size_t arg = 0; arg < tape_.calls[call].args.size(); ++arg) {
        const auto numbers = Counted(call, arg, length, rounds);
        if (!numbers.has_value()) continue;
        const auto [start, step] = *numbers;
        const int64_t factor = ascends ? step : -step;
        const int64_t first = ascends ? 0 : rounds_.count(loop) - 1;
        made.taken.insert(
            {tape_.calls[call].op, arg, factor, start - factor * first});
      }
    }
    return made;
  }

  // A number of the first round, and by how much it is another one in each.
  std::optional<std::pair<int64_t, int64_t>> Counted(int32_t call, size_t arg,
                                                     int32_t length,
                                                     int32_t rounds) const {
    std::vector<int64_t> numbers;
    for (int32_t round = 0; round < rounds; ++round) {
      const TapeCall& made = tape_.calls[call + round * length];
      const auto* number = std::get_if<int64_t>(&made.args[arg]);
      if (number == nullptr) return std::nullopt;
      numbers.push_back(*number);
    }
    const int64_t step = numbers[1] - numbers[0];
    for (size_t round = 1; round < numbers.size(); ++round) {
      if (numbers[round] - numbers[round - 1] != step) return std::nullopt;
    }
    if (step == 0) return std::nullopt;
    return std::pair(numbers[0], step);
  }

  // Where a call is among the loops that were found.
  struct Spot {
    int32_t found = -1;
    int32_t round = 0;
    int32_t position = 0;
  };
  Spot SpotOf(int32_t call) const {
    for (size_t i = 0; i < found_.size(); ++i) {
      const std::vector<int32_t>& calls = found_[i].loop.calls;
      if (call < calls.front() || call >= calls.back()) continue;
      const int32_t length = calls[1] - calls[0];
      const int32_t from = call - calls.front();
      return {static_cast<int32_t>(i), from / length, from % length};
    }
    return {};
  }
  Spot SpotOf(const TapeValue& value) const {
    const auto* ref = std::get_if<TapeTensorRef>(&value);
    if (ref == nullptr || ref->id == kNoTapeTensor) return {};
    return SpotOf(tape_.tensors[BaseOf(tape_, ref->id)].call);
  }

  // Whether a round takes of the loops that were found what the next one takes.
  bool GoesOn(int32_t index, int32_t round) const {
    const std::vector<int32_t>& begins = found_[index].loop.calls;
    for (int32_t call = begins[round]; call < begins[round + 1]; ++call) {
      const TapeCall& one = tape_.calls[call];
      const TapeCall& next = tape_.calls[call + begins[1] - begins[0]];
      for (size_t i = 0; i < one.args.size(); ++i) {
        const Spot a = SpotOf(one.args[i]), b = SpotOf(next.args[i]);
        // The first one takes what comes before the loop.
        if (b.found == index && a.found < 0 && round == 0) continue;
        if (a.found != b.found || a.position != b.position) return false;
      }
    }
    return true;
  }

  // Loops go through each other's rounds, but not through what lies beside
  // these: a first round, or a last one, that does is beside, too.
  bool TrimOne() {
    for (size_t i = 0; i < found_.size(); ++i) {
      const Found& found = found_[i];
      const std::vector<int32_t>& calls = found.loop.calls;
      const auto rounds = static_cast<int32_t>(calls.size()) - 1;
      if (found.ascends || rounds < kFewestRounds ||
          found.loop.less >= kMostLess) {
        continue;
      }
      const auto index = static_cast<int32_t>(i);
      const bool begins = GoesOn(index, 0);
      if (begins && GoesOn(index, rounds - 2)) continue;
      found_[i] = Made(found.loop.like, calls[begins ? 0 : 1],
                       calls[1] - calls[0], rounds - 1, /*ascends=*/false);
      return true;
    }
    return false;
  }

  void Keep(Found found) {
    const bool overlaps = absl::c_any_of(found_, [&](const Found& other) {
      return found.loop.calls.front() < other.loop.calls.back() &&
             other.loop.calls.front() < found.loop.calls.back();
    });
    if (!overlaps) found_.push_back(std::move(found));
  }

  const Tape& tape_;
  const SizeFacts& facts_;
  const Rounds rounds_;
  std::vector<Found> found_;
};

// Numbers of sizes that calls of the backward pass take.
class CountedNumbers {
 public:
  CountedNumbers(const Tape& tape, SizeFacts& facts)
      : tape_(tape), facts_(facts) {}

  // Those of each round.
  void Add(const Found& found) {
    SizeFacts::Loop* const at = &LoopAt(found);
    TapeHostOperand last;
    if (!found.ascends) {
      const std::optional<int32_t> one = LastRoundOf(at->like);
      if (!one.has_value()) return;
      last.id = *one;
    }
    const auto loop = static_cast<int32_t>(at - facts_.loops.data());
    const auto rounds = static_cast<int32_t>(at->calls.size()) - 1;
    for (int32_t round = 0; round < rounds; ++round) {
      const auto begin = static_cast<int32_t>(facts_.numbers.size());
      facts_.numbers.push_back({.loop = loop, .round = round});
      const int32_t about =
          found.ascends ? begin : Computed("mica.int_sub", last, {.id = begin});
      SizeFacts::Use use{.first_call = at->calls[round],
                         .end_call = at->calls[round + 1],
                         .at = at->at};
      std::set<std::pair<int64_t, int64_t>> made;
      for (const Taken& taken : found.taken) {
        if (!made.insert({taken.factor, taken.offset}).second) continue;
        use.numbers.push_back(
            Scaled(at->like, about, taken.factor, taken.offset));
      }
      at->numbers.push_back(
          {begin, static_cast<int32_t>(facts_.numbers.size())});
      at->comparisons.emplace_back();
      facts_.uses.push_back(std::move(use));
    }
  }

  // Those of the rounds before it that lie beside it.
  void AddBeside(const Found& found) {
    if (found.ascends) return;
    const int32_t begin = facts_.loops[LoopAt(found).like].calls.back();
    for (int32_t call = begin; call < found.loop.calls.front(); ++call) {
      const TapeCall& beside = tape_.calls[call];
      if (!IsBackward(beside)) continue;
      SizeFacts::Use use{
          .first_call = call, .end_call = call + 1, .at = found.loop.at};
      for (size_t arg = 0; arg < beside.args.size(); ++arg) {
        const auto* number = std::get_if<int64_t>(&beside.args[arg]);
        if (number == nullptr) continue;
        const auto made = Beside(found, beside.op, arg, *number);
        if (made.has_value()) use.numbers.push_back(*made);
      }
      if (!use.numbers.empty()) facts_.uses.push_back(std::move(use));
    }
  }

 private:
  SizeFacts::Loop& LoopAt(const Found& found) {
    return *absl::c_find_if(facts_.loops, [&](const auto& loop) {
      return loop.calls == found.loop.calls;
    });
  }

  // A number that one of those rounds takes as this argument of `op`; they come
  // as if the loop had begun earlier.
  std::optional<int32_t> Beside(const Found& found, const std::string& op,
                                size_t arg, int64_t number) {
    const int32_t like = LoopAt(found).like;
    const auto last = static_cast<int64_t>(facts_.loops[like].calls.size()) - 2;
    for (int64_t before = 0; before <= found.loop.less; ++before) {
      for (const Taken& taken : found.taken) {
        if (taken.op != op || taken.arg != arg ||
            taken.factor * (last + before) + taken.offset != number) {
          continue;
        }
        const std::optional<int32_t> of = LastRoundOf(like);
        if (!of.has_value()) return std::nullopt;
        return Scaled(like, *of, taken.factor,
                      taken.offset + taken.factor * before);
      }
    }
    return std::nullopt;
  }

  // A number of a round of the program's `loop`. Where that counts from a
  // number on which follows from sizes, what the round takes does so, too.
  int32_t Scaled(int32_t loop, int32_t round, int64_t factor, int64_t offset) {
    TapeHostOperand start = facts_.loops[loop].start;
    const int64_t step = facts_.loops[loop].step;
    const std::optional<int64_t> from = ValueOf(start);
    if (start.id < 0 || step == 0 || factor % step != 0 || !from.has_value()) {
      return Linear({.id = round}, factor, offset);
    }
    const int64_t ratio = factor / step;
    const int32_t counted = Linear({.id = round}, step, 0);
    const int32_t number = Computed("mica.int_add", start, {.id = counted});
    return Linear({.id = number}, ratio, offset - ratio * *from);
  }
  int32_t Linear(TapeHostOperand number, int64_t factor, int64_t offset) {
    const int32_t product = Computed("mica.int_mul", number,
                                     {.constant = static_cast<double>(factor)});
    return Computed("mica.int_add", {.id = product},
                    {.constant = static_cast<double>(offset)});
  }

  // Of sizes and what is computed of them, as they are on the tape.
  std::optional<int64_t> ValueOf(const TapeHostOperand& operand) const {
    if (operand.id < 0) return static_cast<int64_t>(operand.constant);
    const SizeFacts::Number& number = facts_.numbers[operand.id];
    if (number.given >= 0 || number.loop >= 0) return std::nullopt;
    if (number.op.empty()) {
      if (number.tensor == kNoTapeTensor || number.dim < 0) return std::nullopt;
      return tape_.tensors[number.tensor].sizes[number.dim];
    }
    double operands[2] = {0, 0}, result = 0;
    const HostOp* op = FindHostOp(number.op);
    if (op == nullptr || number.operands.size() > 2) return std::nullopt;
    for (size_t i = 0; i < number.operands.size(); ++i) {
      const std::optional<int64_t> value = ValueOf(number.operands[i]);
      if (!value.has_value()) return std::nullopt;
      operands[i] = static_cast<double>(*value);
    }
    if (op->compute(operands[0], operands[1], &result) != nullptr) {
      return std::nullopt;
    }
    return WholeOf(result);
  }
  int32_t Computed(const char* op, TapeHostOperand a, TapeHostOperand b) {
    facts_.numbers.push_back({.op = op, .operands = {a, b}});
    return static_cast<int32_t>(facts_.numbers.size()) - 1;
  }

  // How many numbers a range has that isn't empty.
  TapeHostOperand CountOf(const SizeFacts::Loop& range) {
    TapeHostOperand count = range.stop;
    if (range.start != TapeHostOperand{}) {
      count = {.id = Computed("mica.int_sub", range.stop, range.start)};
    }
    if (range.step == 1) return count;
    // Rounded up.
    const auto step = static_cast<double>(range.step);
    count = {.id = Computed("mica.int_add", count,
                            {.constant = step + (step > 0 ? -1 : 1)})};
    return {.id = Computed("mica.int_floordiv", count, {.constant = step})};
  }

  // How often a loop goes, less one.
  std::optional<int32_t> LastRoundOf(int32_t loop) {
    if (const auto it = last_.find(loop); it != last_.end()) return it->second;
    const SizeFacts::Loop& of = facts_.loops[loop];
    TapeHostOperand count;
    if (of.step != 0 && (of.start.id >= 0 || of.stop.id >= 0)) {
      count = CountOf(of);
    } else if (of.call >= 0 && tape_.calls[of.call].op == "aten.unbind.int") {
      const TapeCall& parts = tape_.calls[of.call];
      const auto* from = std::get_if<TapeTensorRef>(&parts.args[0]);
      const auto* dim = std::get_if<int64_t>(&parts.args[1]);
      if (from == nullptr || dim == nullptr || *dim < 0) return std::nullopt;
      count.id = static_cast<int32_t>(facts_.numbers.size());
      facts_.numbers.push_back(
          {.tensor = from->id, .dim = static_cast<int32_t>(*dim)});
    } else {
      return std::nullopt;
    }
    const int32_t last = Computed("mica.int_add", count, {.constant = -1});
    last_[loop] = last;
    return last;
  }

  const Tape& tape_;
  SizeFacts& facts_;
  std::map<int32_t, int32_t> last_;  // Numbers, by loop.
};

}  // namespace

void AddBackwardLoops(const Tape& tape, SizeFacts& facts) {
  if (facts.loops.empty()) return;
  const std::vector<Found> found = BackwardLoops(tape, facts).Find();
  std::vector<SizeFacts::Loop> loops;
  for (const Found& one : found) loops.push_back(one.loop);
  AddLoops(std::move(loops), facts);
  CountedNumbers numbers(tape, facts);
  for (const Found& one : found) {
    if (!one.taken.empty()) numbers.Add(one);
  }
  for (const Found& one : found) numbers.AddBeside(one);
  absl::c_stable_sort(facts.uses, [](const auto& a, const auto& b) {
    return a.first_call < b.first_call;
  });
}

}  // namespace mica
