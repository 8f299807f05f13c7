// The callable that mica.compile() gives.

#ifndef MICA_PYTHON_CAPTURE_SERVE_COMPILED_H_
#define MICA_PYTHON_CAPTURE_SERVE_COMPILED_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "python/capture/record/record.h"
#include "python/capture/record/symbols.h"
#include "python/capture/serve/notices.h"
#include "python/capture/serve/payoff.h"
#include "python/capture/values/places.h"
#include "python/interpreter/py_ref.h"

namespace mica {

struct CompiledOptions {
  CaptureOptions capture;
  bool fullgraph = false;  // Raise `error` instead of running eagerly.
  bool disabled = false;   // Always run eagerly.
  int max_records = 16;
  // Seconds that captures may take beyond what they gain.
  double capture_budget = 0.2;
  // What to tell on stderr.
  bool log_guards = false;
  bool log_recompiles = false;
  bool log_graph = false;
};

class Splits;

constexpr char kMendVarying[] =
    "pass what varies as a tensor, or outside the compiled function";

// A callable with its records, tried most recently hit first. A call that no
// record fits runs the callable once, for real, and makes a record of that.
//
// Raises what the callable raises. What can't be captured whole is split into
// pieces that can, around what runs eagerly, with the reason kept; what can't
// be split runs eagerly, and after a few such runs isn't tried any more. Where
// records or pieces don't pay (Payoff), calls run eagerly for a while. Called
// from inside another capture it is transparent. Needs the GIL; threads may
// call it at one time.
class Compiled {
 public:
  Compiled(PyRef callable, PyRef error, CompiledOptions options)
      : callable_(std::move(callable)),
        error_(std::move(error)),
        options_(std::move(options)),
        payoff_(options_.capture_budget) {}

  // A new reference, or null with a Python error set.
  PyObject* Call(const CallArgs& args);
  // Runs what is inside, as if it weren't compiled.
  PyObject* CallEagerly(const CallArgs& args);

  // For the stance "check" (mica/checking). What a hit may touch of the
  // program's state: a list of DescribeTouched() of the records that may serve
  // it, which what is drawn or computed decides.
  PyObject* Touched(const CallArgs& args) const;
  // Serves the call, but for its calls into the world outside: (result, those
  // calls); None if no record serves it.
  PyObject* Rehearse(const CallArgs& args);
  // Runs what is inside, watched, and makes no record: (result, its calls into
  // the world outside), or (result, why they aren't known).
  PyObject* Watch(const CallArgs& args);

  // True if the most recent record fits the call, which isn't made.
  bool Matches(const CallArgs& args) const;
  // What DescribeRecord() gives of the record that fits the call, which isn't
  // made; None if none does.
  PyObject* Describe(const CallArgs& args) const;
  // The text of the Program with symbols of the record that fits the call, or
  // null with NotImplementedError set (record/symbols.h).
  PyObject* Symbolic(absl::Span<const NamedSize> open,
                     absl::Span<const int> results, int num_numbers,
                     const CallArgs& args) const;
  // A list of what DescribeRecord() gives of each record, in order.
  PyObject* Describe() const;
  // Forgets all records, refusals and statistics.
  void Reset();
  PyObject* callable() const { return callable_.get(); }

  // For whoever split it off.
  int64_t num_eager_calls() const { return eager_calls_; }
  int64_t num_refusals() const { return num_refusals_; }
  // Of a piece: the last refusal. Its places, which keep modules alive, are
  // told once.
  Refusal TakeLastRefusal() {
    Refusal refusal = last_refusal_;
    last_refusal_.places.clear();
    return refusal;
  }
  // Of a piece: why its last run wasn't served, under a stance that forbids
  // that; empty if it was, and when it is told.
  std::string TakeUnserved() { return std::exchange(unserved_, {}); }
  // Of the record that served or was made last; 0 if there is none.
  int64_t LastNumOps() const;
  // Calls that a record has served.
  int64_t hits() const { return hits_; }
  // For Python's garbage collector.
  int Traverse(visitproc visit, void* arg) const;
  void DropCallable() { callable_ = PyRef(); }
  // What explain() shows: a new dict of lists, numbers and texts.
  PyObject* Report() const;

 private:
  struct Counted {
    std::string text;
    std::string mend;
    int64_t count = 0;
  };

  // The first record that fits the call; or null.
  std::shared_ptr<Record> Fitting(const CallArgs& args) const;
  // Whether the call is to be run eagerly, since serving it doesn't pay or to
  // know whether it does.
  bool IsResting();
  // When a call began, or 0, and Invested::total_ns() then.
  struct Start {
    int64_t ns = 0;
    int64_t invested_ns = 0;
  };
  static Start StartNow(bool is_timed) {
    return {.ns = is_timed ? HitTimes::Now() : 0,
            .invested_ns = Invested::total_ns()};
  }
  // True if a record serves the call, or fails at it. Else what the first one
  // misses, and InputGuards::misplaced_type().
  bool CallServed(const CallArgs& args, const Start& start, Miss* miss,
                  PyTypeObject** misplaced, PyObject** result);
  // CallEagerly(), with its time in the account.
  PyObject* CallUncaptured(const CallArgs& args);
  void NoteServed(const Start& start);
  // Of a call, and others like it: its time, if that is taken, and what it
  // invested.
  void NoteTime(const Start& start, int64_t num_calls);
  // Why calls run eagerly, for now or for good; empty if they don't.
  std::string WhyEager() const;
  // `why`, and of which misses.
  std::string BecauseOfMisses(absl::string_view why) const;
  // Call() where no record serves it; `miss` is null if there is none.
  PyObject* CallUnserved(const CallArgs& args, const Miss* miss);
  PyObject* CallInPieces(const CallArgs& args);
  // Nothing is recorded any more.
  void GiveUp(const std::string& why, const Refusal& refusal);
  // After a run of a record failed, before it had any effect: runs eagerly, and
  // warns the user if that doesn't fail.
  PyObject* CallAfterFailure(const CallArgs& args, const Miss& miss);
  // After a call that no record served: warns the user if that is how it goes
  // on. The result passes through.
  PyObject* Told(PyObject* result);
  void AddNotices();
  std::string MendOfMiss() const;
  void AddNotice(Notices::Kind kind, absl::string_view what,
                 const Refusal& why);
  // After a refusal: decides whether to go on in pieces.
  void ConsiderPieces(const Refusal& refusal);
  // Has the next run follow what made the last record miss, and read what was
  // seen to be carried.
  void Promote(const CallArgs& args);
  PyObject* CaptureCall(const CallArgs& args, const Miss* miss);
  // Puts the record first.
  void NoteHit(const std::shared_ptr<Record>& record);
  // After the hit at which it was found.
  void LogInaccuracy(const Record& record) const;
  // After the hit at which they should have been: warns the user.
  void NoteNotOffloaded(const Record& record);
  // `misplaced`: as InputGuards::misplaced_type().
  void NoteMiss(PyTypeObject* misplaced, const Miss& miss);
  // `is_hopeful`: the next run is watched in another way.
  void NoteRefusal(const Refusal& refusal, bool is_hopeful = false);
  // Takes classes of arguments apart from now on, where `places` are attributes
  // of the arguments themselves; and those of arguments that the last
  // run changed the items of. True if that is new of one of them.
  bool TakeApart(const CallArgs& args, absl::Span<const StatePlace> places);
  // Takes plain arguments of these classes apart no more.
  void KeepWhole(const absl::flat_hash_set<PyTypeObject*>& types);
  // True if one of them is new.
  bool AddSlots(absl::Span<const StatePlace> places);
  // Counts records that were dropped; `why` is for the user.
  void NoteDrops(const std::string& why, int64_t count);
  // Drops the records that were hit least recently, beyond the bound. Those
  // that differ in sizes alone that are expected to vary count as one, up to
  // kMaxSizes. True if the first record is such a further size.
  bool KeepBound();
  void AddRecord(std::shared_ptr<Record> record);
  // Records that would serve the call if its arguments had other sizes.
  std::vector<std::shared_ptr<Record>> FindButForSizes(
      const CallArgs& args) const;
  // Has the first record, of a run at the same state as these, hold for more
  // sizes than its own, if what they did follows from their sizes.
  void VarySizes(absl::Span<const std::shared_ptr<Record>> alike);
  // Records that fit a call but for the values that it reads on its way.
  std::vector<std::shared_ptr<Record>> FindButForWays(
      const CallArgs& args) const;
  // Makes the newest record one with one of these, if that can be.
  void JoinWays(absl::Span<const std::shared_ptr<Record>> forked);
  // Sizes vary: a record of several ways holds for its own sizes alone, and one
  // of one way may come to hold for any.
  void KeepWaysApart();
  // Drops records whose state is known to be gone. Of the most recent one, says
  // in `miss` what is. The class that InputGuards::misplaced_type() has of one
  // of them, or null.
  PyTypeObject* DropGone(const CallArgs& args, Miss* miss);
  // Drops, and forgets, what serves no call any more since what it is about is
  // gone, or since nobody else has it. Looks at all objects. True if there were
  // slots among that.
  bool DropUnused();
  void DropRecords(absl::FunctionRef<bool(Record&, std::string*)> is_gone,
                   Miss* miss);
  // The references that this and its records have.
  ReferenceCounts CountOwn() const;
  // Tells the user why a call is captured.
  void LogMiss(const Miss& miss) const;
  // A call is captured for this: NoteOutcome() or NoteDataSize(), if it is
  // that.
  void NoteOutcomeOf(const Miss& miss);
  // A call is captured since what was drawn came out otherwise than in the
  // record. Where that goes on, what is drawn ends the graph from now on.
  void NoteOutcome();
  // The same of sizes that data decide.
  void NoteDataSize(bool is_of_result);
  // The same of an item of a list or deque that is read at each call. Where
  // that goes on, such a container is guarded by its contents again.
  void NoteItem(absl::string_view path);
  // Whether so many captures for one cause may be, and go on.
  bool AreWorthIt(int64_t captures, int64_t most, int64_t hits_of_each) const;
  void DropRecordsThat(absl::FunctionRef<bool(const Record&)> is_one);
  std::string title() const;
  static void Log(const std::string& text);  // To stderr.
  PyObject* RaiseRefusal(const std::string& text) const;
  std::string WhyUnserved(const Miss* miss) const;
  PyObject* RaiseUnserved(const std::string& why) const;

  PyRef callable_;
  PyRef error_;
  CompiledOptions options_;
  std::vector<std::shared_ptr<Record>> records_;
  // Sizes that are expected to vary, by an argument's path and dim: those that
  // are marked, and those that were found to, where each is a record.
  absl::flat_hash_set<std::pair<std::string, int>> dynamic_;
  bool has_marks_ = false;
  // Records, for the bound or as what they are about is gone.
  int64_t dropped_ = 0;
  std::map<std::string, Counted> misses_;
  std::map<std::string, int64_t> misses_by_kind_;
  std::map<std::string, Counted> refusals_;
  std::map<std::string, Counted> drops_;
  // Why nothing is recorded any more; empty while it is.
  std::string given_up_;
  Refusal ending_;  // The refusal behind it, without its places.
  Notices notices_;
  Miss last_miss_;
  std::string why_fixed_;  // Why the last record's sizes don't vary.
  int64_t hits_ = 0;
  int64_t eager_calls_ = 0;
  int64_t captures_ = 0;
  int refusals_in_a_row_ = 0;
  int64_t num_refusals_ = 0;
  Refusal last_refusal_;
  std::shared_ptr<Splits> splits_;  // Once it isn't one graph.
  // Whether a call that no record fits goes by pieces; else it is watched.
  bool goes_by_pieces_ = false;
  int64_t split_calls_ = 0;
  std::string unserved_;
  std::vector<PyRef> readings_;  // Of the last Rehearse(), for Watch().
  int num_retries_ = 0;       // Of the whole, after pieces that met no break.
  int idle_split_calls_ = 0;  // In a row, without a graph.
  int64_t num_over_ = 0;      // Of HeldObjects, when records were last dropped.
  int captures_without_hit_ = 0;
  Payoff payoff_;
  bool joins_ways_ = true;
  int64_t hits_in_account_ = 0;
  bool was_served_ = false;   // The last call.
  bool wants_eager_ = false;  // The next one, to know what that takes.
  int64_t captures_by_draws_ = 0;
  int64_t captures_by_data_sizes_ = 0;
  absl::flat_hash_map<std::string, int64_t> captures_by_items_;  // By sequence.
  Attempt attempt_;  // The last refused run.
};

// The Python type around it, "mica._mica.Compiled"; made once. A new
// reference, or null with a Python error set.
PyObject* MakeCompiledType();
// Its subtypes, made once. Borrowed; null with a Python error set.
PyTypeObject* CompiledFunctionType();  // Passes attributes on.
PyTypeObject* CompiledModuleType();    // Of a torch.nn.Module.
// Of a new class that derives from CompiledModule and a class of modules: a
// call of its instances is C's. False for another class.
bool FinishModuleClass(PyObject* made);
// A new instance of (callable, arguments of mica.compile, error, frozen, folder
// to offload weights to or "", precision or "", fullgraph, exact,
// checks_accuracy, disabled, num_threads, num_streams, queue, max_records,
// vary_sizes, logs, make_runner). Null with a Python error set.
PyObject* MakeCompiledFromPython(PyObject* args);
// A new instance that no user sees. Null with a Python error set.
PyRef MakeCompiled(PyRef callable, PyRef error, CompiledOptions options);
// What an instance holds; lives as long as that.
Compiled* CompiledOf(PyObject* instance);

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_SERVE_COMPILED_H_
