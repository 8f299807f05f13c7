// Runs of one program that went through its loops in other numbers of rounds.

#ifndef MICA_ANALYSIS_SIZES_RUNS_IN_ROUNDS_H_
#define MICA_ANALYSIS_SIZES_RUNS_IN_ROUNDS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "analysis/lower/tape.h"
#include "analysis/sizes/explanation.h"
#include "analysis/sizes/rounds.h"
#include "analysis/sizes/size_facts.h"

namespace mica {

// Runs as if each had gone through its loops as often as the one that went
// through them most often, which is the last.
struct RunsInRounds {
  std::vector<SizedTape> runs;
  SizeFacts facts;  // Of the last.
  Rounds rounds;    // The same; none if all runs made as many.
  std::vector<std::vector<int32_t>> counts;  // By run, what it made itself.
  // The runs as they were, where that differs.
  struct Recorded {
    SizedTape run;
    Rounds rounds;
  };
  std::vector<Recorded> recorded;
};

// `facts` of the last run. Loops of code in C, which no facts tell of, are
// found among its calls.
absl::StatusOr<RunsInRounds> AlignRuns(std::vector<SizedTape> runs,
                                       SizeFacts facts);

// How many tensors a call gives that takes one apart; nothing for another one.
std::optional<int32_t> CountParts(const Tape& tape, int32_t call,
                                  absl::Span<const TensorSizes> sizes);
// How often a loop goes, where earlier ones go so often; nothing if that isn't
// known.
std::optional<int32_t> CountRounds(const SizeFacts::Loop& loop,
                                   const Tape& tape,
                                   absl::Span<const int32_t> earlier,
                                   SizeNumbers& numbers,
                                   absl::Span<const TensorSizes> sizes);
// Of a run, as its own facts have them.
Rounds RoundsOf(const Tape& tape, const SizeFacts& facts);

}  // namespace mica

#endif  // MICA_ANALYSIS_SIZES_RUNS_IN_ROUNDS_H_
