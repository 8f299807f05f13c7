// Where a training run stands, as one safetensors file.

#ifndef MICA_TOOLS_TRAIN_CHECKPOINT_H_
#define MICA_TOOLS_TRAIN_CHECKPOINT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/ir/program.h"
#include "framework/tensor/tensor.h"

namespace mica {

// How far a run has come. The order of samples follows from the seed and the
// epoch, so this is all that there is to it but the variables.
struct Progress {
  int64_t epoch = 0;          // From 0 on.
  int64_t step_in_epoch = 0;  // Steps of this epoch that are done.
  double loss_sum = 0;        // Over those steps.
  int64_t step = 0;           // Steps of the run that are done.
  int64_t log_bytes = 0;      // Of the log that belongs to them.
  friend bool operator==(const Progress&, const Progress&) = default;
};

// What has to be the same when a run goes on, by name.
using RunIdentity = std::map<std::string, std::string>;

// Replaces the file: whatever happens meanwhile, there is the old one or the
// new one, whole.
absl::Status WriteCheckpoint(const std::string& path, const Program& program,
                             const std::vector<Tensor>& variables,
                             const Progress& progress,
                             const RunIdentity& identity);

// Copies the file's values into `variables`, and returns how far its run had
// come; nothing if there is no file. InvalidArgument, naming the file, if it is
// damaged, belongs to another Program, or another run: tells what differs.
absl::StatusOr<std::optional<Progress>> ReadCheckpoint(
    const std::string& path, const Program& program,
    const std::vector<Tensor>& variables, const RunIdentity& identity);

// Removes files that a run left which was killed while it wrote `path`.
void RemoveUnfinished(const std::string& path);

}  // namespace mica

#endif  // MICA_TOOLS_TRAIN_CHECKPOINT_H_
