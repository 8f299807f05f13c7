// What is needed of a branch or a loop, if only some of its results are.

#ifndef MICA_ANALYSIS_PASSES_PRUNE_H_
#define MICA_ANALYSIS_PASSES_PRUNE_H_

#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/ir/program.h"
#include "framework/op/op_registry.h"

namespace mica {

struct PrunedControl {
  // False if no result is left and nothing inside has an effect.
  bool is_needed = true;
  // With the results, operands and inner ops that are needed; its values are
  // those of the op's own Program.
  Op op;
  // Results that are an operand, whichever body runs and however often.
  std::vector<std::pair<ValueId, ValueId>> forwarded;
};

// `is_live` tells by value what is read behind `op`. What a loop carries is
// needed if a later round or somebody behind the loop reads it.
absl::StatusOr<PrunedControl> PruneControl(const Program& program, const Op& op,
                                           const std::vector<bool>& is_live,
                                           const OpRegistry& registry);

}  // namespace mica

#endif  // MICA_ANALYSIS_PASSES_PRUNE_H_
