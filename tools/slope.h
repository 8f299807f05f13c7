// How the time of analysis grows with a Program.

#ifndef MICA_TOOLS_SLOPE_H_
#define MICA_TOOLS_SLOPE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tools/bench.h"

namespace mica {

struct SlopePoint {
  int64_t ops = 0;
  double analysis_ms = 0;  // The least of `repeats`.
  int64_t repeats = 0;
};

struct SlopeResult {
  std::vector<SlopePoint> points;
  // Of log(analysis_ms) over log(ops), by least squares: 1 is linear.
  double slope = 0;
};

// Plans Programs of the options' generator with 1,000 to `max_ops` ops or about
// as many, ten times more each, again and again until `ops_per_point` ops were
// planned, but twice at least. InvalidArgument as RunBench(), or for options
// without a generator.
absl::StatusOr<SlopeResult> RunSlope(const BenchOptions& options,
                                     int64_t max_ops,
                                     int64_t ops_per_point = 300'000);

// Of at least two points with different ops.
double SlopeOf(absl::Span<const SlopePoint> points);

}  // namespace mica

#endif  // MICA_TOOLS_SLOPE_H_
