// Finds the operator that computes what an in-place or out= call writes.

#ifndef MICA_ANALYSIS_LOWER_FUNCTIONAL_H_
#define MICA_ANALYSIS_LOWER_FUNCTIONAL_H_

#include <optional>
#include <vector>

#include "analysis/lower/tape.h"
#include "framework/op/op_registry.h"

namespace mica {

// A known operator whose one result is what the call wrote.
struct FunctionalForm {
  const OpDef* def = nullptr;
  std::vector<int> params;  // For each parameter of `def`: the call's argument.
  int mutated = 0;          // The call's argument that takes the result.
};

// By ATen's naming rule: aten.add_.Tensor writes what aten.add.Tensor returns,
// and so does aten.add.out. Nothing if `registry` has no such operator, or if
// the call writes more than one tensor.
std::optional<FunctionalForm> FindFunctionalForm(const TapeCall& call,
                                                 const OpRegistry& registry);

// The operator that returns, after the call's own results, what the call wrote
// beside them, in order of its mutated arguments: native_batch_norm's running
// statistics. Its parameters are the call's. Null if `registry` has none.
const OpDef* FindReturningForm(const TapeCall& call,
                               const OpRegistry& registry);

}  // namespace mica

#endif  // MICA_ANALYSIS_LOWER_FUNCTIONAL_H_
