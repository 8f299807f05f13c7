// Runs a saved Program on tensors from files.

#ifndef MICA_TOOLS_RUN_PROGRAM_H_
#define MICA_TOOLS_RUN_PROGRAM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mica {

struct RunProgramOptions {
  std::string program_path;  // A .mica file, or a folder that was exported.
  // safetensors: variables by name. Empty: the folder's own.
  std::string weights_path;
  std::string feeds_path;  // safetensors: inputs by name, beside `feeds`.
  std::string feeds;       // "x=x.npy,mask=mask.npy"
  // Values to fetch, without "%", with commas between; empty: what the Program
  // returns.
  std::string fetches;
  std::string out_path;              // safetensors, unless empty.
  std::string out_dir;               // One npy a fetch, unless empty.
  std::string updated_weights_path;  // All variables after the run.
  int64_t threads = 1;
  bool queue = false;  // The threads take steps from one, not loops by OpenMP.
  bool fuse = true;
  bool frozen = false;  // Variables never change: packed, and folded.
  // Runs it so often again, and tells how long that takes; by so many threads
  // at once, each as often.
  int64_t repeat = 0;
  int64_t callers = 1;
};

// InvalidArgument for options that can't be meant.
absl::Status CheckOptions(const RunProgramOptions& options);

// Returns a line for each fetch: its name, type, and the least, mean and
// greatest of its elements; and one with the times of repeated runs, if there
// are any. InvalidArgument for variables that are updated and frozen, or
// updated by runs that shall be repeated. Names the file, feed or op in an
// error.
absl::StatusOr<std::vector<std::string>> RunProgram(
    const RunProgramOptions& options);

}  // namespace mica

#endif  // MICA_TOOLS_RUN_PROGRAM_H_
