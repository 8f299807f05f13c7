// Leaves out of a Program what nobody needs.

#ifndef MICA_ANALYSIS_PASSES_DEAD_OPS_H_
#define MICA_ANALYSIS_PASSES_DEAD_OPS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/ir/program.h"
#include "framework/op/op_registry.h"

namespace mica {

// The Program without ops that nothing depends on, and without results of
// branches and loops that nobody reads. Inputs and variables stay.
absl::StatusOr<Program> RemoveDeadOps(Program program,
                                      const OpRegistry& registry);
// False if RemoveDeadOps() would leave it as it is; of one with
// branches or loops that isn't looked for.
bool MayHaveDeadOps(const Program& program);

// The same with other outputs.
absl::StatusOr<Program> KeepLiveOps(const Program& program,
                                    absl::Span<const ValueId> outputs,
                                    const OpRegistry& registry);

// The same ops and updates with other outputs, dead ones removed.
absl::StatusOr<Program> WithOutputs(const Program& program,
                                    absl::Span<const ValueId> outputs,
                                    const OpRegistry& registry);
// Of outputs by their values' names; NotFound if it has no such value.
absl::StatusOr<Program> WithFetches(const Program& program,
                                    absl::Span<const std::string> fetches,
                                    const OpRegistry& registry);

}  // namespace mica

#endif  // MICA_ANALYSIS_PASSES_DEAD_OPS_H_
