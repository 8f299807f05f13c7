// A tape made runnable: from here on the engine's.

#ifndef MICA_PYTHON_CAPTURE_GRAPH_GRAPH_H_
#define MICA_PYTHON_CAPTURE_GRAPH_GRAPH_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "analysis/lower/lower.h"
#include "analysis/lower/tape.h"
#include "analysis/plan/plan.h"
#include "analysis/precision/precision.h"
#include "executor/job/job.h"
#include "framework/base/offload.h"
#include "python/capture/graph/closeness.h"
#include "python/capture/graph/precision_error.h"
#include "python/interpreter/py_ref.h"
#include "python/torch_side/tensors/tensor_access.h"
#include "python/torch_side/tensors/tensor_life.h"
#include "python/torch_side/tensors/torch_generators.h"

namespace mica {

// A number's memory; a c128 takes both words.
using HostWords = std::array<int64_t, 2>;

struct GraphOptions {
  int num_threads = 1;
  int num_streams = 1;
  bool queue = false;  // See PlanOptions.
  // States keep their values: kernels may hold packed copies of them. What
  // torch counts as a write to one makes new copies.
  bool frozen = false;
  // With `frozen`: where files shall hold the states' own bytes while runs read
  // packed copies; empty for nowhere.
  std::string offload_folder;
  // With `frozen`: in how many bits products with states compute.
  Precision precision = Precision::kAsWritten;
  // Each operator runs ATen's kernel, so that results are eager's bit for bit.
  bool exact = false;
  // Whether CheckAccuracy() compares the two.
  bool checks_accuracy = true;
  // Parts of arguments and states are written while a run goes on, and taken
  // back where it is given up; else all is written when it has succeeded, as
  // those have to see it who are called before that.
  bool writes_parts = true;
  // Of a Graph of the same program at other sizes: what it packed is shared.
  std::shared_ptr<const Binding> like;
  // Whether these states hold what they held when `like` was made; null: nobody
  // knows.
  std::function<bool(absl::Span<PyObject* const> states)> holds_like;
};

// A Program lowered from a tape, its Plan, and the Jobs that run it on torch's
// tensors. Thread-compatible under the GIL, which a run gives up while it
// computes: runs at one time in several threads get a Job each.
class Graph {
 public:
  // `results` are of Tape::results of a recorded run, for the kind of tensor
  // that each is; one that requires grad is made with a graph that is used up.
  // `states` are Tape::states, borrowed for the call.
  static absl::StatusOr<std::unique_ptr<Graph>> Build(
      const Tape& tape, absl::Span<const TensorMeta> results,
      absl::Span<PyObject* const> states, const GraphOptions& options);

  // What a run computed and nobody has seen yet.
  struct Computed;

  // Computes new tensors for Tape::results. On an error nothing was written,
  // but for DataLoss: no memory for a result when all else was done. Aborted
  // means that a value which the program looked at differs from the recorded
  // one. Requires: tensors like the recorded ones, alive until the end.
  // `numbers` are the host values that are inputs; `host_results` gets those
  // that the user gets. `lenders` has, by result, the leaf whose gradient the
  // result is going to replace, or null; may be empty. The new one takes the
  // old one's memory where nobody can see that; if the run then fails, such a
  // leaf has no gradient. `before_commit`, if given, is called with the results
  // before anything is written, and says whether to go on: if not, the run
  // fails as Unavailable. `done`, if given, is what CheckAccuracy() computed on
  // the same operands: nothing is computed again.
  using BeforeCommit = std::function<bool(absl::Span<const PyRef> results,
                                          absl::Span<const double> numbers)>;
  absl::Status Run(absl::Span<PyObject* const> inputs,
                   absl::Span<PyObject* const> states,
                   absl::Span<const double> numbers,
                   absl::Span<PyObject* const> lenders,
                   const BeforeCommit& before_commit,
                   std::vector<PyRef>* results,
                   std::vector<double>* host_results,
                   std::shared_ptr<Computed> done = nullptr);

  // Before a run, until is_checked(): computes the Program on these operands,
  // and the same by ATen's kernels (GraphOptions::exact), both without any
  // effect. Null if the first `num_results` results are near to each other;
  // else the Graph that is to run instead of this one, whose `inaccuracy()`
  // tells of it. Results that are equal bit for bit don't show how a rounding
  // grows: then the next runs are checked, too, but for no more than a few.
  // Where they are near, `done` gets what Run() would compute, if it could be
  // kept until then.
  std::shared_ptr<Graph> CheckAccuracy(absl::Span<PyObject* const> inputs,
                                       absl::Span<PyObject* const> states,
                                       absl::Span<const double> numbers,
                                       int num_results,
                                       std::shared_ptr<Computed>* done);
  bool is_checked() const { return num_checks_left_ == 0; }
  // Whether it holds for results of the sizes alone that data gave them.
  bool has_data_sizes() const { return has_data_sizes_; }
  // Whether a run failed for that: data gave another size.
  static bool FailedForSize(const absl::Status& failure);
  // What is kept between runs, about: Programs and the Plan, not their memory.
  int64_t kept_bytes() const;
  // From now on it is: another Graph of the same program was compared.
  void SkipChecks() {
    num_checks_left_ = 0;
    exact_.reset();
    whole_tape_.reset();
  }
  // How far results are from ATen's, and products from themselves in float32,
  // as CheckAccuracy() found; of a GraphOptions::precision alone.
  const PrecisionError& precision_error() const { return precision_error_; }
  // Why it runs ATen's kernels though its options don't say so; or empty.
  const std::string& inaccuracy() const { return inaccuracy_; }

  // What it keeps of frozen states, and what became of their own memory.
  struct Weights {
    int64_t packed_bytes = 0;
    int64_t offloaded_bytes = 0;
    // Read by no run, and in memory all the same: somebody else allocated it.
    int64_t foreign_bytes = 0;
    std::string error;  // Why they aren't offloaded, if they should be.
  };
  // Once it is settled: its first runs, which read all states, are over.
  const Weights& weights() const { return weights_; }
  bool is_settled() const { return settled_ == binding_; }

  // Gives back the memory that it keeps between runs.
  void ReleaseMemory() { idle_.clear(); }

  // How often a run writes each input and state, as far as torch counts writes;
  // -1 where that isn't known.
  void CountWrites(absl::Span<const int64_t> inputs,
                   absl::Span<const int64_t> states);

  // Has another compiler run the Program from now on: `make_runner` is
  // make_runner in mica/backends of a backend. The tensors are the recorded
  // run's; `fed` are states that are found anew at each run. Fails if that
  // raises.
  absl::Status CompileOutside(PyObject* make_runner,
                              absl::Span<PyObject* const> inputs,
                              absl::Span<PyObject* const> states,
                              absl::Span<const double> numbers,
                              absl::Span<const int> fed);

  // For Python's garbage collector.
  int Traverse(visitproc visit, void* arg) const {
    Py_VISIT(runner_.get());
    return 0;
  }

  // Its calls without arguments, and without results but for host reads.
  const Tape& tape() const { return tape_; }
  const Program& program() const { return *program_; }
  const Plan& plan() const { return *plan_; }
  const std::shared_ptr<const Binding>& binding() const { return binding_; }
  // Whether one of the frozen states isn't any more what was packed. Requires
  // GraphOptions::frozen.
  bool IsStale(absl::Span<PyObject* const> states) const;

  // How often each of the recorded run's results had been written in place, as
  // autograd and Tensor._version count. New tensors have that count again, but
  // for results behind these.
  void SetVersions(absl::Span<const int64_t> versions);
  // What torch calls the nodes of autograd's that made the recorded run's
  // results, as texts of tensors have it.
  void SetNodes(absl::Span<const std::string> nodes);

 private:
  friend class RecordDescriber;
  // Memory of one run that isn't a result: host values to be compared.
  struct Runner {
    std::unique_ptr<Job> job;
    std::shared_ptr<const Binding> binding;
    std::vector<HostWords> host_values;  // Reads, then results.
    std::vector<double> numbers;         // Host values that are inputs.
    std::vector<double> moved;           // See LoweredResult::moved, by result.
  };
  // A frozen state as it was packed. Batch norm writes its statistics past the
  // version counter, and so do torch's fused optimizers their parameters: what
  // may be a statistic is compared whole, of others some pieces.
  struct FrozenState {
    int64_t version = 0;
    void* data = nullptr;
    // Another tensor, or other memory, may have come to these addresses.
    std::shared_ptr<const TensorLife> life;
    std::shared_ptr<const MemoryLife> memory;
    // Pieces of what it held, and how far apart they lie there.
    std::vector<char> bytes;
    int64_t piece_bytes = 1;
    int64_t step = 1;

    // False if `state` was written or moved, as far as can be told.
    bool Holds(PyObject* state) const;
    // The pieces of its memory that Holds() looks at, in order.
    std::vector<MemoryRange> Pieces() const;
  };
  struct Result {
    // What it is in the memory of an output.
    TensorType type(DType dtype) const;

    LoweredResult place;
    TensorMeta meta;
    bool is_whole = false;  // Is an output's memory, all of it and alone.
    int64_t version = 0;    // How often a new one was written in place.
    std::string node;       // Of autograd's, if its graph is used up.
  };
  struct HostRead {
    int output = 0;
    int32_t call = 0;  // In the tape.
    int bytes = 8;
    HostWords words = {};  // The recorded value, as memory holds it.
  };

  Graph() = default;
  absl::Status Analyse(const GraphOptions& options);
  absl::Status PlaceResults(absl::Span<const TensorMeta> results);
  absl::Status PlaceHostReads();
  absl::Status CheckHostResults() const;
  // What a run ends with in which it is another number.
  absl::Status ReadAnother(const HostRead& read) const;
  // Drops of the tape what only lowering wants; the first check wants it, too.
  void ForgetArguments();
  // A host result as Python's float.
  double HostResult(const Runner& runner, size_t index) const;
  absl::Status Bind(absl::Span<PyObject* const> states);
  absl::StatusOr<std::unique_ptr<Runner>> Acquire();
  static FrozenState FreezeState(PyObject* state, const TensorType& type);
  absl::Status CheckHostReads(const Runner& runner) const;
  // Tells the job of a run's operands, and of memory for its results: that of
  // the gradients of `lent`, which have none then, or new.
  void FeedJob(absl::Span<PyObject* const> inputs,
               absl::Span<PyObject* const> states,
               absl::Span<const double> numbers, Runner& runner) const;
  absl::Status PlaceOutputs(absl::Span<PyObject* const> lenders, Job& job,
                            std::vector<PyRef>* outputs,
                            std::vector<PyObject*>* lent) const;
  // When the first runs are over: has the system get back the memory that only
  // they needed.
  void Settle(absl::Span<PyObject* const> states);
  absl::Status Offload(absl::Span<PyObject* const> states);
  // Undoes what a run has done that isn't committed.
  static absl::Status TakeBack(Computed& run);
  // Fails if it can't start; how it ends is its own status.
  absl::StatusOr<Computed> Compute(absl::Span<PyObject* const> inputs,
                                   absl::Span<PyObject* const> states,
                                   absl::Span<const double> numbers,
                                   absl::Span<PyObject* const> lenders);
  // Makes the results and asks whether to go on.
  absl::Status Ask(const BeforeCommit& before_commit,
                   absl::Span<PyObject* const> inputs,
                   absl::Span<PyObject* const> states,
                   absl::Span<const double> numbers, Computed& run,
                   std::vector<PyRef>* results) const;
  // Writes what the run left in inputs and states.
  absl::Status Commit(Job& job, absl::Span<PyObject* const> inputs,
                      absl::Span<PyObject* const> states) const;
  absl::Status RunOutside(absl::Span<PyObject* const> inputs,
                          absl::Span<PyObject* const> states,
                          absl::Span<const double> numbers,
                          const BeforeCommit& before_commit,
                          std::vector<PyRef>* results,
                          std::vector<double>* host_results) const;
  // `moved` says where those are whose place goes by numbers, by result.
  absl::Status MakeResults(absl::Span<PyObject* const> inputs,
                           absl::Span<PyObject* const> states,
                           absl::Span<const double> moved,
                           std::vector<PyRef>& outputs,
                           std::vector<PyRef>* results) const;
  // Parts of CheckAccuracy(): the Graph to compare with,
  absl::StatusOr<std::unique_ptr<Graph>> BuildExact(
      const Tape& tape, absl::Span<PyObject* const> states) const;
  // and how its results differ from those of `exact`. Of ones that aren't near,
  // `which` is the first.
  Discrepancy Compare(const Computed& own, const Graph& exact,
                      const Computed& other, int num_results,
                      std::string* which) const;
  // The same of results in fewer bits: only ones that have little to do with
  // the others aren't near.
  Discrepancy CompareLoosely(const Computed& own, const Graph& exact,
                             const Computed& other, int num_results,
                             std::string* which);
  // Calls visit(index, type, own, other) for each result that both computed.
  template <typename Visit>
  void ForEachPair(const Computed& own, const Graph& exact,
                   const Computed& other, int num_results,
                   const Visit& visit) const;
  // Fills precision_error_.products by one more run, without any effect.
  absl::Status MeasureProducts(absl::Span<PyObject* const> inputs,
                               absl::Span<PyObject* const> states,
                               absl::Span<const double> numbers);
  // Of Program::variables().
  std::vector<TensorView> VariableViews(
      absl::Span<PyObject* const> states) const;

  Tape tape_;
  // The whole of it, and what CheckAccuracy() makes of it; null but for that.
  std::unique_ptr<Tape> whole_tape_;
  std::shared_ptr<Graph> exact_;
  int num_checks_left_ = 0;
  std::string inaccuracy_;
  PrecisionError precision_error_;
  GraphOptions options_;
  LoweredTape lowered_;
  std::shared_ptr<const Program> program_;
  std::shared_ptr<const Plan> plan_;
  PyRef runner_;  // A backend's; null if this class runs the Program.
  std::vector<int64_t> generators_;  // Torch's, by number, that it draws from.
  bool has_moved_ = false;           // Results whose place goes by numbers.
  bool is_short_ = false;  // A run takes no longer than to give the GIL away.
  // A run may be discarded, as one whose host reads differ.
  bool has_data_sizes_ = false;
  std::shared_ptr<const Binding> binding_;
  std::shared_ptr<const Binding> settled_;
  Weights weights_;
  std::vector<FrozenState> frozen_states_;
  std::vector<std::unique_ptr<Runner>> idle_;
  std::vector<Result> results_;
  std::vector<TensorMeta> outputs_;  // By Program output; dtype -1 if host.
  std::vector<HostRead> host_reads_;
  // Which a run writes as far as torch counts writes, and how often.
  struct Written {
    int index = 0;
    int64_t count = 1;
  };
  std::vector<Written> counted_inputs_;
  std::vector<Written> counted_states_;
};

// A run up to where it writes what others see, but for the gradients of the
// lent leaves and the generators' states.
struct Graph::Computed {
  std::unique_ptr<Runner> runner;
  std::vector<PyRef> outputs;   // By Program output.
  std::vector<PyObject*> lent;  // Leaves whose gradients' memory it took.
  // As they were. A run that is discarded, since a number that the program
  // reads differs or a kernel failed, is followed by an eager one: that draws
  // the same numbers.
  std::optional<TorchGeneratorStates> random;
  absl::Status status;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_GRAPH_GRAPH_H_
