#include "tools/bench.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "analysis/passes/rewrite.h"
#include "analysis/pipeline/pass_pipeline.h"
#include "analysis/plan/plan.h"
#include "analysis/plan/plan_cache.h"
#include "executor/binding/binding.h"
#include "executor/device/backends.h"
#include "executor/job/job.h"
#include "executor/watch/poison.h"
#include "framework/base/file.h"
#include "framework/base/status.h"
#include "framework/device/transfer.h"
#include "framework/ir/control_flow.h"
#include "framework/saved/saved_program.h"
#include "framework/tensor/safetensors.h"
#include "framework/text/text.h"
#include "framework/trace/recorder.h"
#include "kernels/all.h"
#include "ops/all.h"
#include "tools/difference.h"
#include "tools/fill.h"
#include "tools/flags.h"
#include "tools/machine.h"

namespace mica {
namespace {

// A measurement of short passes runs as many as take this long together.
constexpr absl::Duration kShortestMeasurement = absl::Milliseconds(1);
constexpr int64_t kMaxPasses = 100'000;

absl::StatusOr<Program> SpecialiseBy(absl::string_view symbols,
                                     const Program& program) {
  MICA_ASSIGN_OR_RETURN(const auto pairs, SplitPairs("symbols", symbols));
  absl::flat_hash_map<std::string, int64_t> sizes;
  for (const auto& [name, value] : pairs) {
    if (!absl::SimpleAtoi(value, &sizes[name]) || sizes[name] < 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--symbols: wants a size for ", name, ", got '", value, "'"));
    }
  }
  return Specialise(program, sizes, AllOps());
}

absl::StatusOr<Backend> ChooseBackend(const BenchOptions& options) {
  MICA_ASSIGN_OR_RETURN(const Place place, ParsePlace(options.place));
  return BackendOf(place);
}

bool IsFolder(const BenchOptions& options) {
  std::error_code error;
  return std::filesystem::is_directory(options.program_path, error);
}

absl::StatusOr<Program> MakeProgram(const BenchOptions& options) {
  if (options.program_path.empty()) {
    return Generate(options.generate, AllOps());
  }
  MICA_ASSIGN_OR_RETURN(
      const auto program,
      ReadProgramFile(IsFolder(options) ? ProgramFileOf(options.program_path)
                                        : options.program_path,
                      AllOps()));
  if (program->is_static()) return *program;
  return SpecialiseBy(options.symbols, *program);
}

// A Job with the tensors that it reads and writes, all on one device.
struct Runnable {
  std::vector<Tensor> inputs;
  std::vector<Tensor> variables;
  std::vector<Tensor> outputs;
  std::unique_ptr<Job> job;
};

absl::Status ReadVariables(const Program& program, const BenchOptions& options,
                           Runnable& runnable) {
  const std::string path = WeightsFileOf(options.program_path);
  MICA_ASSIGN_OR_RETURN(const NamedTensors file, ReadSafetensors(path));
  MICA_ASSIGN_OR_RETURN(runnable.variables,
                        FitVariables(program, file.tensors, path));
  return absl::OkStatus();
}

absl::Status MakeTensors(const Plan& plan, const BenchOptions& options,
                         const std::shared_ptr<Device>& device,
                         Runnable& runnable) {
  const Program& program = plan.program();
  uint64_t seed = 0;
  if (IsFolder(options)) {
    MICA_RETURN_IF_ERROR(ReadVariables(program, options, runnable));
  }
  for (ValueId id : program.inputs()) {
    MICA_ASSIGN_OR_RETURN(Tensor tensor,
                          RandomTensor(program.type(id), ++seed));
    runnable.inputs.push_back(std::move(tensor));
  }
  for (const Variable& variable : program.variables()) {
    if (IsFolder(options)) break;
    MICA_ASSIGN_OR_RETURN(Tensor tensor,
                          RandomTensor(program.type(variable.value), ++seed));
    runnable.variables.push_back(std::move(tensor));
  }
  for (size_t i = 0; i < program.outputs().size(); ++i) {
    MICA_ASSIGN_OR_RETURN(
        Tensor tensor,
        Tensor::Allocate(plan.output_type(static_cast<int>(i)), device));
    runnable.outputs.push_back(std::move(tensor));
  }
  if (device == nullptr) return absl::OkStatus();
  for (auto* tensors : {&runnable.inputs, &runnable.variables}) {
    for (Tensor& tensor : *tensors) {
      MICA_ASSIGN_OR_RETURN(tensor, CopyToDevice(tensor.view(), device));
    }
  }
  return absl::OkStatus();
}

absl::Status MakeJob(std::shared_ptr<const Plan> plan,
                     const BenchOptions& options,
                     const std::shared_ptr<Device>& device,
                     Runnable& runnable) {
  JobOptions job_options;
  if (options.poison) {
    job_options.observers.push_back(std::make_shared<Poison>(*plan));
  }
  std::vector<TensorView> variables;
  for (const Tensor& variable : runnable.variables) {
    variables.push_back(variable.view());
  }
  MICA_ASSIGN_OR_RETURN(auto binding,
                        Binding::Create(std::move(plan), variables,
                                        /*source=*/nullptr, device));
  MICA_ASSIGN_OR_RETURN(
      runnable.job, Job::Create(std::move(binding), std::move(job_options)));
  for (size_t i = 0; i < runnable.inputs.size(); ++i) {
    runnable.job->SetInput(static_cast<int>(i), runnable.inputs[i].data());
  }
  for (size_t i = 0; i < runnable.outputs.size(); ++i) {
    runnable.job->SetOutput(static_cast<int>(i), runnable.outputs[i].data());
  }
  return absl::OkStatus();
}

absl::StatusOr<absl::Duration> RunPasses(Job& job, int64_t passes) {
  const absl::Time start = absl::Now();
  for (int64_t i = 0; i < passes; ++i) MICA_RETURN_IF_ERROR(job.Run());
  return absl::Now() - start;
}

// How many passes take kShortestMeasurement.
absl::StatusOr<int64_t> CountPasses(Job& job) {
  int64_t passes = 1;
  while (passes < kMaxPasses) {
    MICA_ASSIGN_OR_RETURN(absl::Duration time, RunPasses(job, passes));
    if (time >= kShortestMeasurement) break;
    passes *= 2;
  }
  return passes;
}

absl::StatusOr<Spread> MeasureRuns(Job& job, const BenchOptions& options) {
  MICA_RETURN_IF_ERROR(RunPasses(job, options.warmup).status());
  MICA_ASSIGN_OR_RETURN(const int64_t passes, CountPasses(job));
  std::vector<double> us;
  for (int64_t i = 0; i < options.repeats; ++i) {
    MICA_ASSIGN_OR_RETURN(absl::Duration time, RunPasses(job, passes));
    us.push_back(absl::ToDoubleMicroseconds(time) /
                 static_cast<double>(passes));
  }
  std::sort(us.begin(), us.end());
  return Spread{.min = us.front(),
                .median = us[us.size() / 2],
                .p90 = us[us.size() * 9 / 10]};
}

// The Program and what further jobs have: it again, or their own of its text.
absl::StatusOr<std::vector<std::shared_ptr<const Program>>> MakePrograms(
    Program program, const BenchOptions& options) {
  std::vector<std::shared_ptr<const Program>> programs = {
      std::make_shared<const Program>(std::move(program))};
  const std::string text = options.separate ? ToText(*programs[0]) : "";
  while (static_cast<int64_t>(programs.size()) < options.jobs) {
    if (options.separate) {
      MICA_ASSIGN_OR_RETURN(Program again, ParseProgram(text, AllOps()));
      programs.push_back(std::make_shared<const Program>(std::move(again)));
    } else {
      programs.push_back(programs[0]);
    }
  }
  return programs;
}

PlanOptions PlanOptionsOf(const BenchOptions& options) {
  return {.num_threads = static_cast<int>(options.threads),
          .queue = options.queue,
          .num_streams = static_cast<int>(options.streams),
          .frozen = options.frozen,
          .fuse = options.fuse,
          .share_layers = options.lazy_inline,
          .dump_folder = options.dump_passes};
}

// Plans the Program with the other batch size through `plans`, which have the
// first one's Plan, and through none.
absl::Status PlanOtherBatch(PlanCache& plans, BenchOptions options,
                            BenchResult& result) {
  constexpr int kRepeats = 5;
  const PlanOptions plan_options = PlanOptionsOf(options);
  options.generate.batch = options.other_batch;
  MICA_ASSIGN_OR_RETURN(Program made, MakeProgram(options));
  const auto program = std::make_shared<const Program>(std::move(made));
  const auto milliseconds = [](absl::Time since) {
    return absl::ToDoubleMilliseconds(absl::Now() - since);
  };
  for (int i = 0; i < kRepeats; ++i) {
    MICA_ASSIGN_OR_RETURN(const Backend backend, ChooseBackend(options));
    PlanCache none(AllOps(), *backend.kernels);
    for (PlanCache* cache : {&none, &plans}) {
      const absl::Time start = absl::Now();
      MICA_RETURN_IF_ERROR(cache->Get(program, plan_options).status());
      double& least =
          cache == &none ? result.other_batch_alone_ms : result.other_batch_ms;
      least =
          i == 0 ? milliseconds(start) : std::min(least, milliseconds(start));
    }
  }
  result.plans_by_structure = plans.stats().by_structure;
  return absl::OkStatus();
}

double MillisecondsSince(absl::Time start) {
  return absl::ToDoubleMilliseconds(absl::Now() - start);
}

// The Plan that all jobs get; sets what analysis took and holds.
absl::StatusOr<std::shared_ptr<const Plan>> PlanJobs(
    absl::Span<const std::shared_ptr<const Program>> programs,
    const BenchOptions& options, BenchResult& result) {
  MICA_ASSIGN_OR_RETURN(const Backend backend, ChooseBackend(options));
  PlanCache plans(AllOps(), *backend.kernels);
  if (!options.plan_cache.empty()) {
    MICA_ASSIGN_OR_RETURN(auto store, PlanStore::Open(options.plan_cache));
    plans.set_store(std::move(store));
  }
  const PlanOptions plan_options = PlanOptionsOf(options);
  std::vector<std::shared_ptr<const Plan>> all;
  all.reserve(programs.size());
  const absl::Time start = absl::Now();
  for (const auto& program : programs) {
    MICA_ASSIGN_OR_RETURN(auto plan, plans.Get(program, plan_options));
    all.push_back(std::move(plan));
    if (all.size() == 1) result.first_job_ms = MillisecondsSince(start);
  }
  result.analysis_ms = MillisecondsSince(start);
  result.plans_from_disk = plans.stats().loaded;
  const absl::flat_hash_set<std::shared_ptr<const Plan>> distinct(all.begin(),
                                                                  all.end());
  for (const auto& plan : distinct) result.plan_bytes += plan->plan_bytes();
  if (options.other_batch > 0) {
    MICA_RETURN_IF_ERROR(PlanOtherBatch(plans, options, result));
  }
  return all[0];
}

// The Program of its file, or of `text`, or without that from the generator.
absl::StatusOr<Program> ReadProgram(const BenchOptions& options,
                                    const std::string& text) {
  return text.empty() ? MakeProgram(options) : ParseProgram(text, AllOps());
}

// One way to a Plan.
struct Planning {
  double parse_ms = 0;
  double analysis_ms = 0;
  double plan_ms() const { return parse_ms + analysis_ms; }
};

absl::StatusOr<Planning> PlanAnew(const BenchOptions& options,
                                  const std::string& text) {
  const absl::Time start = absl::Now();
  MICA_ASSIGN_OR_RETURN(Program program, ReadProgram(options, text));
  Planning found{.parse_ms = MillisecondsSince(start)};
  BenchResult result;
  MICA_RETURN_IF_ERROR(
      PlanJobs({std::make_shared<const Program>(std::move(program))}, options,
               result)
          .status());
  found.analysis_ms = result.analysis_ms;
  return found;
}

// Of plan_ms(); they are left in its order.
Spread SpreadOf(std::vector<Planning>& all) {
  std::sort(all.begin(), all.end(), [](const Planning& a, const Planning& b) {
    return a.plan_ms() < b.plan_ms();
  });
  return {.min = all.front().plan_ms(),
          .median = all[all.size() / 2].plan_ms(),
          .p90 = all[all.size() * 9 / 10].plan_ms()};
}

// Plans again, as often as the options say, and sets the figures of planning;
// `first` is what it took when nothing was warm.
absl::Status RepeatPlanning(BenchOptions options, const std::string& text,
                            const Planning& first, BenchResult& result) {
  const bool may_repeat = options.jobs == 1 && options.plan_cache.empty();
  const int64_t repeats = may_repeat ? options.plan_repeats : 1;
  options.other_batch = 0;
  std::vector<Planning> all = {first}, unfused;
  const bool compares = may_repeat && options.fuse && options.plan_repeats > 1;
  BenchOptions other = options;
  other.fuse = false;
  for (int64_t i = 1; i < repeats; ++i) {
    MICA_ASSIGN_OR_RETURN(all.emplace_back(), PlanAnew(options, text));
    if (!compares) continue;
    MICA_ASSIGN_OR_RETURN(unfused.emplace_back(), PlanAnew(other, text));
  }
  result.plan_repeats = repeats;
  result.first_plan_ms = first.plan_ms();
  result.plan_ms = SpreadOf(all);
  const Planning& middle = all[all.size() / 2];
  result.parse_ms =
      text.empty() && options.program_path.empty() ? 0 : middle.parse_ms;
  result.analysis_ms = middle.analysis_ms;
  if (unfused.empty()) return absl::OkStatus();
  result.unfused_plan_ms = SpreadOf(unfused).median;
  result.unfused_analysis_ms = unfused[unfused.size() / 2].analysis_ms;
  return absl::OkStatus();
}

void CountFunctions(const Program& program, BenchResult& result) {
  result.functions = static_cast<int64_t>(FunctionsOf(program).size());
  for (const Op& op : program.ops()) {
    if (ControlKindOf(*op.def) != ControlKind::kCall) continue;
    result.shared_ops += CountOps(*op.bodies[0]);
  }
}

// Runs all passes as often as the options say, and sets what each took.
absl::Status TimePasses(const Program& program, const BenchOptions& options,
                        BenchResult& result) {
  const PassPipeline& passes = PlanOptionsOf(options).has_functions()
                                   ? PassPipeline::AllWithFunctions()
                                   : PassPipeline::All();
  MICA_ASSIGN_OR_RETURN(const Backend backend, ChooseBackend(options));
  std::vector<std::vector<double>> ms;
  for (int64_t i = 0; i < options.plan_repeats; ++i) {
    std::vector<PassTime> times;
    MICA_RETURN_IF_ERROR(
        passes.Run(program, {AllOps(), *backend.kernels}, {.times = &times})
            .status());
    ms.resize(times.size());
    result.pass_ms.clear();
    for (size_t pass = 0; pass < times.size(); ++pass) {
      ms[pass].push_back(times[pass].ms);
      std::sort(ms[pass].begin(), ms[pass].end());
      result.pass_ms.emplace_back(times[pass].pass,
                                  ms[pass][ms[pass].size() / 2]);
    }
  }
  return absl::OkStatus();
}

// Runs a Plan once, on tensors of its own; its outputs and variables then.
absl::StatusOr<std::vector<Tensor>> RunOnce(
    std::shared_ptr<const Plan> plan, const BenchOptions& options,
    const std::shared_ptr<Device>& device) {
  Runnable runnable;
  MICA_RETURN_IF_ERROR(MakeTensors(*plan, options, device, runnable));
  MICA_RETURN_IF_ERROR(MakeJob(std::move(plan), options, device, runnable));
  MICA_RETURN_IF_ERROR(runnable.job->Run());
  std::vector<Tensor> made;
  for (const auto* tensors : {&runnable.outputs, &runnable.variables}) {
    for (const Tensor& tensor : *tensors) {
      MICA_ASSIGN_OR_RETURN(Tensor on_host, CopyToHost(tensor));
      made.push_back(std::move(on_host));
    }
  }
  return made;
}

// See BenchResult::largest_difference.
absl::StatusOr<double> CompareWithHost(
    const std::shared_ptr<const Program>& program,
    const std::shared_ptr<const Plan>& plan, const BenchOptions& options) {
  MICA_ASSIGN_OR_RETURN(const Backend backend, ChooseBackend(options));
  PlanCache plans(AllOps(), AllKernels());
  MICA_ASSIGN_OR_RETURN(auto on_host,
                        plans.Get(program, PlanOptionsOf(options)));
  MICA_ASSIGN_OR_RETURN(const std::vector<Tensor> want,
                        RunOnce(on_host, options, nullptr));
  MICA_ASSIGN_OR_RETURN(const std::vector<Tensor> got,
                        RunOnce(plan, options, backend.device));
  double largest = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    largest = std::max(largest, DifferenceOf(got[i].view(), want[i].view()));
  }
  return largest;
}

// What a trace, if there is one, has of it is all but the measured runs.
absl::StatusOr<BenchResult> RunAndMeasure(const BenchOptions& options) {
  // Once a process, not once a Program.
  AllOps();
  MICA_ASSIGN_OR_RETURN(const Backend backend, ChooseBackend(options));

  std::string text;
  if (options.program_path.empty() && options.from_text) {
    MICA_ASSIGN_OR_RETURN(const Program generated, MakeProgram(options));
    text = ToText(generated);
  }
  const absl::Time start = absl::Now();
  MICA_ASSIGN_OR_RETURN(Program made, ReadProgram(options, text));
  const double parse_ms = MillisecondsSince(start);
  MICA_ASSIGN_OR_RETURN(const auto programs,
                        MakePrograms(std::move(made), options));
  const Program& program = *programs[0];
  BenchResult result{.program = program.name(),
                     .ops = static_cast<int64_t>(program.ops().size())};
  const int64_t before_bytes = ForgetPeakMemory();
  MICA_ASSIGN_OR_RETURN(auto plan, PlanJobs(programs, options, result));
  if (before_bytes > 0) {
    result.plan_peak_bytes = PeakMemoryBytes() - before_bytes;
  }
  PauseTrace();
  MICA_RETURN_IF_ERROR(RepeatPlanning(
      options, text, {.parse_ms = parse_ms, .analysis_ms = result.analysis_ms},
      result));
  if (options.fuse) {
    MICA_RETURN_IF_ERROR(TimePasses(program, options, result));
  }
  ResumeTrace();
  result.steps = static_cast<int64_t>(plan->steps().size());
  CountFunctions(plan->program(), result);
  result.streams = plan->streams().num_streams;
  result.workers = plan->queue().num_workers;
  result.events = plan->streams().num_events();
  result.arena_bytes = plan->arena_bytes();
  result.live_set_bytes = plan->live_set_bytes();
  if (!options.dump_path.empty()) {
    MICA_RETURN_IF_ERROR(WriteFile(options.dump_path, {ToText(program)}));
  }
  if (options.plan_only) return result;

  if (options.check) {
    MICA_ASSIGN_OR_RETURN(result.largest_difference,
                          CompareWithHost(programs[0], plan, options));
  }
  Runnable runnable;
  MICA_RETURN_IF_ERROR(MakeTensors(*plan, options, backend.device, runnable));
  const absl::Time bind_start = absl::Now();
  MICA_RETURN_IF_ERROR(
      MakeJob(std::move(plan), options, backend.device, runnable));
  result.bind_ms = absl::ToDoubleMilliseconds(absl::Now() - bind_start);
  PauseTrace();
  MICA_ASSIGN_OR_RETURN(result.run_us, MeasureRuns(*runnable.job, options));
  ResumeTrace();
  if (const DeviceRun* run = runnable.job->device_run()) {
    result.graph_runs = run->num_graph_runs();
    result.queue_us = absl::ToDoubleMicroseconds(run->queue_time());
  }
  if (options.step_times) {
    MICA_ASSIGN_OR_RETURN(result.kernel_times, TimeKernels(*runnable.job));
  }
  if (IsTracing()) MICA_RETURN_IF_ERROR(runnable.job->Run());
  return result;
}

}  // namespace

absl::Status CheckOptions(const BenchOptions& options) {
  auto check = [](absl::string_view name, int64_t value, int64_t min,
                  int64_t max) {
    if (value >= min && value <= max) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "--", name, ": wants ", min, " to ", max, ", got ", value));
  };
  MICA_RETURN_IF_ERROR(check("threads", options.threads, 1, 1024));
  MICA_RETURN_IF_ERROR(check("streams", options.streams, 1, 1024));
  MICA_RETURN_IF_ERROR(check("repeats", options.repeats, 1, 1'000'000));
  MICA_RETURN_IF_ERROR(
      check("plan_repeats", options.plan_repeats, 1, 1'000'000));
  MICA_RETURN_IF_ERROR(check("jobs", options.jobs, 1, 100'000));
  MICA_RETURN_IF_ERROR(check("other_batch", options.other_batch, 0, 1'000'000));
  MICA_RETURN_IF_ERROR(check("warmup", options.warmup, 0, 1'000'000));
  MICA_RETURN_IF_ERROR(SplitPairs("symbols", options.symbols).status());
  MICA_RETURN_IF_ERROR(ParsePlace(options.place).status());
  if (!options.program_path.empty()) return absl::OkStatus();
  return CheckOptions(options.generate);
}

absl::StatusOr<BenchResult> RunBench(const BenchOptions& options) {
  MICA_RETURN_IF_ERROR(CheckOptions(options));
  if (options.trace_path.empty()) return RunAndMeasure(options);
  MICA_RETURN_IF_ERROR(StartTrace());
  absl::StatusOr<BenchResult> result = RunAndMeasure(options);
  const absl::Status status = StopTraceInto(options.trace_path);
  if (result.ok() && !status.ok()) return status;
  return result;
}

}  // namespace mica
