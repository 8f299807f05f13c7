// Ops that may raise and whose results nobody uses.

#ifndef MICA_ANALYSIS_LOWER_RAISING_OPS_H_
#define MICA_ANALYSIS_LOWER_RAISING_OPS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/ir/program.h"
#include "framework/op/op_registry.h"

namespace mica {

// Whether making a number by this op raises for some operands: x / 0.
bool MayRaise(absl::string_view op);

// A result each of the ops that may raise, by their operands' values, and that
// no output, update or effect of the Program depends on: left out, they would
// raise no more. Requires: a Program without bodies.
std::vector<ValueId> UnusedThatMayRaise(const Program& program);

// The Program with these outputs and a mica.keep behind each op that makes one
// of `values`, which are tensors.
absl::StatusOr<Program> WithKept(const Program& program,
                                 absl::Span<const ValueId> outputs,
                                 absl::Span<const ValueId> values,
                                 const OpRegistry& registry);

}  // namespace mica

#endif  // MICA_ANALYSIS_LOWER_RAISING_OPS_H_
