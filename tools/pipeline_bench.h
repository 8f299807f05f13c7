// What it takes to plan a generated training step as a pipeline.

#ifndef MICA_TOOLS_PIPELINE_BENCH_H_
#define MICA_TOOLS_PIPELINE_BENCH_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "analysis/schedule/cut.h"
#include "framework/ir/program.h"
#include "nlohmann/json.hpp"
#include "tools/generate.h"

namespace mica {

struct PipelineBenchOptions {
  GenerateOptions generate;  // Of kind "transformer_step".
  std::string schedule;      // gpipe, 1f1b, interleaved, zb_h1 or zbv.
  int64_t num_devices = 8;
  int64_t num_micro_batches = 64;
  int64_t repeats = 5;  // Measurements.
};

// What a step that subtracts its gradients from its variables tells of them.
CutOptions CutOptionsOf(const Program& step);

// Cuts the step into a pipeline's stages, plans and joins them, and times that
// beside the same for one stage, one micro-batch, and as many layers as a stage
// has: `ratio` is the one by the other, of the medians.
absl::StatusOr<nlohmann::ordered_json> RunPipelineBench(
    const PipelineBenchOptions& options);

}  // namespace mica

#endif  // MICA_TOOLS_PIPELINE_BENCH_H_
