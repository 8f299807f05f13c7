// Which op of the user's Program each op comes from that passes have left.

#ifndef MICA_ANALYSIS_PASSES_ORIGINS_H_
#define MICA_ANALYSIS_PASSES_ORIGINS_H_

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "framework/base/large_vector.h"
#include "framework/ir/program.h"
#include "framework/ir/program_editor.h"

namespace mica {

// SourceLine::origin and origin_shift of an op.
struct Origin {
  OpId op = -1;
  OpId shift = 0;
  friend bool operator==(const Origin&, const Origin&) = default;
};

// A copy of `program` whose ops know which they are: SourceLine::origin is the
// flat id (ForEachOp) of each.
Program WithOrigins(const Program& program);
// The origins of a Program's ops, bodies' own not among them; -1 for one that
// has none.
LargeVector<OpId> OriginsOf(const Program& program);
// The same with bodies', by flat id.
LargeVector<Origin> FlatOriginsOf(const Program& program);
// Gives its ops these origins, by flat id, and no lines. InvalidArgument unless
// there are as many.
absl::Status SetOrigins(absl::Span<const Origin> origins,
                        ProgramEditor& program);
// Gives each op the line of the op of `from` that it comes from, none to one
// that comes from none. InvalidArgument if `from` has no such op.
absl::Status TakeLines(const Program& from, ProgramEditor& program);

}  // namespace mica

#endif  // MICA_ANALYSIS_PASSES_ORIGINS_H_
