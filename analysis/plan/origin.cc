#include "analysis/plan/origin.h"

#include <memory>
#include <string>

#include "glog/logging.h"

namespace mica {
namespace {

// A Program that is ours alone is not yet frozen; only lines are written.
SourceLine& SourceOf(Program& program, size_t op) {
  return const_cast<Op&>(program.ops()[op]).source;
}

}  // namespace

void NumberSources(absl::Span<const OpId> origins, Program& program) {
  static const auto& file =
      *new std::shared_ptr<const std::string>(new std::string("op"));
  for (size_t i = 0; i < program.ops().size(); ++i) {
    // Line 0 would mean an unknown one.
    SourceOf(program, i) = {.file = file, .line = origins[i] + 1};
  }
}

std::vector<OpId> RestoreSources(const Program& from, Program& program) {
  std::vector<OpId> origins;
  origins.reserve(program.ops().size());
  for (size_t i = 0; i < program.ops().size(); ++i) {
    SourceLine& source = SourceOf(program, i);
    const OpId origin = source.line - 1;  // -1 if the pass gave no line.
    CHECK_LT(origin, static_cast<OpId>(from.ops().size()));
    origins.push_back(origin);
    source = origin < 0 ? SourceLine() : from.ops()[origin].source;
  }
  return origins;
}

}  // namespace mica
