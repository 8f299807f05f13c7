#include "tools/schedule_bench.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "analysis/schedule/draw.h"
#include "analysis/schedule/generate.h"
#include "analysis/schedule/job_graph.h"
#include "analysis/schedule/simulate.h"
#include "analysis/schedule/value_plan.h"
#include "framework/base/file.h"
#include "framework/base/status.h"
#include "tools/flags.h"

namespace mica {
namespace {

absl::StatusOr<DeviceCost> ParseCosts(absl::string_view text) {
  DeviceCost cost;
  const std::pair<absl::string_view, double*> fields[] = {
      {"forward", &cost.jobs.forward},
      {"backward_input", &cost.jobs.backward_input},
      {"backward_weight", &cost.jobs.backward_weight},
      {"update", &cost.jobs.update},
      {"send", &cost.send}};
  MICA_ASSIGN_OR_RETURN(const auto pairs, SplitPairs("costs", text));
  for (const auto& [name, value] : pairs) {
    const auto* field = absl::c_find_if(
        fields, [&name = name](const auto& f) { return f.first == name; });
    if (field == std::end(fields) || !absl::SimpleAtod(value, field->second)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--costs: ", name, "=", value,
                       " is no cost; wants forward, backward_input, "
                       "backward_weight, update or send, and a number"));
    }
  }
  return cost;
}

absl::Status CheckRange(const ScheduleBenchOptions& options) {
  for (const int64_t value : {options.num_devices, options.num_micro_batches,
                              options.num_chunks, options.activation_bytes}) {
    if (value >= 0 && value <= int64_t{1} << 30) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--stages, --micro_batches, --chunks and "
                     "--activation_bytes want 0 to 2^30, got ",
                     value));
  }
  return absl::OkStatus();
}

absl::StatusOr<Schedule> MakeSchedule(const ScheduleBenchOptions& options,
                                      const DeviceCost& cost) {
  const std::optional<PipelineKind> kind = ParsePipelineKind(options.schedule);
  if (!kind.has_value()) {
    absl::StatusOr<std::string> text = ReadFile(options.schedule);
    if (text.ok()) return ParseSchedule(*text);
    return Annotate(text.status(),
                    "--schedule: wants gpipe, 1f1b, interleaved, zb_h1, zbv or "
                    "a file");
  }
  PipelineOptions pipeline = {
      .kind = *kind,
      .num_devices = static_cast<int>(options.num_devices),
      .num_micro_batches = static_cast<int>(options.num_micro_batches),
      .num_chunks = static_cast<int>(options.num_chunks)};
  const int64_t num_stages = int64_t{NumStages(pipeline)};
  if (num_stages > 0 && num_stages <= 1 << 20) {
    pipeline.costs =
        DivideCosts(cost, pipeline.num_devices, static_cast<int>(num_stages));
  }
  return MakePipeline(pipeline);
}

absl::Status WriteUnlessEmpty(const std::string& path,
                              const std::string& text) {
  if (path.empty()) return absl::OkStatus();
  return WriteFile(path, {text});
}

}  // namespace

absl::StatusOr<nlohmann::ordered_json> RunScheduleBench(
    const ScheduleBenchOptions& options) {
  MICA_RETURN_IF_ERROR(CheckRange(options));
  MICA_ASSIGN_OR_RETURN(const DeviceCost cost, ParseCosts(options.costs));
  const absl::Time start = absl::Now();
  MICA_ASSIGN_OR_RETURN(const Schedule schedule, MakeSchedule(options, cost));
  const absl::Time made = absl::Now();
  MICA_ASSIGN_OR_RETURN(const JobGraph graph, JobGraph::Build(schedule));
  MICA_ASSIGN_OR_RETURN(const Timeline timeline,
                        Simulate(graph, DivideCosts(cost, graph.num_devices(),
                                                    graph.num_stages())));
  const std::vector<int64_t> bytes(
      graph.num_stages(),
      options.activation_bytes * graph.num_devices() / graph.num_stages());
  MICA_ASSIGN_OR_RETURN(const ValuePlan values,
                        ValuePlan::Build(graph, ActivationsOf(bytes)));
  const absl::Time planned = absl::Now();

  std::vector<int64_t> peaks;
  std::vector<int64_t> peak_bytes;
  for (const DeviceMemory& memory : values.devices()) {
    peaks.push_back(memory.peak_values);
    peak_bytes.push_back(memory.peak_bytes);
  }
  MICA_RETURN_IF_ERROR(WriteUnlessEmpty(options.text_path, ToText(schedule)));
  MICA_RETURN_IF_ERROR(WriteUnlessEmpty(options.svg_path,
                                        ToSvg(graph, timeline, schedule.name)));
  MICA_RETURN_IF_ERROR(WriteUnlessEmpty(
      options.trace_path, ToChromeTrace(graph, timeline, /*unit_us=*/1000)));
  if (options.print_table) {
    std::fputs(ToTable(graph, timeline).c_str(), stderr);
  }
  return nlohmann::ordered_json{
      {"schedule", schedule.name},
      {"devices", graph.num_devices()},
      {"stages", graph.num_stages()},
      {"micro_batches", graph.num_micro_batches()},
      {"jobs", graph.num_jobs()},
      {"makespan", timeline.makespan},
      {"bubble", timeline.bubble},
      {"peak_activations", *absl::c_max_element(peaks)},
      {"peak_activations_by_device", peaks},
      {"peak_activation_bytes", *absl::c_max_element(peak_bytes)},
      {"generate_ms", absl::ToDoubleMilliseconds(made - start)},
      {"analysis_ms", absl::ToDoubleMilliseconds(planned - made)}};
}

}  // namespace mica
