// Where a sequence repeats itself.

#ifndef MICA_ANALYSIS_FUNCTIONS_REPEATS_H_
#define MICA_ANALYSIS_FUNCTIONS_REPEATS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace mica {

// `count` times `period` words from `begin` on, each time the same ones, and
// behind them `tail` more, which begin another copy.
struct Repeat {
  int32_t begin = 0;
  int32_t period = 0;
  int32_t count = 0;
  int32_t tail = 0;
  int32_t end() const { return begin + period * count; }
  // How many words a reader of one copy is spared.
  int64_t saved() const { return int64_t{period} * (count - 1); }
  friend bool operator==(const Repeat&, const Repeat&) = default;
};

// Runs of copies that stand one behind another, none of which overlap, those
// that save most first; `count` is 2 or more, `period` at least `shortest`.
// Periods are guessed from how far windows of words are from their next
// occurrence, and the most promising are tried: of the order of the sequence's
// length, for any words.
std::vector<Repeat> FindRepeats(absl::Span<const uint64_t> words,
                                int32_t shortest);

}  // namespace mica

#endif  // MICA_ANALYSIS_FUNCTIONS_REPEATS_H_
