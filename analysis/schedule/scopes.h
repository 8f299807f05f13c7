// Where in a Program its modules' forward passes are.

#ifndef MICA_ANALYSIS_SCHEDULE_SCOPES_H_
#define MICA_ANALYSIS_SCHEDULE_SCOPES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/ir/program.h"

namespace mica {

// The first forward op of each of `scopes`, which are modules or what is part
// of them: "layers.1" is where "layers.1.fc" is, too. `is_forward` is by op.
//
// NotFound for a module that runs no forward op, with those that do;
// InvalidArgument for one that doesn't run after the one before it.
absl::StatusOr<std::vector<OpId>> FindStarts(
    const Program& program, const std::vector<bool>& is_forward,
    const std::vector<std::string>& scopes);

}  // namespace mica

#endif  // MICA_ANALYSIS_SCHEDULE_SCOPES_H_
