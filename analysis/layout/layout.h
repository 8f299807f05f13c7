// Chooses where the elements of images lie in memory.

#ifndef MICA_ANALYSIS_LAYOUT_LAYOUT_H_
#define MICA_ANALYSIS_LAYOUT_LAYOUT_H_

#include "absl/status/statusor.h"
#include "framework/ir/program.h"
#include "framework/op/op_registry.h"

namespace mica {

// A Program of the same meaning whose convolutions give results with the
// channels last, and the ops behind them follow. Copies lead back where an op
// or the caller wants the recorded strides; where they would be as many as the
// convolutions, the Program is returned as it is.
absl::StatusOr<Program> ChooseLayouts(Program program, const OpRegistry& ops);

}  // namespace mica

#endif  // MICA_ANALYSIS_LAYOUT_LAYOUT_H_
