// Calls of every op: generated for pointwise ones, listed for the others.

#ifndef MICA_TESTS_CONFORMANCE_CASES_H_
#define MICA_TESTS_CONFORMANCE_CASES_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/op/op_def.h"

namespace mica {

// Calls in the form of ParseCase(). Those of a pointwise op vary dims,
// strides, dtypes and what is a number; inference may refuse some of them.
std::vector<std::string> PointwiseCases(const OpDef& def);

// The calls listed for an op that is not pointwise; empty if there are none,
// which the suite takes for an error. All must be legal.
std::vector<std::string> ListedCases(const OpDef& def);

// Those of layers, losses, windows and attention; part of it.
std::vector<std::string> LayerCases(const OpDef& def);

// The calls listed for what only training needs; part of both of the above.
std::vector<std::string> TrainingCases(const OpDef& def);

// Appends those of `texts` that call the op.
void AddCallsOf(const OpDef& def, absl::Span<const absl::string_view> texts,
                std::vector<std::string>* cases);

}  // namespace mica

#endif  // MICA_TESTS_CONFORMANCE_CASES_H_
