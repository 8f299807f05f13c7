// Runs a saved or exported Program on safetensors or npy feeds. No Python, no
// torch.

#include <cstdio>

#include "gflags/gflags.h"
#include "glog/logging.h"
#include "tools/flags.h"
#include "tools/run_program.h"

DEFINE_string(program, "", "the .mica file, or the exported folder, to run");
DEFINE_string(weights, "",
              "safetensors file with the variables, by name; an exported "
              "folder has its own");
DEFINE_string(feed, "", "an input from a file: x=x.npy; may be repeated");
DEFINE_string(feeds, "", "safetensors file with inputs, by name");
DEFINE_string(fetch, "",
              "values to compute, such as y,h; without it, what the Program "
              "returns");
DEFINE_string(out, "", "writes the results to this safetensors file");
DEFINE_string(out_dir, "", "writes the results to npy files in this folder");
DEFINE_string(out_weights, "",
              "writes the variables after the run to this safetensors file");
DEFINE_int64(threads, 1, "threads for the run");
DEFINE_bool(queue, false,
            "the threads take steps, and pieces of wide ones, from a queue");
DEFINE_bool(frozen, false,
            "the variables never change: kernels may pack them, passes fold "
            "what depends on them alone");
DEFINE_int64(repeat, 0,
             "runs it so often again, and tells how long a run takes");
DEFINE_int64(callers, 1,
             "so many threads share the program, each repeats it as often");
DEFINE_bool(fuse, true, "merge ops into fused ones");

namespace mica {
namespace {

int Main(int argc, char** argv) {
  absl::Status status = ParseFlags(argc, argv, "mica_run.cc", {"feed"});
  const RunProgramOptions options = {.program_path = FLAGS_program,
                                     .weights_path = FLAGS_weights,
                                     .feeds_path = FLAGS_feeds,
                                     .feeds = FLAGS_feed,
                                     .fetches = FLAGS_fetch,
                                     .out_path = FLAGS_out,
                                     .out_dir = FLAGS_out_dir,
                                     .updated_weights_path = FLAGS_out_weights,
                                     .threads = FLAGS_threads,
                                     .queue = FLAGS_queue,
                                     .fuse = FLAGS_fuse,
                                     .frozen = FLAGS_frozen,
                                     .repeat = FLAGS_repeat,
                                     .callers = FLAGS_callers};
  if (status.ok()) status = CheckOptions(options);
  if (!status.ok()) {
    PrintError("mica_run", status);
    return kExitUsage;
  }
  const auto lines = RunProgram(options);
  if (!lines.ok()) {
    PrintError("mica_run", lines.status());
    return kExitFailed;
  }
  for (const std::string& line : *lines) std::printf("%s\n", line.c_str());
  return 0;
}

}  // namespace
}  // namespace mica

int main(int argc, char** argv) {
  FLAGS_logtostderr = true;
  google::InitGoogleLogging(argv[0]);
  gflags::SetUsageMessage("runs a saved Program on tensors from files");
  return mica::Main(argc, argv);
}
