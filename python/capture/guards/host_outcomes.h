// Outcomes of comparisons that are known before a run computes anything.

#ifndef MICA_PYTHON_CAPTURE_GUARDS_HOST_OUTCOMES_H_
#define MICA_PYTHON_CAPTURE_GUARDS_HOST_OUTCOMES_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "analysis/lower/tape.h"
#include "python/capture/guards/host_expressions.h"
#include "python/capture/guards/host_inputs.h"
#include "python/capture/values/guard_note.h"

namespace mica {

// Of a record's comparisons of numbers those that follow from its host inputs
// alone. The Program checks them too; here a record in whose way a number
// stands is told from others without a run. Immutable once built.
class HostOutcomes {
 public:
  HostOutcomes() = default;
  // `values` as HostValues::Finish() gives them.
  HostOutcomes(absl::Span<const TapeHostValue> values,
               absl::Span<const HostValues::Comparison> comparisons,
               const HostInputs& inputs);

  // False if one is another than the recorded one for these host inputs and
  // the numbers of the run's tape, of which sizes count; one that can't be
  // computed is left to the Program.
  bool Check(absl::Span<const double> inputs,
             absl::Span<const TapeHostValue> values, Miss* miss) const;

 private:
  struct Outcome {
    int node = 0;
    bool recorded = false;
    UserLine at;
  };

  HostExpressions expressions_;
  std::vector<Outcome> outcomes_;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_GUARDS_HOST_OUTCOMES_H_
