// A Program with symbols, of what it is at some sizes.

#ifndef MICA_ANALYSIS_SIZES_SYMBOLIC_PROGRAM_H_
#define MICA_ANALYSIS_SIZES_SYMBOLIC_PROGRAM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "analysis/sizes/size_template.h"
#include "framework/ir/program.h"
#include "framework/op/op_registry.h"

namespace mica {

// A Program at certain sizes of its inputs.
struct SizedProgram {
  std::vector<int64_t> sizes;  // By symbol.
  Program program;
  // The same ones, in the same order, for each.
  std::vector<SizeCondition> conditions;
};

// The Program that is each of `samples` at its sizes: of equal ops, whose
// numbers are polynomials of the symbols. Those are fitted, and have to agree
// in more samples than they have terms. Conditions become mica.require_size.
// FailedPrecondition, naming the op and the user's line, for numbers that are
// no polynomials, ops that differ, and where there are too few samples.
absl::StatusOr<Program> MakeSymbolic(absl::Span<const std::string> symbols,
                                     absl::Span<const SizedProgram> samples,
                                     const OpRegistry& ops);

// Sizes to ask for: some near `base`, some not, each from `least` to
// `greatest`, by symbol; no more than are needed.
std::vector<std::vector<int64_t>> SizesToSample(
    absl::Span<const int64_t> base, absl::Span<const int64_t> least,
    absl::Span<const int64_t> greatest);

}  // namespace mica

#endif  // MICA_ANALYSIS_SIZES_SYMBOLIC_PROGRAM_H_
