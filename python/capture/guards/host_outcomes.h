// Outcomes of comparisons that are known before a run computes anything.

#ifndef MICA_PYTHON_CAPTURE_GUARDS_HOST_OUTCOMES_H_
#define MICA_PYTHON_CAPTURE_GUARDS_HOST_OUTCOMES_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "analysis/lower/tape.h"
#include "kernels/reference/host_arithmetic.h"
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
  struct Node {
    const HostOp* op = nullptr;  // Null: an input, a size or a constant.
    int input = -1;
    int size = -1;  // An entry of the tape's numbers.
    double constant = 0;
    int operands[2] = {-1, -1};  // Nodes before this one.
    bool is_drawn = false;       // It follows from a draw.
  };
  struct Outcome {
    int node = 0;
    bool recorded = false;
    UserLine at;
  };
  // The node of an entry of `values`, or of a constant; -1 for what needs a
  // run. `known` has those made so far, by entry.
  int Add(const TapeHostOperand& operand,
          absl::Span<const TapeHostValue> values, const HostInputs& inputs,
          std::vector<int>& known);

  std::vector<Node> nodes_;
  std::vector<Outcome> outcomes_;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_GUARDS_HOST_OUTCOMES_H_
