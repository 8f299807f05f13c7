#include "analysis/plan/origin.h"

#include <memory>
#include <string>
#include <utility>

#include "analysis/plan/own_bodies.h"
#include "framework/ir/control_flow.h"
#include "glog/logging.h"

namespace mica {
namespace {

// Calls `visit(SourceLine&)` for each op, those of bodies behind their own.
// These must be the Program's own.
template <typename Visit>
void ForEachSource(Program& program, const Visit& visit) {
  for (const Op& op : program.ops()) {
    // A Program that is ours alone is not yet frozen; only lines are written.
    visit(const_cast<SourceLine&>(op.source));
    ForEachOwnBody(op, [&](Program& body) { ForEachSource(body, visit); });
  }
}

}  // namespace

void NumberSources(absl::Span<const OpId> origins, Program& program) {
  static const auto& file =
      *new std::shared_ptr<const std::string>(new std::string("op"));
  OwnBodies(program);
  size_t flat_id = 0;
  ForEachSource(program, [&](SourceLine& source) {
    // Line 0 would mean an unknown one.
    source = {.file = file, .line = origins[flat_id++] + 1};
  });
}

LargeVector<OpId> RestoreSources(const Program& from, Program& program) {
  std::vector<const SourceLine*> sources;
  ForEachOp(from, [&](const Op& op) { sources.push_back(&op.source); });
  OwnBodies(program);
  LargeVector<OpId> origins;
  origins.reserve(program.ops().size());
  ForEachSource(program, [&](SourceLine& source) {
    const OpId origin = source.line - 1;  // -1 if the pass gave no line.
    CHECK_LT(origin, static_cast<OpId>(sources.size()));
    origins.push_back(origin);
    source = origin < 0 ? SourceLine() : *sources[origin];
  });
  return origins;
}

}  // namespace mica
