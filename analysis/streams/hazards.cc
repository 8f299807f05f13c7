#include "analysis/streams/hazards.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "analysis/streams/byte_map.h"

namespace mica {
namespace {

constexpr int32_t kNoWriter = -1;

// The last that wrote a piece of memory, and who read it since.
struct History {
  int32_t writer = kNoWriter;
  std::vector<int32_t> readers;
};

// Spaces that some step writes: reads of the others order nothing.
absl::flat_hash_set<int32_t> FindWritten(const StepAccesses& accesses) {
  absl::flat_hash_set<int32_t> written;
  for (int32_t step = 0; step < accesses.num_steps(); ++step) {
    for (const Access& access : accesses.of(step)) {
      if (access.is_write) written.insert(access.space);
    }
  }
  return written;
}

}  // namespace

void StepGraph::AddStep(std::vector<int32_t> before) {
  std::sort(before.begin(), before.end());
  before.erase(std::unique(before.begin(), before.end()), before.end());
  before_.insert(before_.end(), before.begin(), before.end());
  ends_.push_back(static_cast<int32_t>(before_.size()));
}

StepGraph FindHazards(const StepAccesses& accesses) {
  StepGraph graph;
  ByteMap<History> memory;
  const absl::flat_hash_set<int32_t> written = FindWritten(accesses);
  for (int32_t step = 0; step < accesses.num_steps(); ++step) {
    std::vector<int32_t> before;
    auto after = [&](int32_t other) {
      if (other != kNoWriter && other != step) before.push_back(other);
    };
    for (const Access& access : accesses.of(step)) {
      if (!written.contains(access.space)) continue;
      memory.Visit(access.space, access.begin, access.end,
                   [&](History& history) {
                     after(history.writer);
                     if (access.is_write) {
                       for (int32_t reader : history.readers) after(reader);
                     } else {
                       history.readers.push_back(step);
                     }
                   });
    }
    for (const Access& access : accesses.of(step)) {
      if (!access.is_write) continue;
      memory.Set(access.space, access.begin, access.end, {.writer = step});
    }
    graph.AddStep(std::move(before));
  }
  return graph;
}

}  // namespace mica
