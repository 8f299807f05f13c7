#include "analysis/fuse/fuse.h"

#include "analysis/rewrite.h"

namespace mica {

absl::StatusOr<Program> Fuse(const Program& program, const OpRegistry& ops) {
  return RemoveDeadOps(program, ops);
}

}  // namespace mica
