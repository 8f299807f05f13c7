// What a program made of sizes in the rounds of loops.

#ifndef MICA_ANALYSIS_SIZES_ROUNDS_OF_NUMBERS_H_
#define MICA_ANALYSIS_SIZES_ROUNDS_OF_NUMBERS_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "analysis/lower/tape.h"
#include "analysis/sizes/rounds.h"
#include "analysis/sizes/size_facts.h"

namespace mica {

// Facts with other numbers of rounds. Old numbers keep their places, those of
// rounds that are no more follow from nothing; new rounds' come after them.
class NumbersInRounds {
 public:
  using Origin = OtherRounds::Origin;
  // As OtherRounds::Find().
  using FindTensor = std::function<TapeTensorId(
      TapeTensorId id, TapeTensorId before, const Origin& in)>;

  // Of `facts`, which outlive it; `counts` by loop.
  NumbersInRounds(const SizeFacts& facts, std::vector<int32_t> counts);

  // All but uses, what is exact and what is pinned, and where calls begin.
  SizeFacts Make(const FindTensor& find) const;

  // As OtherRounds::Find(), of a number; -1 if nobody can tell.
  int32_t Find(int32_t number, int32_t before, const Origin& in) const;
  // Which round a number belongs to.
  Rounds::Place PlaceOf(int32_t number) const { return places_[number]; }
  // -1 if there is none.
  int32_t OldAt(const Rounds::Place& place) const;

 private:
  using Range = SizeFacts::Range;
  int32_t CountOf(int32_t loop) const {
    return static_cast<int32_t>(facts_.loops[loop].calls.size()) - 1;
  }
  // The number of a new round.
  int32_t At(const Rounds::Place& place) const;
  TapeHostOperand Map(TapeHostOperand number, const TapeHostOperand* before,
                      const Origin& in) const;
  SizeFacts::Number MakeNumber(int32_t index, int32_t before, const Origin& in,
                               const FindTensor& find) const;
  void MakeComparisons(SizeFacts& made) const;
  SizeFacts::Comparison MakeComparison(int32_t index, int32_t before,
                                       const Origin& in) const;

  const SizeFacts& facts_;
  const std::vector<int32_t> counts_;
  std::vector<Rounds::Place> places_;       // By number.
  std::vector<std::vector<Range>> ranges_;  // New ones, by loop and round.
};

}  // namespace mica

#endif  // MICA_ANALYSIS_SIZES_ROUNDS_OF_NUMBERS_H_
