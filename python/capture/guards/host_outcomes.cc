#include "python/capture/guards/host_outcomes.h"

#include <utility>

namespace mica {

HostOutcomes::HostOutcomes(absl::Span<const TapeHostValue> values,
                           absl::Span<const HostValues::Comparison> comparisons,
                           const HostInputs& inputs) {
  for (const HostValues::Comparison& comparison : comparisons) {
    const int a = expressions_.Add(comparison.a, values, inputs);
    const int b = expressions_.Add(comparison.b, values, inputs);
    if (a < 0 || b < 0) continue;
    outcomes_.push_back(
        {.node = expressions_.AddOp(FindHostOp(comparison.op), a, b),
         .recorded = comparison.outcome,
         .at = comparison.at});
  }
  if (outcomes_.empty()) expressions_ = HostExpressions();
}

bool HostOutcomes::Check(absl::Span<const double> inputs,
                         absl::Span<const TapeHostValue> values,
                         Miss* miss) const {
  if (outcomes_.empty()) return true;
  std::vector<double> computed;
  if (!expressions_.Compute(inputs, values, expressions_.num_nodes(),
                            &computed)) {
    return true;
  }
  for (const Outcome& outcome : outcomes_) {
    if ((computed[outcome.node] != 0) == outcome.recorded) continue;
    if (miss != nullptr) {
      const bool is_drawn = expressions_.is_drawn(outcome.node);
      *miss = {.kind = is_drawn ? "draw" : "host read",
               .note = {.path = "the outcome of the comparison of numbers at " +
                                outcome.at.ToString()},
               .expected = "the recorded one",
               .got = "another"};
    }
    return false;
  }
  return true;
}

}  // namespace mica
