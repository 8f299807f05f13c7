// A Program with the guards under which it is valid.

#ifndef MICA_PYTHON_CAPTURE_RECORD_H_
#define MICA_PYTHON_CAPTURE_RECORD_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "python/capture/argument_changes.h"
#include "python/capture/backward_pass.h"
#include "python/capture/draws.h"
#include "python/capture/effects.h"
#include "python/capture/gradients.h"
#include "python/capture/graph.h"
#include "python/capture/guard_note.h"
#include "python/capture/host_outcomes.h"
#include "python/capture/host_values.h"
#include "python/capture/input_guards.h"
#include "python/capture/memory_guards.h"
#include "python/capture/places.h"
#include "python/capture/refusal.h"
#include "python/capture/result_tree.h"
#include "python/capture/state_guards.h"
#include "python/capture/tensor_access.h"
#include "python/interpreter/py_ref.h"

namespace mica {

struct Observation;

struct CaptureOptions {
  GraphOptions graph;
  // What has another compiler run the graphs (mica/outside.py); may be null.
  PyRef make_runner;
  // How users went back from the callable's results.
  std::shared_ptr<BackwardUse> backward_use = std::make_shared<BackwardUse>();
  // Numbers to treat as inputs.
  VaryingNumbers varying;
  // Places to read as arguments are.
  Slots slots;
  // Whether numbers read from tensors are followed, so that they may differ
  // at each run; else each has to be the recorded one.
  bool follow_numbers = true;
  // Whether what the program draws or asks the world outside for is drawn again
  // at each hit; else such a call is refused.
  bool follow_draws = true;
  // Whether a refused run is watched to its end, for what else is refused.
  bool looks_on = false;
  // Whether the callable is a piece of a function, and tells what such do.
  bool is_piece = false;
  // Classes whose instances are taken apart when they are arguments.
  absl::flat_hash_set<PyTypeObject*> structural;
};

// What is left of a run that can't be recorded.
struct Attempt {
  StateGuards guards;  // What it depended on.
  // What it read and then set: a run that reads these as arguments may do.
  std::vector<StatePlace> slots;
};

// What a hit that is to be compared with an eager run did, and left to that.
struct Rehearsal {
  std::vector<HostCall> calls;  // Into the world outside, which it didn't make.
  std::vector<PyRef> readings;  // What it asked the world outside for.
};

// What one run of a callable did, ready to be done again. Single-thread under
// the GIL, which Serve() gives up while it computes; a Record is then free for
// other threads to try.
class Record {
 public:
  // Runs `callable` once, for real, watching it. `result` is what it returned:
  // null, with the Python error set, if it raised. The Record is null, and
  // `refusal` says why, if the run can't be done again in its place.
  static std::unique_ptr<Record> Capture(PyObject* callable,
                                         const CallArgs& args,
                                         const CaptureOptions& options,
                                         PyRef* result, Refusal* refusal,
                                         Attempt* attempt);
  // Runs it once, watched, for its calls into the world outside alone, which it
  // does make; what it asks for is what `rehearsal` was told. The Refusal says
  // why they aren't known.
  static Refusal Watch(PyObject* callable, const CallArgs& args,
                       const CaptureOptions& options, PyRef* result,
                       Rehearsal* rehearsal);

  // Adds the numbers in which the state differs from the recorded one, and
  // those of an argument that did so in the last failed Matches(). `slots` as
  // StateGuards::FindVarying().
  void FindVarying(VaryingNumbers* varying,
                   std::vector<StatePlace>* slots) const;
  // As Effects::FindSlots().
  void FindSlots(std::vector<StatePlace>* slots) const {
    effects_.FindSlots(slots);
  }

  enum class Outcome {
    kHit,    // `result` is the call's.
    kMiss,   // A guard failed; nothing happened.
    kFailed  // The run failed before it had any effect.
  };
  // With a `rehearsal`, its calls into the world outside aren't made.
  Outcome Serve(const CallArgs& args, const TorchState& now, PyRef* result,
                Miss* miss, Rehearsal* rehearsal = nullptr);

  // What a call binds: the arguments' parts, and the program's state as it is.
  struct BoundCall {
    BoundInputs inputs;
    std::vector<PyObject*> states;
    std::vector<PyRef> gradients;  // Those among the states.
    std::vector<double> numbers;   // Varying ones.
  };
  // True if all guards hold; the part of Serve() before it draws.
  bool Matches(const CallArgs& args, const TorchState& now, BoundCall* bound,
               Miss* miss);
  const Draws& draws() const { return draws_; }

  // As InputGuards::misplaced_type(), of the last miss.
  PyTypeObject* misplaced_type() const { return inputs_.misplaced_type(); }

  int64_t hits = 0;
  const Graph& graph() const { return *graph_; }
  // The later backward pass of its results; null if there is none.
  const BackwardPass* backward() const { return backward_.get(); }
  const TorchState& torch_state() const { return torch_state_; }
  // The tensors of the program's state, in the order of its variables; null
  // for a gradient that isn't there now.
  std::vector<PyRef> states() const;
  // For Python's garbage collector.
  int Traverse(visitproc visit, void* arg) const;
  // One readable expression each.
  std::vector<std::string> GuardsToText() const;
  // What each of them is about: "argument", "state", "number" (one that may
  // vary), "gradient", "memory" or "torch".
  std::vector<std::string> GuardKinds() const;
  // The sizes of arguments that a user expects to vary, by path and dim.
  const std::vector<std::pair<std::string, int>>& dynamic() const {
    return dynamic_;
  }
  const InputGuards& inputs() const { return inputs_; }
  std::vector<std::string> EffectsToText() const;
  int64_t num_state_facts() const { return guards_.num_facts(); }

 private:
  friend class RecordDescriber;
  Record() = default;
  // Capture(), or Watch() if `rehearsal` is given.
  static std::unique_ptr<Record> Run(PyObject* callable, const CallArgs& args,
                                     const CaptureOptions& options,
                                     PyRef* result, Refusal* refusal,
                                     Attempt* attempt, Rehearsal* rehearsal);
  // The part of Serve() between Matches() and the run: draws, and compares what
  // is known by then. Undone unless it gives kMade.
  Draws::Outcome MakeDraws(BoundCall* bound, Draws::Made* made,
                           Miss* miss) const;
  // As Matches(); `args` have what the slots hold.
  bool MatchesAll(const CallArgs& args, const TorchState& now, BoundCall* bound,
                  Miss* miss);
  // Turns what was observed into the rest of the Record; false if it can't.
  bool Finish(Observation& run, PyObject* result, const CaptureOptions& options,
              Refusal* refusal, Attempt* attempt);
  // Settles what the run changed in Python's state; `left` gets the objects
  // that it left there. False if that can't be done again.
  bool FindEffects(Observation& run, std::vector<PyObject*>* left,
                   Refusal* refusal, Attempt* attempt);
  // As that, for what the run changed in its arguments.
  bool FindArgumentChanges(Observation& run, std::vector<PyObject*>* left,
                           Refusal* refusal);

  using GuardText = std::pair<const char*, std::string>;
  std::vector<GuardText> Guards() const;

  std::vector<std::pair<std::string, int>> dynamic_;
  TorchState torch_state_;
  InputGuards inputs_;
  StateGuards guards_;
  MemoryGuards memory_;
  Slots slots_;
  ResultTree result_;
  Effects effects_;
  ArgumentChanges argument_changes_;
  // Of the tape, in order. A gradient is found at its leaf at each run.
  struct State {
    PyRef tensor;
    int leaf = -1;  // In `gradients_`.
  };
  // Fills the states of `bound`, whose inputs are known.
  void BindStates(BoundCall* bound) const;
  // Settles which numbers vary; false if one can't.
  bool FindNumbers(Observation& run, Refusal* refusal, Attempt* attempt);
  // Settles the draws, of which `exact` are no inputs; false if a number that
  // won't come again has to.
  bool FindDraws(const Observation& run,
                 absl::Span<const HostInputs::Source> exact, Refusal* refusal);
  bool FindGradients(Observation& run, std::vector<PyObject*>* tensors,
                     std::vector<PyRef>* pins, Refusal* refusal);

  // The backward pass that may follow a run, while the Record is made.
  struct LaterPass {
    std::vector<int> live;  // The results that autograd tracks,
    struct View {           // or tracks as a view of another tensor:
      int result = -1;
      PyRef base;            // Of the program's arguments and state, or
      int root = -1;         // this live result.
      uint8_t creation = 0;  // As ViewRelation has it.
    };
    std::vector<View> views;
    BackwardTrace trace;
    std::vector<PyObject*> externals;  // As TraceBackward() has them.
    std::vector<PyObject*> gradients;  // Each once.
  };
  // Goes back from those of the results that autograd tracks, for who asks for
  // their gradients later. Tensors that results are views of become results
  // too. False if that can't be done again.
  bool TraceLater(Observation& run, const CaptureOptions& options,
                  std::vector<PyObject*>* results, LaterPass* later,
                  Refusal* refusal);
  // Which of the results autograd tracks, and how.
  bool FindTracked(Observation& run, std::vector<PyObject*>* results,
                   LaterPass* later) const;
  // The views among the results, as later runs make them; none if the tape
  // doesn't have them so, or has the memory of a live result elsewhere too.
  std::optional<std::vector<BackwardPass::View>> PlaceViews(
      const Tape& tape, const LaterPass& later, const BoundCall& bound,
      const std::vector<TensorMeta>& kinds) const;
  // Makes that pass a graph of its own. `tape` and `kinds`, of its results, are
  // left with the first part, and what the pass wants of that. False if it
  // can't be.
  bool AddBackward(Observation& run, LaterPass later, const BoundCall& bound,
                   const CaptureOptions& options, Tape* tape,
                   std::vector<TensorMeta>* kinds, Refusal* refusal);

  absl::Status CompileOutside(PyObject* make_runner, const BoundCall& bound);

  HostInputs host_inputs_;
  Draws draws_;
  HostOutcomes outcomes_;
  std::vector<State> states_;
  Gradients gradients_;
  std::unique_ptr<Graph> graph_;
  std::shared_ptr<BackwardPass> backward_;  // Null: results need none.
  PyRef callable_;
  BoundCall bound_;  // Kept for its memory.
};

// True while this thread runs a callable under Record::Capture().
bool IsCapturing();

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_RECORD_H_
