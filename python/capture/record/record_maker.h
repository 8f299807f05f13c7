// How a Record is made of one run.

#ifndef MICA_PYTHON_CAPTURE_RECORD_RECORD_MAKER_H_
#define MICA_PYTHON_CAPTURE_RECORD_RECORD_MAKER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "python/capture/record/later_pass.h"
#include "python/capture/record/record.h"
#include "python/capture/watch/observation.h"

namespace mica {

// Turns what was observed of a run into the rest of a Record, in order: what
// the run read and may not have, what it left behind, its tape, its graph. For
// one run; all that it is given outlives it.
class RecordMaker {
 public:
  // `record` has the guards of the arguments. `refusal` and `attempt` are told
  // why there will be none.
  RecordMaker(Record& record, Observation& run, const CaptureOptions& options,
              Refusal* refusal, Attempt* attempt)
      : record_(record),
        run_(run),
        options_(options),
        refusal_(*refusal),
        attempt_(*attempt),
        later_(record, run, options) {}

  // `result` is what the run returned. False, refused, if it can't be done
  // again.
  bool Make(PyObject* result);
  // Of a run that is refused: the places that had better be slots.
  void FindWanted();

 private:
  // Make(), but that torch may throw on the way.
  bool MakeParts(PyObject* result);
  // Steps of Make(), in order; false, refused, if one can't be done.
  bool CheckRun();
  bool CheckTorch();
  bool CheckKernels();
  bool FindLeft(PyObject* result);
  // What autocast keeps of weights, where that outlives the run.
  bool FindKeptWeights();
  bool FindTensors();
  bool MakeTape();
  void KeepTape();
  bool MakeGraph();
  void Settle();

  // Settles what the run changed in Python's state, which goes to `left_`.
  bool FindEffects();
  // The places that it set. `rewritten` gets those that it also read.
  std::vector<Written> FindWritten(Rewritten* rewritten, std::string* reason);
  // As FindEffects(), for what it changed in its arguments.
  bool FindArgumentChanges();
  // Guards which objects the arguments are, where the run asked for that; false
  // if it refuses to.
  bool GuardIdentity();
  // Settles what the result is, and what is left,
  bool FindResult(PyObject* result);
  // and what first calls are passed.
  bool FindFirstArguments();
  // Settles which numbers vary,
  bool FindNumbers();
  // and the draws, of which `exact` are no inputs: a number that won't come
  // again has to be one.
  bool FindDraws(absl::Span<const NumberSource> exact,
                 absl::Span<const TapeHostValue> values);
  // Which leaves' gradients the run read or changed. Appends to `tensors_`
  // those that it made.
  bool FindGradients();
  // Places a gradient that it left behind.
  bool AddGradient(PyRef gradient, Gradients::Leaf* leaf);
  // Adds a state that is the cast of a weight; false if it is none.
  bool AddKeptWeight(PyObject* state);
  // Adds a state that was drawn; false if it is none.
  bool AddDrawn(PyObject* state);
  // What the tape's states are called, each by a name of its own.
  std::vector<StateTensor> NameStates();
  // Refuses new data of a tensor whose old data a backward pass after the run
  // needs: nothing would tell that pass.
  bool CheckNewData();
  // Where the way forked, while the tape is as it was recorded.
  void FindWays();
  // What the record needs to be one with those of other ways, if it can be.
  void KeepWay(const std::vector<TensorMeta>& kinds,
               const GraphOptions& options);
  absl::Status CompileOutside();

  bool Refuse(Refusal why);
  bool Refuse(const absl::Status& status);
  // Of what changes state; a later run may find it changed.
  bool RefuseChange(std::string reason);

  Record& record_;
  Observation& run_;
  const CaptureOptions& options_;
  Refusal& refusal_;
  Attempt& attempt_;
  LaterPass later_;
  std::vector<PyObject*> left_;     // Objects that the run left in the state.
  std::vector<PyObject*> tensors_;  // What it made: results, then gradients.
  size_t num_results_ = 0;          // Of them; the gradients
  size_t num_made_ = 0;             // end here.
  std::vector<PyRef> pins_;
  Recorder::Result recorded_;
  int64_t num_calls_ = 0;  // That were recorded.
  WayRun way_run_;         // Without events if that isn't known.
  std::vector<MeetingState> meetings_;
  Record::BoundCall bound_;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_RECORD_RECORD_MAKER_H_
