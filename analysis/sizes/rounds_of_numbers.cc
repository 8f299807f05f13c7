#include "analysis/sizes/rounds_of_numbers.h"

#include <utility>

namespace mica {
namespace {

// What old rounds do is as it was.
OtherRounds::Origin InPlace(const Rounds::Place& place) {
  return {.loop = place.loop, .round = place.round, .from = place.round};
}

}  // namespace

NumbersInRounds::NumbersInRounds(const SizeFacts& facts,
                                 std::vector<int32_t> counts)
    : facts_(facts), counts_(std::move(counts)), places_(facts.numbers.size()) {
  auto next = static_cast<int32_t>(facts.numbers.size());
  for (size_t l = 0; l < counts_.size(); ++l) {
    const auto loop = static_cast<int32_t>(l);
    const std::vector<Range>& old = facts.loops[loop].numbers;
    std::vector<Range>& ranges = ranges_.emplace_back();
    for (size_t round = 0; round < old.size(); ++round) {
      for (int32_t i = old[round].begin; i < old[round].end; ++i) {
        places_[i] = {loop, static_cast<int32_t>(round), i - old[round].begin};
      }
    }
    for (int32_t round = 0; round < counts_[loop] && !old.empty(); ++round) {
      if (round < CountOf(loop)) {
        ranges.push_back(old[round]);
        continue;
      }
      ranges.push_back({next, next + old.back().size()});
      next = ranges.back().end;
    }
  }
}

int32_t NumbersInRounds::OldAt(const Rounds::Place& place) const {
  const std::vector<Range>& old = facts_.loops[place.loop].numbers;
  if (place.round < 0 || place.round >= static_cast<int32_t>(old.size()) ||
      place.position >= old[place.round].size()) {
    return -1;
  }
  return old[place.round].begin + place.position;
}

int32_t NumbersInRounds::At(const Rounds::Place& place) const {
  const std::vector<Range>& ranges = ranges_[place.loop];
  if (place.round < 0 || place.round >= static_cast<int32_t>(ranges.size()) ||
      place.position >= ranges[place.round].size()) {
    return -1;
  }
  return ranges[place.round].begin + place.position;
}

int32_t NumbersInRounds::Find(int32_t number, int32_t before,
                              const Origin& in) const {
  Rounds::Place place = places_[number];
  if (in.is_copy() && before != number) {
    if (before < 0 || place.loop != in.loop) return -1;
    const Rounds::Place there = places_[before];
    if (there.loop != place.loop || there.position != place.position ||
        there.round + 1 != place.round) {
      return -1;
    }
    place.round += in.round - in.from;
    return At(place);
  }
  if (place.loop < 0) return number;
  // What comes after a loop uses the last round's.
  if (place.loop != in.loop && place.round + 1 == CountOf(place.loop)) {
    place.round = counts_[place.loop] - 1;
  }
  return At(place);
}

TapeHostOperand NumbersInRounds::Map(TapeHostOperand number,
                                     const TapeHostOperand* before,
                                     const Origin& in) const {
  bool is_known = true;
  if (number.id >= 0) {
    number.id = Find(number.id, before == nullptr ? -1 : before->id, in);
    is_known = number.id >= 0;
  } else if (in.is_copy()) {
    is_known = before != nullptr && number == *before;
  }
  if (!is_known) number.constant = SizeFacts::kUnknown;
  return number;
}

SizeFacts::Number NumbersInRounds::MakeNumber(int32_t index, int32_t before,
                                              const Origin& in,
                                              const FindTensor& find) const {
  SizeFacts::Number number = facts_.numbers[index];
  const SizeFacts::Number* like =
      before < 0 ? nullptr : &facts_.numbers[before];
  if (in.is_copy()) {
    if (like == nullptr || like->op != number.op || like->dim != number.dim ||
        like->given != number.given || like->loop != number.loop ||
        like->operands.size() != number.operands.size() ||
        (number.loop >= 0 && like->round + 1 != number.round)) {
      return {};
    }
    if (number.loop >= 0) number.round += in.round - in.from;
  }
  if (number.tensor != kNoTapeTensor) {
    number.tensor =
        find(number.tensor, like == nullptr ? kNoTapeTensor : like->tensor, in);
  }
  for (size_t i = 0; i < number.operands.size(); ++i) {
    number.operands[i] = Map(
        number.operands[i], like == nullptr ? nullptr : &like->operands[i], in);
  }
  return number;
}

SizeFacts NumbersInRounds::Make(const FindTensor& find) const {
  SizeFacts made;
  made.given = facts_.given;
  made.loops = facts_.loops;
  made.unknown = facts_.unknown;
  for (size_t i = 0; i < facts_.numbers.size(); ++i) {
    const Rounds::Place& place = places_[i];
    const bool is_there = place.loop < 0 || place.round < counts_[place.loop];
    made.numbers.push_back(
        is_there ? MakeNumber(static_cast<int32_t>(i), -1, InPlace(place), find)
                 : SizeFacts::Number{});
  }
  for (size_t l = 0; l < counts_.size(); ++l) {
    const auto loop = static_cast<int32_t>(l);
    const int32_t last = CountOf(loop) - 1;
    made.loops[loop].numbers = ranges_[loop];
    for (int32_t round = last + 1; round < counts_[loop]; ++round) {
      if (ranges_[loop].empty()) break;
      for (int32_t i = 0; i < ranges_[loop][round].size(); ++i) {
        made.numbers.push_back(
            MakeNumber(OldAt({loop, last, i}), OldAt({loop, last - 1, i}),
                       {.loop = loop, .round = round, .from = last}, find));
      }
    }
  }
  MakeComparisons(made);
  return made;
}

SizeFacts::Comparison NumbersInRounds::MakeComparison(int32_t index,
                                                      int32_t before,
                                                      const Origin& in) const {
  SizeFacts::Comparison made = facts_.comparisons[index];
  const SizeFacts::Comparison* like =
      before < 0 ? nullptr : &facts_.comparisons[before];
  made.a = Map(made.a, like == nullptr ? nullptr : &like->a, in);
  made.b = Map(made.b, like == nullptr ? nullptr : &like->b, in);
  return made;
}

// Of rounds that are gone none is made.
void NumbersInRounds::MakeComparisons(SizeFacts& made) const {
  std::vector<Rounds::Place> places(facts_.comparisons.size());
  for (size_t l = 0; l < counts_.size(); ++l) {
    const std::vector<Range>& old = facts_.loops[l].comparisons;
    for (size_t round = 0; round < old.size(); ++round) {
      for (int32_t i = old[round].begin; i < old[round].end; ++i) {
        places[i] = {static_cast<int32_t>(l), static_cast<int32_t>(round)};
      }
    }
    if (!old.empty()) made.loops[l].comparisons.assign(counts_[l], Range{});
  }
  for (size_t i = 0; i < places.size(); ++i) {
    const Rounds::Place& place = places[i];
    if (place.loop >= 0 && place.round >= counts_[place.loop]) continue;
    const auto index = static_cast<int32_t>(made.comparisons.size());
    made.comparisons.push_back(
        MakeComparison(static_cast<int32_t>(i), -1, InPlace(place)));
    if (place.loop < 0) continue;
    Range& range = made.loops[place.loop].comparisons[place.round];
    if (range.size() == 0) range = {index, index};
    ++range.end;
  }
  for (size_t l = 0; l < counts_.size(); ++l) {
    const auto loop = static_cast<int32_t>(l);
    const std::vector<Range>& old = facts_.loops[l].comparisons;
    const int32_t last = CountOf(loop) - 1;
    for (int32_t round = last + 1; round < counts_[l] && !old.empty();
         ++round) {
      const auto begin = static_cast<int32_t>(made.comparisons.size());
      const bool has_before =
          last > 0 && old[last - 1].size() == old[last].size();
      for (int32_t i = 0; i < old[last].size(); ++i) {
        made.comparisons.push_back(MakeComparison(
            old[last].begin + i, has_before ? old[last - 1].begin + i : -1,
            {.loop = loop, .round = round, .from = last}));
      }
      made.loops[l].comparisons[round] = {
          begin, static_cast<int32_t>(made.comparisons.size())};
    }
  }
}

}  // namespace mica
