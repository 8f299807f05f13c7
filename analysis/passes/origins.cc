#include "analysis/passes/origins.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/ir/control_flow.h"

namespace mica {
namespace {

// Calls `visit(SourceLine&)` for each op, in the order of flat ids.
template <typename Visit>
void ForEachSource(ProgramEditor& program, const Visit& visit) {
  program.ForEachOp(
      [&](ProgramEditor& block, OpId op) { visit(block.source(op)); });
}

}  // namespace

Program WithOrigins(const Program& program) {
  ProgramEditor editor(program);
  OpId flat_id = 0;
  ForEachSource(editor, [&](SourceLine& source) {
    source.origin = flat_id++;
    source.origin_shift = 0;
  });
  return editor.Freeze();
}

LargeVector<OpId> OriginsOf(const Program& program) {
  LargeVector<OpId> origins;
  origins.reserve(program.ops().size());
  for (const Op& op : program.ops()) origins.push_back(op.source.origin);
  return origins;
}

LargeVector<Origin> FlatOriginsOf(const Program& program) {
  LargeVector<Origin> origins;
  ForEachOp(program, [&](const Op& op) {
    origins.push_back(
        {.op = op.source.origin, .shift = op.source.origin_shift});
  });
  return origins;
}

absl::Status TakeLines(const Program& from, ProgramEditor& program) {
  std::vector<const SourceLine*> lines;
  ForEachOp(from, [&](const Op& op) { lines.push_back(&op.source); });
  absl::Status status;
  ForEachSource(program, [&](SourceLine& source) {
    const OpId origin = source.origin;
    if (origin >= static_cast<OpId>(lines.size())) {
      status.Update(absl::InvalidArgumentError(
          absl::StrCat("an op comes from op ", origin, " of ", lines.size())));
      return;
    }
    const OpId shift = source.origin_shift;
    source = origin < 0 ? SourceLine() : *lines[origin];
    source.origin = origin;
    source.origin_shift = shift;
  });
  return status;
}

absl::Status SetOrigins(absl::Span<const Origin> origins,
                        ProgramEditor& program) {
  size_t flat_id = 0;
  ForEachSource(program, [&](SourceLine& source) {
    const bool has_one = flat_id < origins.size();
    source = {};
    if (has_one) {
      source.origin = origins[flat_id].op;
      source.origin_shift = origins[flat_id].shift;
    }
    ++flat_id;
  });
  if (flat_id == origins.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      origins.size(), " origins, but the Program has ", flat_id, " ops"));
}

}  // namespace mica
