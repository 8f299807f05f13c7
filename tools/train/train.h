// A training run: an exported step over a dataset, epoch by epoch.

#ifndef MICA_TOOLS_TRAIN_TRAIN_H_
#define MICA_TOOLS_TRAIN_TRAIN_H_

#include <csignal>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/train/rate.h"

namespace mica {

struct TrainOptions {
  std::string step_folder;  // The exported training step.
  std::string eval_folder;  // An exported evaluation; may be empty.
  std::string data;         // As Dataset::Read().
  std::string eval_data;
  std::string label = "labels";  // The field of `eval_data` to be found out.
  int64_t epochs = 1;
  int64_t batch_size = 0;  // If not 0: must be the Program's.
  uint64_t seed = 0;
  RateOptions rate;
  bool has_rate =
      false;  // Else `rate.rate` is what the step was exported with.
  // The inputs that take the rate, with commas between. Empty: the only number
  // among the inputs, or all that are called "…lr" or "…rate".
  std::string rate_input;
  std::string checkpoint_path;   // Empty: none.
  int64_t checkpoint_every = 0;  // Steps; 0: at the end of each epoch only.
  std::string log_path;          // JSON, one object a line; may be empty.
  std::string out_weights_path;  // The variables at the end; may be empty.
  std::string out_eval_folder;   // The evaluation with them; may be empty.
  int64_t threads = 1;
  std::string trace_path;      // A trace of the beginning; may be empty.
  int64_t trace_steps = 10;    // Steps in it.
  bool show_progress = false;  // A line on stderr that is written over.
};

struct TrainSummary {
  int64_t epochs = 0;       // Done, of this run and those before it.
  int64_t steps = 0;        // Likewise.
  double loss = 0;          // Mean over the last epoch.
  double accuracy = -1;     // After it; negative without an evaluation.
  double steps_per_s = 0;   // Of this run, evaluation and files aside.
  bool is_stopped = false;  // By `stop`.
};

// InvalidArgument, naming the flag, for options that can't be meant.
absl::Status CheckOptions(const TrainOptions& options);

// Trains to the end, or until `stop` isn't 0 any more: then the checkpoint is
// written, and a later run with the same options goes on from there, to the
// same weights bit for bit. Prints a line an epoch to stdout.
absl::StatusOr<TrainSummary> Train(const TrainOptions& options,
                                   const volatile std::sig_atomic_t& stop);

}  // namespace mica

#endif  // MICA_TOOLS_TRAIN_TRAIN_H_
