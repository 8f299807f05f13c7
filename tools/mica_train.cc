// Trains: an exported step over a dataset, epoch by epoch. No Python, no torch.

#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "gflags/gflags.h"
#include "glog/logging.h"
#include "tools/flags.h"
#include "tools/signals.h"
#include "tools/train/train.h"

DEFINE_string(step, "", "folder of the exported training step");
DEFINE_string(eval, "",
              "folder of an exported evaluation; shares the step's variables "
              "by name");
DEFINE_string(data, "",
              "samples for the step's inputs, by name: "
              "images=a.npy,labels=b.npy, or a safetensors file");
DEFINE_string(eval_data, "", "samples for the evaluation, and their labels");
DEFINE_string(label, "labels", "the labels' name in --eval_data");
DEFINE_int64(epochs, 1, "passes over the data");
DEFINE_int64(batch_size, 0, "must be the Program's, which alone decides; or 0");
DEFINE_uint64(seed, 0, "decides the order of samples");
DEFINE_double(rate, 0,
              "learning rate, fed to the step at each run; by default the one "
              "that it was exported with");
DEFINE_string(course, "constant", "of the rate: constant or cosine");
DEFINE_double(final_rate, 0, "where a cosine ends");
DEFINE_int64(warmup_steps, 0, "steps in which the rate rises from 0");
DEFINE_string(rate_input, "",
              "the inputs that take the rate, with commas between; by default "
              "the only number among the inputs, or those called ...lr or "
              "...rate");
DEFINE_string(checkpoint, "",
              "safetensors file to go on from, if it is there, and to save to "
              "after each epoch and on Ctrl-C");
DEFINE_int64(checkpoint_every, 0, "saves after so many steps, too");
DEFINE_string(log, "", "JSON log, one object a line");
DEFINE_string(out_weights, "", "writes the variables here at the end");
DEFINE_string(out_eval, "",
              "writes the evaluation with the trained variables to this "
              "folder at the end");
DEFINE_int64(threads, 1, "threads for one step");
DEFINE_string(trace, "",
              "writes what planning and the first --trace_steps steps did "
              "when to this file, for Perfetto");
DEFINE_int64(trace_steps, 10, "how many steps --trace has");

namespace mica {
namespace {

TrainOptions OptionsFromFlags() {
  return {.step_folder = FLAGS_step,
          .eval_folder = FLAGS_eval,
          .data = FLAGS_data,
          .eval_data = FLAGS_eval_data,
          .label = FLAGS_label,
          .epochs = FLAGS_epochs,
          .batch_size = FLAGS_batch_size,
          .seed = FLAGS_seed,
          .rate = {.rate = FLAGS_rate,
                   .course = FLAGS_course,
                   .final_rate = FLAGS_final_rate,
                   .warmup_steps = FLAGS_warmup_steps},
          .has_rate = !gflags::GetCommandLineFlagInfoOrDie("rate").is_default,
          .rate_input = FLAGS_rate_input,
          .checkpoint_path = FLAGS_checkpoint,
          .checkpoint_every = FLAGS_checkpoint_every,
          .log_path = FLAGS_log,
          .out_weights_path = FLAGS_out_weights,
          .out_eval_folder = FLAGS_out_eval,
          .threads = FLAGS_threads,
          .trace_path = FLAGS_trace,
          .trace_steps = FLAGS_trace_steps,
          .show_progress = ::isatty(STDERR_FILENO) != 0};
}

int Main(int argc, char** argv) {
  absl::Status status = ParseFlags(argc, argv, "mica_train.cc");
  const TrainOptions options = OptionsFromFlags();
  if (status.ok()) status = CheckOptions(options);
  if (!status.ok()) {
    PrintError("mica_train", status);
    return kExitUsage;
  }
  const volatile std::sig_atomic_t& stop_signal = CatchSignals();
  const absl::StatusOr<TrainSummary> summary = Train(options, stop_signal);
  if (!summary.ok()) {
    PrintError("mica_train", summary.status());
    return kExitFailed;
  }
  if (summary->is_stopped) {
    std::printf("stopped after step %lld; %s\n",
                static_cast<long long>(summary->steps),
                options.checkpoint_path.empty()
                    ? "not saved: there is no --checkpoint"
                    : absl::StrCat("saved to ", options.checkpoint_path,
                                   "; the same command goes on")
                          .c_str());
    return 128 + stop_signal;
  }
  return 0;
}

}  // namespace
}  // namespace mica

int main(int argc, char** argv) {
  FLAGS_logtostderr = true;
  google::InitGoogleLogging(argv[0]);
  gflags::SetUsageMessage("trains an exported step over a dataset");
  return mica::Main(argc, argv);
}
