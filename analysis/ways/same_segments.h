// Whether segments of two runs did the same.

#ifndef MICA_ANALYSIS_WAYS_SAME_SEGMENTS_H_
#define MICA_ANALYSIS_WAYS_SAME_SEGMENTS_H_

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "analysis/ways/way_run.h"
#include "analysis/ways/ways.h"

namespace mica {

// Of tensors that the graph knows by these names, what another run calls them.
using NamesInRun = absl::flat_hash_map<Ways::Name, TapeTensorId>;

// Ok if segment `segment_a` of `a`, which is `run_a` of the graph, and that of
// `b` make the same calls of the same tensors and numbers, and end alike; adds
// what they make to `in_b`. FailedPrecondition says in what they differ first.
absl::Status MatchSegments(const WayRun& a, int32_t run_a, int32_t segment_a,
                           const WayRun& b, int32_t segment_b,
                           NamesInRun* in_b);

}  // namespace mica

#endif  // MICA_ANALYSIS_WAYS_SAME_SEGMENTS_H_
