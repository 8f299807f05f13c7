// Reads of what was just written take it from where it was.

#ifndef MICA_ANALYSIS_FUSE_FORWARD_WRITES_H_
#define MICA_ANALYSIS_FUSE_FORWARD_WRITES_H_

#include "absl/status/statusor.h"
#include "framework/ir/program.h"
#include "framework/op/op_registry.h"

namespace mica {

// A Program of the same meaning in which a window on a tensor that was written
// in part is what was written there, or a window on the tensor before, if the
// write didn't touch it. Programs that work in place on parts of a tensor, as
// recurrent layers do on their gates, lose their copies by it.
absl::StatusOr<Program> ForwardWrites(Program program, const OpRegistry& ops);

}  // namespace mica

#endif  // MICA_ANALYSIS_FUSE_FORWARD_WRITES_H_
