// Numbers that were the same in all runs and may follow from sizes all the
// same.

#ifndef MICA_ANALYSIS_SIZES_FIXED_NUMBERS_H_
#define MICA_ANALYSIS_SIZES_FIXED_NUMBERS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "analysis/lower/tape.h"
#include "analysis/sizes/explanation.h"
#include "analysis/sizes/size_facts.h"

namespace mica {

// C++ code rounds where it cuts a dim: chunk(2) passes 4 to split() for 7 rows
// and for 8. Of the numbers by which calls cut or shift a dim whose size
// differs between the runs, each has to be one that Python passed, or of a
// formula that is known.
absl::Status CheckFixedNumbers(const Tape& tape, const SizeFacts& facts,
                               const SizeGroups& groups,
                               absl::Span<const SizeSlot> slots);

// By which formula ATen makes the number `item` (of a list; else -1) of
// argument `arg`, which has these values by run, the same ones perhaps: the
// output size of upsampling by a scale, the parts of chunk(), the ends in
// diff(). Empty if that isn't known, or no size that differs takes part;
// several if they fit.
std::vector<SizeTerm> FindFormulas(const Tape& tape, const SizeFacts& facts,
                                   const SizeGroups& groups, int32_t call,
                                   int32_t arg, int32_t item,
                                   absl::Span<const double> values);

// The product of some sizes of a tensor was the same in all runs, though these
// differ: what was made of it can't be told from a constant.
absl::Status CheckFixedProducts(const Tape& tape, const SizeGroups& groups);

}  // namespace mica

#endif  // MICA_ANALYSIS_SIZES_FIXED_NUMBERS_H_
