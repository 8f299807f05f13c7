#include "analysis/schedule/generate.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "analysis/schedule/job_graph.h"
#include "analysis/schedule/list_scheduler.h"
#include "framework/base/status.h"

namespace mica {
namespace {

constexpr int64_t kMaxJobs = 4'000'000;

constexpr std::array kPipelineKinds = {
    PipelineKind::kGpipe, PipelineKind::k1F1B, PipelineKind::kInterleaved,
    PipelineKind::kZeroBubbleH1, PipelineKind::kZeroBubbleV};

// A kind may do with another number of chunks, or not.
struct ChunkRange {
  int min;
  int max;
};
ChunkRange ChunksOf(PipelineKind kind) {
  switch (kind) {
    case PipelineKind::kInterleaved:
      return {2, 1 << 20};
    case PipelineKind::kZeroBubbleV:
      return {2, 2};
    default:
      return {1, 1};
  }
}

int NumChunks(const PipelineOptions& options) {
  return options.num_chunks > 0 ? options.num_chunks
                                : ChunksOf(options.kind).min;
}

absl::Status Check(const PipelineOptions& options) {
  const auto check = [](absl::string_view what, int64_t value, int64_t min,
                        int64_t max) {
    if (value >= min && value <= max) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": wants ", min, " to ", max, ", got ", value));
  };
  MICA_RETURN_IF_ERROR(check("devices", options.num_devices, 1, 1 << 16));
  MICA_RETURN_IF_ERROR(
      check("micro-batches", options.num_micro_batches, 1, 1 << 20));
  const ChunkRange chunks = ChunksOf(options.kind);
  MICA_RETURN_IF_ERROR(check(absl::StrCat("chunks of ", ToString(options.kind)),
                             NumChunks(options), chunks.min, chunks.max));
  if (!options.costs.stages.empty()) {
    MICA_RETURN_IF_ERROR(CheckCosts(options.costs, NumStages(options)));
  }
  const int64_t num_jobs = int64_t{3} * options.num_devices *
                           options.num_micro_batches * NumChunks(options);
  return check("Jobs", num_jobs, 1, kMaxJobs);
}

ScheduleCosts EqualCosts(int num_stages) {
  return {.stages = std::vector<StageCost>(num_stages)};
}

// What the kinds have in common: nothing is limited.
ListPolicy Unlimited(const PipelineOptions& options) {
  const int num_stages = NumStages(options);
  ListPolicy policy = {.num_devices = options.num_devices};
  for (int stage = 0; stage < num_stages; ++stage) {
    policy.device_of_stage.push_back(stage % options.num_devices);
  }
  policy.max_in_flight.assign(num_stages, ListPolicy::kNoLimit);
  policy.max_live = policy.max_in_flight;
  return policy;
}

ListPolicy GpipePolicy(const PipelineOptions& options) {
  ListPolicy policy = Unlimited(options);
  policy.hold_backward = true;
  return policy;
}

// A device runs ahead until the gradients of its first micro-batch are back:
// by then the loss is as many forward passes away as there are stages behind.
ListPolicy OneForwardOneBackwardPolicy(const PipelineOptions& options) {
  ListPolicy policy = Unlimited(options);
  for (int stage = 0; stage < options.num_devices; ++stage) {
    policy.max_in_flight[stage] = options.num_devices - stage;
  }
  return policy;
}

// The same of rounds: before its first backward pass, a device runs all but
// its last chunk for a whole round, then waits twice the way to the last device
// since the round's other micro-batches come between.
ListPolicy InterleavedPolicy(const PipelineOptions& options) {
  ListPolicy policy = Unlimited(options);
  policy.in_order = true;
  policy.forward_order = policy.backward_order = BatchOrder::kRounds;
  const int devices = options.num_devices;
  for (int stage = 0; stage < NumStages(options); ++stage) {
    const int device = policy.device_of_stage[stage];
    policy.max_in_flight[stage] =
        2 * (devices - device - 1) + (NumChunks(options) - 1) * devices + 1;
  }
  return policy;
}

ListPolicy ZeroBubbleH1Policy(const PipelineOptions& options) {
  ListPolicy policy = OneForwardOneBackwardPolicy(options);
  policy.split_backward = true;
  policy.max_live.assign(options.num_devices, options.num_devices);
  return policy;
}

// As many live activations as 1F1B's first device holds, of stages of half the
// size. One of them is kept for the way up, or nothing could get there.
ListPolicy ZeroBubbleVPolicy(const PipelineOptions& options) {
  ListPolicy policy = Unlimited(options);
  const int devices = options.num_devices;
  policy.split_backward = true;
  policy.forward_order = BatchOrder::kStage;
  for (int stage = 0; stage < 2 * devices; ++stage) {
    const bool is_down = stage < devices;
    policy.device_of_stage[stage] = is_down ? stage : 2 * devices - 1 - stage;
    policy.max_live[stage] = is_down ? 2 * devices - 1 : 2 * devices;
  }
  return policy;
}

ListPolicy PolicyOf(const PipelineOptions& options) {
  switch (options.kind) {
    case PipelineKind::kGpipe:
      return GpipePolicy(options);
    case PipelineKind::k1F1B:
      return OneForwardOneBackwardPolicy(options);
    case PipelineKind::kInterleaved:
      return InterleavedPolicy(options);
    case PipelineKind::kZeroBubbleH1:
      return ZeroBubbleH1Policy(options);
    case PipelineKind::kZeroBubbleV:
      return ZeroBubbleVPolicy(options);
  }
  return Unlimited(options);
}

// The policy, and for those that adapt to costs some variants of it: greed
// doesn't tell which one ends first.
std::vector<ListPolicy> VariantsOf(const PipelineOptions& options) {
  const ListPolicy policy = PolicyOf(options);
  if (!policy.split_backward) return {policy};
  std::vector<ListPolicy> variants;
  for (const double patience : {0.0, 0.5, 1.0}) {
    for (const bool backward_first : {false, true}) {
      for (const BatchOrder order : {BatchOrder::kBatch, BatchOrder::kStage}) {
        variants.push_back(policy);
        variants.back().patience = patience;
        variants.back().backward_first = backward_first;
        variants.back().backward_order = order;
      }
    }
  }
  return variants;
}

void AddUpdates(Schedule* schedule) {
  for (int stage = 0; stage < schedule->num_stages(); ++stage) {
    schedule->devices[schedule->device_of_stage[stage]].push_back(
        {JobType::kUpdate, stage, ScheduledJob::kAllMicroBatches});
  }
}

}  // namespace

absl::string_view ToString(PipelineKind kind) {
  switch (kind) {
    case PipelineKind::kGpipe:
      return "gpipe";
    case PipelineKind::k1F1B:
      return "1f1b";
    case PipelineKind::kInterleaved:
      return "interleaved";
    case PipelineKind::kZeroBubbleH1:
      return "zb_h1";
    case PipelineKind::kZeroBubbleV:
      return "zbv";
  }
  return "?";
}

std::optional<PipelineKind> ParsePipelineKind(absl::string_view text) {
  for (PipelineKind kind : kPipelineKinds) {
    if (text == ToString(kind)) return kind;
  }
  return std::nullopt;
}

int NumStages(const PipelineOptions& options) {
  return options.num_devices * NumChunks(options);
}

absl::StatusOr<Schedule> MakePipeline(const PipelineOptions& options) {
  MICA_RETURN_IF_ERROR(Check(options));
  const int num_stages = NumStages(options);
  const std::vector<ListPolicy> variants = VariantsOf(options);
  const bool is_adaptive = variants.size() > 1 && !options.costs.stages.empty();
  const ScheduleCosts costs =
      is_adaptive ? options.costs : EqualCosts(num_stages);
  Schedule best;
  double best_makespan = 0;
  for (const ListPolicy& policy : variants) {
    MICA_ASSIGN_OR_RETURN(Schedule schedule,
                          OrderJobs(policy, options.num_micro_batches, costs));
    MICA_ASSIGN_OR_RETURN(const JobGraph graph, JobGraph::Build(schedule));
    MICA_ASSIGN_OR_RETURN(const Timeline timeline, Simulate(graph, costs));
    if (!best.devices.empty() && timeline.makespan >= best_makespan) continue;
    best = std::move(schedule);
    best_makespan = timeline.makespan;
  }
  best.name = std::string(ToString(options.kind));
  if (options.has_update) AddUpdates(&best);
  return best;
}

}  // namespace mica
