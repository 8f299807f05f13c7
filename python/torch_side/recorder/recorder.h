// The dispatcher's stream: what ATen did while a user's program ran.

#ifndef MICA_PYTHON_TORCH_SIDE_RECORDER_RECORDER_H_
#define MICA_PYTHON_TORCH_SIDE_RECORDER_RECORDER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "analysis/lower/tape.h"
#include "python/capture/values/host_values.h"
#include "python/capture/values/passed_numbers.h"
#include "python/capture/values/refusal.h"
#include "python/interpreter/py_ref.h"
#include "python/torch_side/recorder/operator_kernels.h"

namespace mica {

// The names of ATen's operators, without overloads: "add", "add_", "linear".
absl::flat_hash_set<std::string> AtenNames();

// A tensor that the program found in its own state.
struct StateTensor {
  PyObject* tensor = nullptr;  // Borrowed.
  std::string name;
};

// Records every ATen call that this thread makes between Start() and Stop(),
// as it reaches the backends: below autograd and autocast, on real tensors,
// which it changes in nothing. Composite ops are recorded by their parts.
//
// Each tensor seen stays alive until the Recorder dies, so that an address
// names one tensor. Single-thread; one at a time may be started in a thread.
class Recorder {
 public:
  // Prepares torch's dispatcher, once a process. Fails, and for good, when
  // this torch uses the recorder's key for something else.
  static absl::Status Install();

  struct Callbacks {
    // Whether the step at hand fills new tensors with Python's values; what
    // else fills memory unseen by the dispatcher (an operator's own loop in
    // C++) can't be recorded.
    std::function<bool()> is_making_tensor;
    // Whether the program itself asks for memory that isn't filled.
    std::function<bool()> is_allocating;
    // An operator is about to take a tensor for the first time that requires
    // grad and that the run didn't make. If it is an alias, in memory that is
    // known already, the run may have made it unseen.
    std::function<void(PyObject*, bool is_alias)> on_leaf;
    // The functions under way.
    std::function<FrameSites()> places;
    // A host value has to be what it was.
    std::function<void(int32_t)> on_fixed_number;
  };
  Recorder(std::string name, Callbacks callbacks);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // Announces a tensor that the caller feeds. Requires: stopped, before
  // a call takes the tensor, each once.
  void AddInput(PyObject* tensor, std::string path);

  // Announces a tensor that Python's values were just made into: unless a
  // recorded call made it, what it holds now is a constant.
  void AddConstant(PyObject* tensor);

  void Start();
  void Stop();
  // Start() again, for a part of the backward pass that is to come after the
  // run: it is TapeCall::later_part of what is called.
  void StartLater(int32_t part);

  // Has a call refused of which data decide how large its result is.
  void RefuseSizesOfData() { refuses_sizes_of_data_ = true; }

  // Why the tape is worthless, if it is.
  const Refusal& refusal() const { return refusal_; }
  void Refuse(Refusal refusal);

  struct Result {
    Tape tape;
    // The objects of Tape::states, in its order; borrowed from `states`.
    std::vector<PyObject*> states;
    // Of each entry of `results`: its tensor in the tape.
    std::vector<TapeTensorId> results;
    // How often torch counted a write to each input and state during the run;
    // -1 where that isn't known.
    std::vector<int64_t> input_writes;
    std::vector<int64_t> state_writes;
  };
  // True if recorded calls made the tensor, or a view of what was there, and
  // its memory was written.
  bool HasWritten(PyObject* tensor) const;

  // The tensor's number on the tape, or that of another one that lies as it
  // does; kNoTapeTensor if there is none.
  TapeTensorId Find(PyObject* tensor) const;

  // True if recorded calls made the tensor, or a constant of Python's values
  // is.
  bool HasMade(PyObject* tensor) const;
  // The call that made a tensor, and its place among what the call made; -1 for
  // one that no call made, or that shows another one's memory.
  struct MadeBy {
    int32_t call = -1;
    int32_t output = -1;
    int32_t item = -1;
  };
  MadeBy FindMaker(PyObject* tensor) const;

  // The cast of a weight that autocast keeps beyond the run.
  struct KeptWeight {
    PyRef cast;
    PyRef weight;                     // One of the inputs or of the state,
    std::string name;                 // and what that is called.
    TapeTensorId id = kNoTapeTensor;  // The cast's.
  };
  // Finds those that the run made, or used and found: they are states of its
  // own, as a later run finds or makes them before it begins. `states` as for
  // Finish(). Requires: after Stop(), before Finish(). Fails if a weight was
  // written before it was cast.
  absl::Status FindKeptWeights(const std::vector<StateTensor>& states);
  const std::vector<KeptWeight>& kept_weights() const { return kept_weights_; }

  // Settles where each tensor came from. `states` is what the program could
  // reach without the dispatcher, `results` what it returned. Requires: after
  // Stop(), once. Fails when a tensor has no known origin.
  absl::StatusOr<Result> Finish(const std::vector<StateTensor>& states,
                                const std::vector<PyObject*>& results);

  // How far the recording is.
  struct Mark {
    size_t calls = 0;
    size_t tensors = 0;
    size_t host_reads = 0;
  };
  Mark now() const;
  // The call by which a value was read on the host last; -1 for none.
  int32_t LastRead() const;
  struct Number {
    PyTypeObject* type = nullptr;  // float or int.
    double value = 0;
    int32_t call = 0;  // What gave it.
  };
  // The number that left the dispatcher by the `index`-th host read; none if
  // that was something else.
  std::optional<Number> NumberRead(size_t index) const;
  // What the step since `mark` passed to its one operator (PlaceNumbers()).
  bool PlaceNumbers(const Mark& mark, absl::Span<const PassedNumbers> numbers,
                    bool is_tracked);
  // See mica::PlacePlaces(). `is_tracked`: autograd has the views' gradients
  // begin where they do, which is followed, too.
  bool PlacePlaces(const Mark& mark, absl::Span<const PassedPlace> places,
                   bool is_tracked, std::vector<int64_t>* sizes);
  // The numbers of such places have to be what they were: of all, or of those
  // that autograd tracks.
  void FixPlaces(bool only_tracked);
  // Whether the calls since `mark` gave a tensor of float32.
  bool GaveFloat32(const Mark& mark) const;
  // Requires: before Finish(). Reads that host values stand for are checked
  // no more; the outcomes of comparisons are.
  void SetHostValues(std::vector<TapeHostValue> values,
                     std::vector<int32_t> results,
                     absl::Span<const HostValues::Comparison> comparisons);

  // Where the run was at what a failure of Finish(), or of the analysis of its
  // tape, is about; empty if that isn't known.
  FrameSites PlaceOf(const absl::Status& failure) const;

  int64_t num_calls() const;
  // What a recorded call called: "aten.add.Tensor".
  const std::string& OpOf(size_t call) const;
  // Refuses the run for a recorded call.
  void RefuseCall(size_t call, const std::string& why, std::string mend);
  // Of the operators that were called, recorded by their parts or not.
  OperatorKernels& kernels() { return kernels_; }

  struct Impl;  // Knows torch.
 private:
  friend struct RecorderAccess;
  std::unique_ptr<Impl> impl_;
  OperatorKernels kernels_;
  std::vector<KeptWeight> kept_weights_;
  Refusal refusal_;
  bool refuses_sizes_of_data_ = false;
};

}  // namespace mica

#endif  // MICA_PYTHON_TORCH_SIDE_RECORDER_RECORDER_H_
