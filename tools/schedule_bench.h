// Figures of one Schedule, from a text or generated.

#ifndef MICA_TOOLS_SCHEDULE_BENCH_H_
#define MICA_TOOLS_SCHEDULE_BENCH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace mica {

struct ScheduleBenchOptions {
  // gpipe, 1f1b, interleaved, zb_h1 or zbv; or a file with a Schedule's text.
  std::string schedule;
  int64_t num_devices = 4;
  int64_t num_micro_batches = 8;
  int64_t num_chunks = 0;  // 0: what the kind wants.
  // "forward=1,backward_input=1,backward_weight=1,update=0,send=0": a device's
  // time for one micro-batch, which its stages share evenly.
  std::string costs;
  // Of a stage's activations for one micro-batch, likewise.
  int64_t activation_bytes = 0;
  // Written unless empty: the Schedule's text, a picture, a Chrome trace.
  std::string text_path;
  std::string svg_path;
  std::string trace_path;
  bool print_table = false;  // To stderr.
};

// makespan, bubble, peak_activations and more, in the order of its lines.
absl::StatusOr<nlohmann::ordered_json> RunScheduleBench(
    const ScheduleBenchOptions& options);

}  // namespace mica

#endif  // MICA_TOOLS_SCHEDULE_BENCH_H_
