// The Program of a record whose sizes vary, with symbols for them.

#ifndef MICA_PYTHON_CAPTURE_RECORD_SYMBOLS_H_
#define MICA_PYTHON_CAPTURE_RECORD_SYMBOLS_H_

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/ir/program.h"
#include "python/capture/record/record.h"

namespace mica {

// A size that a Program leaves open.
struct NamedSize {
  std::string name;
  std::vector<std::pair<int, int>> dims;  // Input and dim, which have it.
  int64_t least = 2;
  int64_t greatest = std::numeric_limits<int64_t>::max();
};

// The record's Program for all of these sizes; others are as in the last
// watched run. It returns the results of these numbers, each as a tensor of its
// own, and then the first `num_numbers` numbers. FailedPrecondition says why
// there is none: sizes that don't vary, or what doesn't follow from them.
absl::StatusOr<Program> SymbolicProgram(const Record& record,
                                        absl::Span<const NamedSize> open,
                                        absl::Span<const int> results,
                                        int num_numbers);

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_RECORD_SYMBOLS_H_
