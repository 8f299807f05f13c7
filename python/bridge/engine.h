// A recorded run as something that runs: tape to Program to Plan to Job.

#ifndef MICA_PYTHON_BRIDGE_ENGINE_H_
#define MICA_PYTHON_BRIDGE_ENGINE_H_

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "analysis/lower/lower.h"
#include "analysis/lower/tape.h"
#include "analysis/plan/plan.h"
#include "executor/job/job.h"
#include "framework/ir/program.h"

namespace mica {

struct EngineOptions {
  int num_threads = 1;
  // The states never change but by Rebind(): they may be packed.
  bool frozen = false;
};

// One record's engine side. Needs the GIL in every call; single-thread.
class CompiledTape {
 public:
  enum class Outcome {
    kDone,             // Results are there, writes are done.
    kHostReadDiffers,  // A number that Python read is another one now: nothing
                       // was written, there are no results.
    kBusy,             // Called from within its own run; nothing was done.
  };

  // Lowers, plans and binds. `states` are the Python tensors of Tape::states,
  // in order; they are read now if frozen. A Status says why it can't be done.
  static absl::StatusOr<std::unique_ptr<CompiledTape>> Build(
      const Tape& tape, absl::Span<PyObject* const> states,
      const EngineOptions& options);

  // Runs once. `inputs` and `states` are Python tensors in the order of
  // Tape::inputs and Tape::states, with the metadata of the record (guards have
  // seen to that). Appends new references to `results`, one for each of
  // Tape::results. An error leaves every input and state as it was.
  absl::StatusOr<Outcome> Run(absl::Span<PyObject* const> inputs,
                              absl::Span<PyObject* const> states,
                              std::vector<PyObject*>& results);

  // Packs again what frozen states now hold.
  absl::Status Rebind(absl::Span<PyObject* const> states);

  const std::shared_ptr<const Program>& program() const { return program_; }
  const Plan& plan() const { return *plan_; }
  // Milliseconds that Build() spent in each.
  double lower_ms() const { return lower_ms_; }
  double plan_ms() const { return plan_ms_; }

 private:
  // What Python read from the device at record time, as the bits of a double
  // or of an int64.
  struct HostRead {
    int32_t output = 0;
    DType dtype = DType::kF32;
    uint64_t bits = 0;
  };

  CompiledTape() = default;
  absl::Status AddHostReads(const Tape& tape);
  bool HostReadsAgree() const;

  LoweredTape lowered_;
  std::shared_ptr<const Program> program_;
  std::shared_ptr<const Plan> plan_;
  std::unique_ptr<Job> job_;
  std::vector<Tensor> large_constants_;
  std::vector<TensorType> output_types_;
  std::vector<bool> input_is_updated_;
  std::vector<bool> state_is_updated_;
  std::vector<HostRead> host_reads_;
  std::vector<uint64_t> host_words_;  // Where host reads are written.
  int num_tensor_outputs_ = 0;
  bool is_running_ = false;
  double lower_ms_ = 0;
  double plan_ms_ = 0;
};

}  // namespace mica

#endif  // MICA_PYTHON_BRIDGE_ENGINE_H_
