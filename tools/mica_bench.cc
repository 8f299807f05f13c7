// Loads or generates a Program, plans it, times it. No Python, no torch.

#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "gflags/gflags.h"
#include "glog/logging.h"
#include "nlohmann/json.hpp"
#include "tools/bench.h"
#include "tools/flags.h"
#include "tools/machine.h"
#include "tools/minimalloc.h"
#include "tools/pipeline_bench.h"
#include "tools/schedule_bench.h"
#include "tools/slope.h"

DEFINE_string(program, "",
              "the .mica file, or the exported folder, of the Program to time");
DEFINE_string(generate, "",
              "without --program: chain (adds on one element), relu_add (relu "
              "and add on small tensors), fan, ladder, random, transformer "
              "(encoder, inference) or transformer_step (training)");
DEFINE_int64(ops, 1000, "ops, of all but transformers");
DEFINE_int64(layers, 12, "layers of transformer");
DEFINE_int64(hidden, 768, "hidden size of transformer");
DEFINE_int64(heads, 12, "attention heads of transformer");
DEFINE_int64(batch, 1, "batch size of transformer");
DEFINE_int64(other_batch, 0,
             "plans the transformer with this batch size too, by the structure "
             "that it shares with the first, and alone");
DEFINE_int64(seq, 128, "tokens of transformer");
DEFINE_string(dtype, "f32", "dtype of transformer: f32, bf16, f16 or f64");
DEFINE_string(symbols, "", "sizes for a Program's symbols: batch=8,seq=128");
DEFINE_string(place, "cpu", "where it runs: cpu, cuda:0, simulated:0");
DEFINE_bool(check, false,
            "run it once on the host, too, and tell how far results are apart");
DEFINE_bool(step_times, false,
            "on a device: what steps take by themselves, by kernel");
DEFINE_int64(threads, 1, "threads for one step");
DEFINE_int64(streams, 1,
             "steps that don't need each other run on so many threads at once");
DEFINE_bool(queue, false,
            "the threads take steps, and pieces of wide ones, from a queue");
DEFINE_bool(poison, false,
            "overwrites memory as soon as the plan says that it is dead");
DEFINE_int64(jobs, 1, "jobs of the Program that are planned together");
DEFINE_string(plan_cache, "",
              "reads Plans from this folder, and leaves there what it builds");
DEFINE_bool(separate, false,
            "with --jobs: each job reads an equal Program of its own");
DEFINE_int64(repeats, 30, "measurements of running");
DEFINE_int64(warmup, 3, "passes before the first measurement");
DEFINE_bool(slope, false,
            "plans Programs of 1,000 to --ops ops, fits the slope of the "
            "logarithms");
DEFINE_bool(plan_only, false, "build the Plan, run nothing");
DEFINE_int64(plan_repeats, 5, "measurements of planning, from the text on");
DEFINE_bool(fuse, true,
            "merge ops into fused ones, as the product does; planning is then "
            "measured without it, too");
DEFINE_string(dump_passes, "",
              "writes the Program between passes, and the Plan, into this "
              "folder");
DEFINE_bool(lazy_inline, true,
            "find repeated layers, plan each once, and call it");
DEFINE_bool(frozen, false, "variables never change: kernels may pack them");
DEFINE_bool(json, false, "the JSON object in one line instead of several");
DEFINE_string(dump, "",
              "writes the Program's, or the Schedule's, text to this file");
DEFINE_string(
    schedule, "",
    "simulates a Schedule: gpipe, 1f1b, interleaved, zb_h1, zbv, or a "
    "file with its text; with --generate=transformer_step it times instead how "
    "long that is planned as such a pipeline, beside one stage of it");
DEFINE_int64(stages, 4, "devices of the Schedule's pipeline");
DEFINE_int64(micro_batches, 8, "micro-batches of the Schedule");
DEFINE_int64(chunks, 0, "stages a device; 0: what the kind wants");
DEFINE_string(costs, "",
              "a device's time for one micro-batch, shared by its stages: "
              "forward=1,backward_input=1,backward_weight=1,update=0,send=0");
DEFINE_int64(activation_bytes, 0,
             "what one micro-batch's forward pass keeps on a device");
DEFINE_string(svg, "", "draws the Schedule's timeline to this file");
DEFINE_string(trace, "",
              "writes what planning and one run did when, or the Schedule's "
              "timeline, to this file, for Perfetto");
DEFINE_bool(table, false, "prints the Schedule's timeline to stderr");
DEFINE_string(minimalloc, "",
              "instead of a Program: the CSV file of a memory allocation "
              "problem (id,lower,upper,size) to pack");
DEFINE_int64(
    capacity, 0,
    "with --minimalloc: bytes to pack it in; 0 for as few as possible");

namespace mica {
namespace {

BenchOptions OptionsFromFlags() {
  return {.program_path = FLAGS_program,
          .generate = {.kind = FLAGS_generate,
                       .ops = FLAGS_ops,
                       .layers = FLAGS_layers,
                       .hidden = FLAGS_hidden,
                       .heads = FLAGS_heads,
                       .batch = FLAGS_batch,
                       .seq = FLAGS_seq,
                       .dtype = ParseDType(FLAGS_dtype).value_or(DType::kBool)},
          .symbols = FLAGS_symbols,
          .dump_path = FLAGS_dump,
          .dump_passes = FLAGS_dump_passes,
          .trace_path = FLAGS_trace,
          .place = FLAGS_place,
          .check = FLAGS_check,
          .step_times = FLAGS_step_times,
          .threads = FLAGS_threads,
          .streams = FLAGS_streams,
          .queue = FLAGS_queue,
          .poison = FLAGS_poison,
          .repeats = FLAGS_repeats,
          .warmup = FLAGS_warmup,
          .jobs = FLAGS_jobs,
          .separate = FLAGS_separate,
          .other_batch = FLAGS_other_batch,
          .plan_cache = FLAGS_plan_cache,
          .plan_only = FLAGS_plan_only,
          .plan_repeats = FLAGS_plan_repeats,
          .fuse = FLAGS_fuse,
          .lazy_inline = FLAGS_lazy_inline,
          .frozen = FLAGS_frozen};
}

// In the order of its lines; a run's figures are null where nothing ran.
nlohmann::ordered_json ToJson(const BenchResult& result,
                              const BenchOptions& options) {
  nlohmann::ordered_json json = {{"program", result.program},
                                 {"ops", result.ops},
                                 {"steps", result.steps},
                                 {"functions", result.functions},
                                 {"shared_ops", result.shared_ops},
                                 {"streams", result.streams},
                                 {"workers", result.workers},
                                 {"events", result.events},
                                 {"plan_ms", result.plan_ms.median},
                                 {"parse_ms", result.parse_ms},
                                 {"analysis_ms", result.analysis_ms},
                                 {"least_plan_ms", result.plan_ms.min},
                                 {"first_plan_ms", result.first_plan_ms},
                                 {"plan_repeats", result.plan_repeats},
                                 {"pass_ms", nullptr},
                                 {"unfused_plan_ms", nullptr},
                                 {"unfused_analysis_ms", nullptr},
                                 {"jobs", options.jobs},
                                 {"first_job_ms", result.first_job_ms},
                                 {"further_job_us_per_op", nullptr},
                                 {"plan_bytes", result.plan_bytes},
                                 {"plan_peak_bytes", result.plan_peak_bytes},
                                 {"plans_from_disk", result.plans_from_disk},
                                 {"other_batch_ms", nullptr},
                                 {"other_batch_alone_ms", nullptr},
                                 {"plans_by_structure", nullptr},
                                 {"bind_ms", nullptr},
                                 {"arena_bytes", result.arena_bytes},
                                 {"live_set_bytes", result.live_set_bytes},
                                 {"place", options.place},
                                 {"largest_difference", nullptr},
                                 {"graph_runs", result.graph_runs},
                                 {"queue_us", result.queue_us},
                                 {"kernel_us", nullptr},
                                 {"run_ns_per_op", nullptr},
                                 {"run_us", nullptr}};
  for (const auto& [pass, ms] : result.pass_ms) json["pass_ms"][pass] = ms;
  if (result.unfused_plan_ms > 0) {
    json["unfused_plan_ms"] = result.unfused_plan_ms;
    json["unfused_analysis_ms"] = result.unfused_analysis_ms;
  }
  if (options.jobs > 1 && result.ops > 0) {
    json["further_job_us_per_op"] =
        (result.analysis_ms - result.first_job_ms) * 1e3 /
        static_cast<double>((options.jobs - 1) * result.ops);
  }
  if (options.other_batch > 0) {
    json["other_batch_ms"] = result.other_batch_ms;
    json["other_batch_alone_ms"] = result.other_batch_alone_ms;
    json["plans_by_structure"] = result.plans_by_structure;
  }
  for (const KernelTime& time : result.kernel_times) {
    json["kernel_us"][time.kernel] = {{"steps", time.steps}, {"us", time.us}};
  }
  if (options.check && !options.plan_only) {
    json["largest_difference"] = result.largest_difference;
  }
  if (!options.plan_only) {
    const Spread& run = result.run_us;
    json["bind_ms"] = result.bind_ms;
    if (result.ops > 0) {
      json["run_ns_per_op"] =
          run.median * 1e3 / static_cast<double>(result.ops);
    }
    json["run_us"] = {
        {"median", run.median}, {"min", run.min}, {"p90", run.p90}};
  }
  json["repeats"] = options.repeats;
  json["threads"] = options.threads;
  json["fuse"] = options.fuse;
  json["frozen"] = options.frozen;
  json["peak_memory_bytes"] = PeakMemoryBytes();
  return json;
}

absl::StatusOr<nlohmann::ordered_json> BenchProgram(
    const BenchOptions& options) {
  MICA_ASSIGN_OR_RETURN(const BenchResult result, RunBench(options));
  return ToJson(result, options);
}

absl::StatusOr<nlohmann::ordered_json> BenchSlope(const BenchOptions& options) {
  MICA_ASSIGN_OR_RETURN(const SlopeResult result, RunSlope(options, FLAGS_ops));
  nlohmann::ordered_json json = {{"generate", FLAGS_generate},
                                 {"streams", options.streams},
                                 {"fuse", options.fuse},
                                 {"slope", result.slope}};
  for (const SlopePoint& point : result.points) {
    json["points"].push_back({{"ops", point.ops},
                              {"analysis_ms", point.analysis_ms},
                              {"least_of", point.repeats}});
  }
  return json;
}

absl::StatusOr<nlohmann::ordered_json> BenchMinimalloc() {
  MICA_ASSIGN_OR_RETURN(
      const MinimallocResult result,
      RunMinimalloc({.path = FLAGS_minimalloc, .capacity = FLAGS_capacity}));
  if (FLAGS_capacity > 0 && result.capacity_needed > FLAGS_capacity) {
    return absl::ResourceExhaustedError(absl::StrCat(
        FLAGS_minimalloc, ": found no packing within ", FLAGS_capacity,
        " bytes, but one in ", result.capacity_needed,
        "; the largest live set has ", result.live_set));
  }
  return nlohmann::ordered_json{{"minimalloc", FLAGS_minimalloc},
                                {"lifetimes", result.lifetimes},
                                {"capacity", FLAGS_capacity},
                                {"capacity_needed", result.capacity_needed},
                                {"live_set", result.live_set},
                                {"seconds", result.seconds}};
}

ScheduleBenchOptions ScheduleOptionsFromFlags() {
  return {.schedule = FLAGS_schedule,
          .num_devices = FLAGS_stages,
          .num_micro_batches = FLAGS_micro_batches,
          .num_chunks = FLAGS_chunks,
          .costs = FLAGS_costs,
          .activation_bytes = FLAGS_activation_bytes,
          .text_path = FLAGS_dump,
          .svg_path = FLAGS_svg,
          .trace_path = FLAGS_trace,
          .print_table = FLAGS_table};
}

PipelineBenchOptions PipelineOptionsFromFlags() {
  return {.generate = OptionsFromFlags().generate,
          .schedule = FLAGS_schedule,
          .num_devices = FLAGS_stages,
          .num_micro_batches = FLAGS_micro_batches,
          .repeats = FLAGS_plan_repeats};
}

// What was asked for, with what tells two measurements apart.
absl::StatusOr<nlohmann::ordered_json> Bench(const BenchOptions& options) {
  const bool is_pipeline = !FLAGS_schedule.empty() && !FLAGS_generate.empty();
  absl::StatusOr<nlohmann::ordered_json> json =
      is_pipeline                 ? RunPipelineBench(PipelineOptionsFromFlags())
      : !FLAGS_schedule.empty()   ? RunScheduleBench(ScheduleOptionsFromFlags())
      : !FLAGS_minimalloc.empty() ? BenchMinimalloc()
      : FLAGS_slope               ? BenchSlope(options)
                                  : BenchProgram(options);
  if (json.ok()) {
    (*json)["machine"] = MachineName();
    (*json)["commit"] = CommitName();
  }
  return json;
}

int Main(int argc, char** argv) {
  absl::Status status = ParseFlags(argc, argv, "mica_bench.cc");
  const bool is_alone = FLAGS_schedule.empty() || FLAGS_generate.empty();
  const int num_given = (FLAGS_program.empty() ? 0 : 1) +
                        (FLAGS_generate.empty() || !is_alone ? 0 : 1) +
                        (FLAGS_schedule.empty() ? 0 : 1) +
                        (FLAGS_minimalloc.empty() ? 0 : 1);
  if (status.ok() && num_given != 1) {
    status = absl::InvalidArgumentError(
        "wants either --program=FILE or --generate=KIND "
        "or --schedule=gpipe|1f1b|interleaved|zb_h1|zbv|FILE or "
        "--minimalloc=CSV");
  }
  const BenchOptions options = OptionsFromFlags();
  const bool is_program = FLAGS_schedule.empty() && FLAGS_minimalloc.empty();
  if (status.ok() && is_program && !FLAGS_slope) status = CheckOptions(options);
  if (!status.ok()) {
    PrintError("mica_bench", status);
    return kExitUsage;
  }
  const absl::StatusOr<nlohmann::ordered_json> json = Bench(options);
  if (!json.ok()) {
    PrintError("mica_bench", json.status());
    return kExitFailed;
  }
  std::printf("%s\n", json->dump(FLAGS_json ? -1 : 2).c_str());
  return 0;
}

}  // namespace
}  // namespace mica

int main(int argc, char** argv) {
  FLAGS_logtostderr = true;
  google::InitGoogleLogging(argv[0]);
  gflags::SetUsageMessage("times the building and the running of a Program");
  return mica::Main(argc, argv);
}
