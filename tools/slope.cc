#include "tools/slope.h"

#include <algorithm>
#include <cmath>

#include "framework/base/status.h"

namespace mica {
namespace {

constexpr int64_t kMinOps = 1000;
// Of the largest Programs, too: other work of the machine only ever adds time.
constexpr int64_t kMinRepeats = 6;

// `options` with a generator's sizes for about `ops` ops.
BenchOptions WithOps(BenchOptions options, int64_t ops) {
  // What a layer has of each kind.
  constexpr int64_t kOpsOfLayer = 29, kOpsOfStep = 106;
  options.generate.ops = ops;
  options.generate.layers = std::max<int64_t>(
      1, ops / (options.generate.kind == "transformer" ? kOpsOfLayer
                                                       : kOpsOfStep));
  options.plan_only = true;
  options.plan_repeats = 1;  // It is called as often as is wanted.
  options.from_text = false;
  return options;
}

}  // namespace

double SlopeOf(absl::Span<const SlopePoint> points) {
  const auto n = static_cast<double>(points.size());
  double x = 0, y = 0, xx = 0, xy = 0;
  for (const SlopePoint& point : points) {
    const double log_ops = std::log(static_cast<double>(point.ops));
    const double log_ms = std::log(point.analysis_ms);
    x += log_ops;
    y += log_ms;
    xx += log_ops * log_ops;
    xy += log_ops * log_ms;
  }
  return (n * xy - x * y) / (n * xx - x * x);
}

absl::StatusOr<SlopeResult> RunSlope(const BenchOptions& options,
                                     int64_t max_ops, int64_t ops_per_point) {
  if (options.generate.kind.empty() || !options.program_path.empty()) {
    return absl::InvalidArgumentError("slope: wants --generate=KIND");
  }
  if (max_ops < 10 * kMinOps) {
    return absl::InvalidArgumentError(
        "slope: wants --ops=10000 or more, the largest size");
  }
  SlopeResult result;
  for (int64_t ops = kMinOps; ops <= max_ops; ops *= 10) {
    const BenchOptions sized = WithOps(options, ops);
    SlopePoint point;
    point.repeats = std::max<int64_t>(kMinRepeats, ops_per_point / ops);
    for (int64_t i = 0; i < point.repeats; ++i) {
      MICA_ASSIGN_OR_RETURN(const BenchResult bench, RunBench(sized));
      point.ops = bench.ops;
      point.analysis_ms = i == 0
                              ? bench.analysis_ms
                              : std::min(point.analysis_ms, bench.analysis_ms);
    }
    result.points.push_back(point);
  }
  result.slope = SlopeOf(result.points);
  return result;
}

}  // namespace mica
