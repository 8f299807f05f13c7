// A Program with the guards under which it is valid.

#ifndef MICA_PYTHON_CAPTURE_RECORD_RECORD_H_
#define MICA_PYTHON_CAPTURE_RECORD_RECORD_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "python/capture/effects/argument_changes.h"
#include "python/capture/effects/draws.h"
#include "python/capture/effects/effects.h"
#include "python/capture/effects/result_tree.h"
#include "python/capture/graph/graph.h"
#include "python/capture/guards/gradients.h"
#include "python/capture/guards/host_inputs.h"
#include "python/capture/guards/host_outcomes.h"
#include "python/capture/guards/input_guards.h"
#include "python/capture/guards/memory_guards.h"
#include "python/capture/guards/state_guards.h"
#include "python/capture/record/hit_times.h"
#include "python/capture/record/record_sizes.h"
#include "python/capture/record/record_ways.h"
#include "python/capture/values/guard_note.h"
#include "python/capture/values/places.h"
#include "python/capture/values/refusal.h"
#include "python/interpreter/py_ref.h"
#include "python/torch_side/autograd/backward_pass.h"
#include "python/torch_side/autograd/result_views.h"
#include "python/torch_side/recorder/operator_kernels.h"
#include "python/torch_side/tensors/tensor_access.h"
#include "python/torch_side/tensors/torch_state.h"

namespace mica {

struct Observation;

// How many references to an object somebody has.
using ReferenceCounts = absl::flat_hash_map<PyObject*, Py_ssize_t>;

struct CaptureOptions {
  GraphOptions graph;
  // What has another compiler run the graphs (mica/backends); may be null.
  PyRef make_runner;
  // How users went back from the callable's results.
  std::shared_ptr<BackwardUse> backward_use = std::make_shared<BackwardUse>();
  // Numbers to treat as inputs.
  PromotedScalars promoted;
  // Places to read as arguments are.
  Slots slots;
  // Whether numbers read from tensors are followed, so that they may differ
  // at each run; else each has to be the recorded one.
  bool follow_numbers = true;
  // Whether what the program draws or asks the world outside for is drawn again
  // at each hit; else such a call is refused.
  bool follow_draws = true;
  // Whether sizes that data decide are part of a record, which holds for one;
  // else what gives such a result is refused.
  bool keep_data_sizes = true;
  // Whether sizes that the program reads are followed.
  bool follow_sizes = false;
  // Whether a record may come to hold for other sizes.
  bool vary_sizes = true;
  // Whether a refused run is watched to its end, for what else is refused.
  bool looks_on = false;
  // Whether the callable is a piece of a function, and tells what such do.
  bool is_piece = false;
  // Instances to take apart when they are arguments.
  ApartTypes apart;
};

// What is left of a run that can't be recorded.
struct Attempt {
  StateGuards guards;  // What it depended on.
  // What it read and then set: a run that reads these as arguments may do.
  std::vector<StatePlace> slots;
  // Containers of Python's classes whose items it read and then changed.
  std::vector<PyRef> changed;
  // Whether it added to a list of an argument what is no instance, as who keeps
  // results does: the next call finds a longer one.
  bool adds_results = false;
  // Numbers that it followed and that had to be the recorded ones all the same;
  // of a run that is recorded, too.
  std::vector<NumberSource> exact;
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
  // StateGuards::FindPromoted().
  void FindPromoted(PromotedScalars* promoted,
                    std::vector<StatePlace>* slots) const;
  // Has FindPromoted() find the numbers of these arguments that differ, though
  // sizes of tensors do, too.
  void CompareNumbers(const CallArgs& args) const;
  // As Effects::FindSlots().
  void FindSlots(std::vector<StatePlace>* slots) const;

  enum class Outcome {
    kHit,        // `result` is the call's.
    kMiss,       // A guard failed; nothing happened.
    kDiscarded,  // As kMiss, found by a run: what data decide came out
                 // otherwise.
    kFailed,     // The run failed before it had any effect.
    kRaised,     // As kFailed, but for calls into the world outside: Replay().
  };
  // A call into the world outside that raised at a hit.
  struct RaisedCall {
    size_t num_made = 0;  // Those before it, which didn't.
    PyRef error;          // Null if the program itself is to make it.
  };
  // With a `rehearsal`, its calls into the world outside aren't made.
  Outcome Serve(const CallArgs& args, const TorchState& now, PyRef* result,
                Miss* miss, RaisedCall* raised, Rehearsal* rehearsal = nullptr);
  // Runs `callable` after kRaised: for real, but for the calls into the world
  // outside that were made; the one that raised raises the same error, where
  // the program's own handlers find it. Null with the Python error set if the
  // run raises.
  static PyRef Replay(PyObject* callable, const CallArgs& args,
                      const CaptureOptions& options, const RaisedCall& raised);

  // What a call binds: the arguments' parts, and the program's state as it is.
  struct BoundCall {
    BoundInputs inputs;
    std::vector<PyObject*> states;
    std::vector<PyRef> found;     // States that were found for this call.
    std::vector<double> numbers;  // Varying ones.
    std::vector<double> sizes;    // Those that are taken for sizes.
    std::shared_ptr<SizedRun> run;
  };
  // Asks for the memory that Matches() and TorchState::Current() read, unless a
  // call was looked at a moment ago. For who comes to them next.
  void Prefetch();
  // True if all guards hold.
  bool Fits(const CallArgs& args, const TorchState& now);
  // The same; the part of Serve() before it draws.
  bool Matches(const CallArgs& args, const TorchState& now, BoundCall* bound,
               Miss* miss);
  const Draws& draws() const { return draws_; }

  // True if the call differs from the recorded one in nothing but the sizes of
  // its arguments and numbers that are taken for such, those of `promoted` too.
  bool FitsButForSizes(const CallArgs& args, const TorchState& now,
                       const PromotedScalars& promoted);
  // Has the sizes vary in which its run and those of `other`, at the same
  // state, differ. Fails if what they did doesn't follow from their sizes.
  absl::Status VarySizes(const Record& other);
  // True if all guards of this record hold, and it is known where its way
  // forks.
  bool FitsButForWays(const CallArgs& args, const TorchState& now) {
    return way_ != nullptr && sizes_ == nullptr && Fits(args, now);
  }
  // Has the ways of `other`, and of those that it was made one with, be ways of
  // this record, which was made for a call that those fit but for what they
  // read on the way. Fails if they can't be one.
  absl::Status JoinWays(const std::shared_ptr<Record>& other);
  // Parts with the others, which can serve by themselves again.
  std::vector<std::shared_ptr<Record>> LeaveWays() {
    ways_ = nullptr;
    return std::exchange(members_, {});
  }
  // Those others.
  absl::Span<const std::shared_ptr<Record>> members() const { return members_; }
  // Null if there is one way.
  const RecordWays* ways() const { return ways_.get(); }
  // Null if no sizes vary.
  const RecordSizes* sizes() const { return sizes_.get(); }
  // The paths of numbers that vary as sizes do.
  std::vector<std::string> NumbersOfSizes() const;
  // The watched runs that it was made of.
  int64_t num_watched() const { return num_watched_; }

  // As InputGuards::misplaced_type(), of the last miss.
  PyTypeObject* misplaced_type() const { return inputs_.misplaced_type(); }
  // The same of one that IsGone(), for these arguments.
  PyTypeObject* FindMisplaced(const CallArgs& args);

  // True if an object that it depends on is gone, so that it can't serve a call
  // any more; `path` tells which. Looks at all tensors.
  bool IsGone(std::string* path) const {
    return guards_.IsGone(path) ||
           (backward() != nullptr && backward()->IsGone(path)) ||
           absl::c_any_of(members_, [path](const auto& member) {
             return member->IsGone(path);
           });
  }
  // Notes which of the containers that it keeps alive somebody else has, too:
  // `own` has the references of whoever made it.
  void NoteShared(const ReferenceCounts& own);
  // True if nobody else has one of them any more; `path` tells which.
  bool IsOrphaned(const ReferenceCounts& own, std::string* path) const;

  int64_t hits = 0;
  HitTimes hit_times;
  // What the watched run took, with its watching.
  int64_t watched_ns = 0;
  // Of the sizes that were asked for last.
  const Graph& graph() const { return *run_->graph; }
  // Whether data decide sizes of tensors in it, or where such are cut.
  bool has_data_sizes() const {
    return graph().has_data_sizes() || !size_reads_.empty();
  }
  // Whether it missed on a number by which tensors are cut.
  bool IsForSize(const Miss& miss) const;
  // The later backward pass of its results; null if there is none.
  const BackwardPass* backward() const { return run_->backward.get(); }
  const TorchState& torch_state() const { return torch_state_; }
  // The tensors of the program's state, in the order of its variables; null
  // for a gradient that isn't there now, and for what isn't where it was.
  std::vector<PyRef> states() const;
  // For Python's garbage collector.
  int Traverse(visitproc visit, void* arg) const;
  // One readable expression each; and, if `kinds` isn't null, what each is
  // about: "argument", "state", "number" (one that may vary), "gradient",
  // "memory" or "torch".
  std::vector<std::string> GuardsToText(
      std::vector<std::string>* kinds = nullptr) const;
  // The sizes of arguments that a user expects to vary, by path and dim.
  const std::vector<std::pair<std::string, int>>& dynamic() const {
    return dynamic_;
  }
  const InputGuards& inputs() const { return inputs_; }
  const Slots& slots() const { return slots_; }
  std::vector<std::string> EffectsToText() const;
  int64_t num_state_facts() const { return guards_.num_facts(); }

 private:
  friend class LaterPass;
  friend class RecordDescriber;
  friend class RecordMaker;
  Record() = default;
  // Capture(), or Watch() if `rehearsal` is given.
  static std::unique_ptr<Record> Run(PyObject* callable, const CallArgs& args,
                                     const CaptureOptions& options,
                                     PyRef* result, Refusal* refusal,
                                     Attempt* attempt, Rehearsal* rehearsal,
                                     const RaisedCall* raised = nullptr);
  // Guards the arguments and what the slots hold. `values` gets what the run
  // gets in their place, and `alive` what has to live as long as it runs. Says
  // why not if that can't be; then nothing is to be put back.
  Refusal GuardArguments(const CallArgs& args, const CaptureOptions& options,
                         std::vector<PyObject*>* values,
                         std::vector<PyRef>* alive);
  // Tells `run` of the arguments and the options.
  void SetUp(const CaptureOptions& options, Observation& run) const;
  // The part of Serve() between Matches() and the run: draws, and compares what
  // is known by then. Undone unless it gives kMade.
  Draws::Outcome MakeDraws(BoundCall* bound, Draws::Made* made,
                           Miss* miss) const;
  // Adds what the slots hold, in `values`.
  CallArgs WithSlots(CallArgs args, std::vector<PyObject*>* values) const;
  // True if torch's state and the operators' kernels are as recorded.
  bool MatchesTorch(const TorchState& now, Miss* miss) const;
  // As Matches(); `args` have what the slots hold.
  bool MatchesAll(const CallArgs& args, const TorchState& now, BoundCall* bound,
                  Miss* miss, const PromotedScalars* any_sizes = nullptr);
  bool MatchesBackward(Miss* miss) const;
  // The numbers that its own run took for sizes as `other`, whose run took none
  // for such, had them.
  std::vector<double> GivenIn(const Record& other) const;
  // In `miss`, of sizes for which nothing can be made.
  void NoteNoRun(const BoundCall& bound, const absl::Status& why,
                 Miss* miss) const;
  // Whether the numbers that are taken for sizes are those of its own run.
  bool HasRecordedSizes(const BoundCall& bound, Miss* miss) const;
  // Finds the run for the arguments' sizes, or makes it.
  bool FindRun(BoundCall* bound, Miss* miss);
  // Makes and counts the calls outside that come before all writes, up to one
  // that raises. False with a Python error set.
  bool MakeFirstCalls(absl::Span<const PyRef> tensors,
                      absl::Span<const double> numbers,
                      const BoundInputs& inputs, size_t* made,
                      Rehearsal* rehearsal) const;

  // If first results aren't near to ATen's, its kernels run from now on.
  std::shared_ptr<Graph::Computed> CheckAccuracy(const BoundCall& bound);
  // Parts of Serve() after that: runs the graph,
  absl::Status RunGraph(const BoundCall& bound,
                        std::shared_ptr<Graph::Computed> done,
                        RaisedCall* raised, Rehearsal* rehearsal,
                        std::vector<PyRef>* tensors,
                        std::vector<double>* numbers) const;
  // says what came of one that failed,
  static Outcome Failed(const absl::Status& status, Miss* miss,
                        RaisedCall* raised);
  // makes of a run's results what autograd and views know of them (false with a
  // Python error set if there is no memory),
  bool MakeResults(const BoundCall& bound, absl::Span<const double> numbers,
                   std::vector<PyRef>* tensors, bool is_of_ways = false) const;
  // and leaves what the program would have. The result; null with a Python
  // error set.
  PyRef Leave(const BoundCall& bound, absl::Span<const PyRef> tensors,
              absl::Span<const double> numbers, Rehearsal* rehearsal) const;

  // Serve() of several ways, whose guards hold.
  Outcome ServeWays(const BoundCall& bound, PyRef* result, Miss* miss,
                    RaisedCall* raised);

  using GuardText = std::pair<const char*, std::string>;
  std::vector<GuardText> Guards() const;

  std::vector<std::pair<std::string, int>> dynamic_;
  TorchState torch_state_;
  int64_t loud_warnings_ = 0;
  OperatorKernels kernels_;
  InputGuards inputs_;
  StateGuards guards_;
  Slots slots_;
  ResultTree result_;
  ResultTree first_arguments_;  // Its numbers come after those of `result_`.
  Effects effects_;
  ArgumentChanges argument_changes_;
  // Of the tape, in order. A gradient is found at its leaf at each run, what
  // autocast keeps of a weight where that has it, and an array that the run
  // drew is drawn.
  struct State {
    PyObject* tensor = nullptr;
    int leaf = -1;   // In `gradients_`.
    int input = -1;  // If not -1, the weight is the argument's.
    int drawn = -1;  // An array that is drawn: Draws::Made::tensors.
    std::optional<TensorMeta> cast;
    bool is_found_anew() const { return leaf >= 0 || drawn >= 0 || cast; }
  };
  void AddState(State state);
  // Fills the states of `bound`, whose inputs are known; null if one is yet to
  // be drawn. False if autocast keeps another cast than the recorded one.
  bool BindStates(BoundCall* bound, Miss* miss) const;
  // Notes an object of the state that a run needs to its end; may be null.
  // `guards` are this record's, or are to be.
  void Keep(StateGuards& guards, PyObject* object);
  // Once the run's own objects are gone: lets objects of the user's die.
  void LetGo();

  HostInputs host_inputs_;
  HostInputs size_inputs_;  // Numbers that are taken for sizes.
  Draws draws_;
  HostOutcomes outcomes_;
  std::vector<std::string> size_reads_;  // Lines that read such numbers.
  // Of the state; a run holds them, as it gives up the GIL.
  std::vector<PyObject*> run_objects_;
  std::vector<PyObject*> shared_;  // By NoteShared().
  std::vector<State> states_;
  // What BindStates() needs of them: their tensors, null for those that are
  // found anew; and which these are.
  std::vector<PyObject*> lasting_states_;
  std::vector<size_t> found_anew_;
  Gradients gradients_;
  std::shared_ptr<SizedRun> run_ = std::make_shared<SizedRun>();
  SizeRecipe recipe_;                   // Till sizes vary.
  std::unique_ptr<RecordSizes> sizes_;  // Null: none varies.
  // Null if it isn't known where its run forked.
  std::shared_ptr<const RecordedWay> way_;
  std::shared_ptr<RecordWays> ways_;  // Null: one way.
  // Whose ways those are, in order; the last is its own.
  std::vector<std::shared_ptr<Record>> members_;
  int64_t num_watched_ = 1;
  ResultViews result_views_;
  PyRef callable_;
  BoundCall bound_;             // Kept for its memory.
  int64_t looked_at_ = 0;       // When a call was, by Prefetch().
  bool is_prefetched_ = false;  // For the next Matches().
};

// True while this thread runs a callable under Record::Capture().
bool IsCapturing();
void SetCapturing(bool is_on);

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_RECORD_RECORD_H_
