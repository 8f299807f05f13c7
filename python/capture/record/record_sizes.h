// A record at other sizes of its arguments.

#ifndef MICA_PYTHON_CAPTURE_RECORD_RECORD_SIZES_H_
#define MICA_PYTHON_CAPTURE_RECORD_RECORD_SIZES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "analysis/lower/lower.h"
#include "analysis/lower/split_tape.h"
#include "analysis/lower/tape.h"
#include "analysis/sizes/size_facts.h"
#include "analysis/sizes/size_template.h"
#include "python/capture/graph/graph.h"
#include "python/capture/guards/memory_guards.h"
#include "python/capture/guards/state_guards.h"
#include "python/torch_side/autograd/backward_pass.h"
#include "python/torch_side/recorder/operator_kernels.h"
#include "python/torch_side/tensors/tensor_access.h"

namespace mica {

// What a record has for each set of its arguments' sizes.
struct SizedRun {
  std::vector<TensorMeta> inputs;  // Of the arguments whose sizes vary.
  std::vector<double> given;       // The numbers that are taken for sizes.
  std::shared_ptr<Graph> graph;
  std::shared_ptr<BackwardPass> backward;  // Null: results need none.
  MemoryGuards memory;
  // By result: how much more often it is written than in the recorded run, as
  // loops do that go more often. Empty of that one.
  std::vector<int64_t> more_writes;
  int64_t kept_bytes = 0;  // Graph::kept_bytes() when it was made.
};

// What of a watched run its SizedRun is made of. Of one whose sizes weren't
// followed the tape alone; null where sizes are not to vary.
struct SizeRecipe {
  bool is_complete = false;
  std::shared_ptr<const Tape> tape;  // All of it, as it was recorded.
  std::vector<double> given;         // What `facts` calls so.
  SizeFacts facts;
  int num_args = 0;
  int num_results = 0;            // Of the tape's, without later gradients.
  std::vector<LaterPart> parts;   // Of the later backward pass.
  std::vector<TensorMeta> kinds;  // Of what the run's graph computes.
  GraphOptions options;
  std::vector<int64_t> versions;   // As Graph has them,
  std::vector<std::string> nodes;  // of results;
  std::vector<int64_t> input_writes;
  std::vector<int64_t> state_writes;
  bool reads_offsets = false;
  std::vector<StateGuards::ArrayMemory> arrays;
};

// The runs of a record for all sizes that were met, most recently used first.
// Single-thread under the GIL.
class RecordSizes {
 public:
  // The recipe's tape is that of the template.
  RecordSizes(std::shared_ptr<const SizeTemplate> made, SizeRecipe recipe,
              std::shared_ptr<SizedRun> recorded);

  // The run for these arguments, and numbers that are taken for sizes, made if
  // it is new: then `kernels` are told of its operators. Fails, and for these
  // sizes ever after, if what it would be doesn't follow from the recorded
  // ones.
  absl::StatusOr<std::shared_ptr<SizedRun>> Find(
      absl::Span<PyObject* const> inputs, absl::Span<PyObject* const> states,
      absl::Span<const double> given, OperatorKernels* kernels);

  // Runs at other sizes compute in the same way: one of them was checked.
  void SkipChecks() { recorded_->graph->SkipChecks(); }

  // The Program for inputs of these sizes, which nothing runs; of the numbers
  // that the last watched run was given. `tape` gets what it is of.
  absl::StatusOr<LoweredTape> LowerAt(absl::Span<const TensorSizes> inputs,
                                      Tape* tape) const;

  // SizeTemplate::ConditionsAt(), of the same numbers.
  absl::StatusOr<std::vector<SizeCondition>> ConditionsAt(
      absl::Span<const TensorSizes> inputs) const {
    return made_->ConditionsAt(inputs, recipe_.given);
  }

  int num_inputs() const { return recipe_.num_args; }
  const SizeTemplate& made() const { return *made_; }
  // The arguments whose sizes vary, by number.
  absl::Span<const int> open() const { return open_; }
  int64_t num_runs() const { return static_cast<int64_t>(runs_.size()); }

 private:
  absl::StatusOr<std::shared_ptr<SizedRun>> Make(
      absl::Span<PyObject* const> inputs, absl::Span<PyObject* const> states,
      absl::Span<const double> given, OperatorKernels* kernels) const;
  // What a run at these sizes is made of.
  absl::StatusOr<Tape> TapeAt(absl::Span<const TensorSizes> inputs,
                              absl::Span<const double> given) const;
  absl::StatusOr<std::shared_ptr<BackwardPass>> MakePass(
      SplitTape* split, absl::Span<PyObject* const> states) const;
  GraphOptions OptionsNow() const;
  // Of what the run computes.
  absl::StatusOr<std::vector<TensorMeta>> KindsOf(const Tape& tape) const;
  std::vector<int64_t> MoreWritesIn(const Tape& tape) const;
  void Add(std::shared_ptr<SizedRun> run);

  std::shared_ptr<const SizeTemplate> made_;
  SizeRecipe recipe_;
  std::shared_ptr<SizedRun> recorded_;
  std::vector<int> open_;
  std::vector<std::shared_ptr<SizedRun>> runs_;
  int64_t bytes_ = 0;  // SizedRun::kept_bytes of all.
  absl::flat_hash_set<std::vector<int64_t>> refused_;
};

// The options of a later pass's graphs, those of the run given.
GraphOptions OptionsOfPass(GraphOptions options);
// A tensor on a tape, as a run makes it: `like` says all but sizes and dtype.
TensorMeta KindOf(const TapeTensor& tensor, const TensorMeta& like);
// How often each of a tape's results is written, as torch counts it.
std::vector<int64_t> WritesOf(const Tape& tape);

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_RECORD_RECORD_SIZES_H_
