// Times the building and the running of one Program, apart.

#ifndef MICA_TOOLS_BENCH_H_
#define MICA_TOOLS_BENCH_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/generate.h"
#include "tools/step_times.h"

namespace mica {

struct BenchOptions {
  // A .mica file, or a folder that was exported, whose variables are then
  // read; if empty, a Program is generated.
  std::string program_path;
  GenerateOptions generate;
  std::string symbols;      // "batch=8,seq=128": sizes for symbols.
  std::string dump_path;    // Writes the Program's text there, unless empty.
  std::string dump_passes;  // See PlanOptions::dump_folder.
  // Writes a trace of planning and of one run, unless empty.
  std::string trace_path;
  std::string place = "cpu";  // Where it runs: "cuda:0", "simulated:0".
  // Runs it once on the host, too, and tells how far the results are apart.
  bool check = false;
  bool step_times = false;  // Of a device: see TimeKernels().
  int64_t threads = 1;
  int64_t streams = 1;
  bool queue = false;
  bool poison = false;  // Checks lifetimes; see Poison.
  int64_t repeats = 30;
  int64_t warmup = 3;
  int64_t jobs = 1;       // That want the Plan at once, as micro-batches do.
  bool separate = false;  // Each job reads its own, equal Program.
  // Plans the generated Program with this batch size too, unless 0: by the
  // structure that the first has left, and alone.
  int64_t other_batch = 0;
  std::string plan_cache;  // A folder of stored Plans, unless empty.
  bool plan_only = false;
  // How often planning is measured, each time from the text on and without what
  // was planned before; once where jobs, or a folder of Plans, are shared.
  int64_t plan_repeats = 5;
  // Generated Programs are printed, and read back, as what is timed.
  bool from_text = true;
  bool fuse = true;
  bool lazy_inline = true;  // See PlanOptions::share_layers.
  bool frozen = false;
};

// Of several measurements of the same.
struct Spread {
  double min = 0;
  double median = 0;
  double p90 = 0;
};

struct BenchResult {
  std::string program;
  int64_t ops = 0;         // Of the Program.
  int64_t steps = 0;       // Of the Plan.
  int64_t functions = 0;   // That it calls.
  int64_t shared_ops = 0;  // Of the Program: those in their calls.
  int64_t streams = 0;     // That it uses.
  int64_t workers = 0;     // Of its queue.
  int64_t events = 0;      // Steps that another stream waits for.
  // Planning, the median of plan_repeats measurements.
  int64_t plan_repeats = 0;
  double parse_ms = 0;     // From the text to a Program; 0 if there is no text.
  double analysis_ms = 0;  // From there to the Plan, for all jobs.
  Spread plan_ms;          // Both.
  double first_plan_ms = 0;  // The first of those measurements.
  double first_job_ms = 0;   // Of its analysis, until the first has its Plan.
  // With `fuse`: the same without; 0 if not measured.
  double unfused_analysis_ms = 0;
  double unfused_plan_ms = 0;
  // The Plan of the other batch size, the least of several: by the structure of
  // the first, and built without it.
  double other_batch_ms = 0;
  double other_batch_alone_ms = 0;
  int64_t plans_by_structure = 0;
  int64_t plans_from_disk = 0;
  // What each pass took, the median of plan_repeats measurements, in the order
  // of the passes: those that had something to do.
  std::vector<std::pair<std::string, double>> pass_ms;
  int64_t plan_bytes = 0;  // Of all jobs' Plans, each counted once.
  // The most memory that the first planning took beyond what there was, its
  // Plans included; 0 where the system doesn't tell.
  int64_t plan_peak_bytes = 0;
  double bind_ms = 0;  // Binding and Job: packing, arena.
  int64_t arena_bytes = 0;
  int64_t live_set_bytes = 0;
  // The largest difference of an element of an output or a variable from the
  // host's, by the largest element of that tensor; -1 if it wasn't asked for.
  double largest_difference = -1;
  double queue_us = 0;  // Of a device: what the host does for a run.
  std::vector<KernelTime> kernel_times;
  int64_t graph_runs = 0;  // Of a device: runs that were queued as one graph.
  Spread run_us;  // Of `repeats` measurements of a pass; 0 if only planned.
};

// InvalidArgument for options that are out of range.
absl::Status CheckOptions(const BenchOptions& options);

// InvalidArgument as CheckOptions(); else what parsing, planning or
// running gives. Inputs hold random numbers, and so do variables without a
// file.
absl::StatusOr<BenchResult> RunBench(const BenchOptions& options);

}  // namespace mica

#endif  // MICA_TOOLS_BENCH_H_
