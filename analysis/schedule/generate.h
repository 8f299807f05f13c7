// The known ways to order a pipeline's Jobs.

#ifndef MICA_ANALYSIS_SCHEDULE_GENERATE_H_
#define MICA_ANALYSIS_SCHEDULE_GENERATE_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "analysis/schedule/simulate.h"
#include "framework/schedule/schedule.h"

namespace mica {

enum class PipelineKind : uint8_t {
  // All forward passes, then all backward passes.
  kGpipe,
  // One forward pass, one backward pass in turn, so that no device holds more
  // micro-batches than there are stages from it to the last.
  k1F1B,
  // 1F1B with several stages a device, round robin: an idle time that many
  // times shorter, for more messages and more live activations.
  kInterleaved,
  // 1F1B with backward passes in two parts. The weights' part fills what was
  // idle time; no device holds more micro-batches than 1F1B's first.
  kZeroBubbleH1,
  // The same with two stages a device, one from each end: the first device
  // holds the last stage too, and all hold as many activations.
  kZeroBubbleV,
};

// "gpipe", "1f1b", "interleaved", "zb_h1", "zbv".
absl::string_view ToString(PipelineKind kind);
std::optional<PipelineKind> ParsePipelineKind(absl::string_view text);

struct PipelineOptions {
  PipelineKind kind = PipelineKind::k1F1B;
  int num_devices = 1;
  int num_micro_batches = 1;
  // Stages a device; 0 means what the kind wants: 2 of interleaved and zbv, 1
  // of the others.
  int num_chunks = 0;
  // Each stage ends with an update of its variables.
  bool has_update = true;
  // What zb_h1 and zbv are ordered for; empty means that all Jobs take equally
  // long. The other kinds' order doesn't depend on it.
  ScheduleCosts costs;
};

// Stages in a pipeline of `options`, and hence of its costs.
int NumStages(const PipelineOptions& options);

// InvalidArgument for options that are out of range. What it returns passes
// JobGraph::Build().
absl::StatusOr<Schedule> MakePipeline(const PipelineOptions& options);

}  // namespace mica

#endif  // MICA_ANALYSIS_SCHEDULE_GENERATE_H_
