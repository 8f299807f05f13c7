// A callable that isn't one graph, served as several.

#ifndef MICA_PYTHON_CAPTURE_SERVE_SPLITS_H_
#define MICA_PYTHON_CAPTURE_SERVE_SPLITS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"
#include "python/capture/serve/compiled.h"
#include "python/capture/values/refusal.h"
#include "python/interpreter/frame_hook.h"
#include "python/interpreter/py_ref.h"

namespace mica {

// What the runs of one call did.
struct SplitEvents {
  int64_t graphs = 0;  // Runs of pieces as graphs.
  int64_t steps = 0;   // That ran plainly.
  int64_t eager = 0;   // Pieces that did.
  // Why a piece wasn't served, under a stance that forbids that.
  std::string unserved;
  PyRef check_error;  // The first that the stance "check" found.
};

// One function split into pieces, and how its runs go.
//
// The pieces between graph breaks are Compiled: watched, then served. What
// breaks the graph, an instruction each, runs plainly. Where a run goes on
// depends on where the last piece ended. A piece that is refused is split at
// what was refused, and its parts are watched anew. A run under way goes on
// with the pieces that it began with.
class SplitFunction {
 public:
  // The code objects of pieces.
  using Codes = absl::flat_hash_set<PyObject*>;
  // Learns from a piece's refusal, whose code has these origins; false if
  // there was nothing new.
  using Learn =
      std::function<bool(const Refusal& refusal, SplitFunction* from,
                         PyObject* code, const std::vector<int32_t>& origins)>;

  // `codes` outlives it.
  SplitFunction(PyRef function, CompiledOptions options, Codes* codes);
  ~SplitFunction();
  SplitFunction(const SplitFunction&) = delete;
  SplitFunction& operator=(const SplitFunction&) = delete;

  // Why the code can't be taken apart; empty if it can.
  std::string WhyWhole() const;
  // Breaks the graph at an instruction; `why` is for the user. False if
  // that is so already or can't be.
  bool AddBreak(int32_t unit, const std::string& why);

  // Runs it with these variables, arguments bound. A new reference, or null
  // with a Python error set.
  PyObject* Run(absl::Span<PyObject* const> variables, const Learn& learn,
                SplitEvents* events);

  // True if the pieces are made of this very function.
  bool Fits(PyFunctionObject* function) const;
  bool has_breaks() const { return !reasons_.empty(); }

  // Appends what explain() shows.
  bool Report(PyObject* pieces, PyObject* breaks) const;
  int Traverse(visitproc visit, void* arg) const;

 private:
  struct Exit {
    int depth = 0;
    std::vector<int> values;
    std::vector<int> nulls;
    std::vector<int> unread;
  };
  struct Piece {
    PyRef function;
    int64_t entry = 0;
    PyRef holder;                  // The Compiled as a Python object.
    Compiled* compiled = nullptr;  // Null for what runs plainly.
    std::string left_eager;        // Why, if it is.
    bool has_no_ops = false;
    int strikes = 0;
    int num_idle = 0;
    std::vector<int> params;
    std::map<int64_t, Exit> exits;
    std::vector<int32_t> origins;
    // Variables that it gives another value, and the instructions that do.
    std::vector<std::pair<int, int32_t>> lets_go;
  };
  using State = std::vector<PyRef>;

  std::shared_ptr<Piece> FindPiece(int64_t entry, const State& state);
  std::shared_ptr<Piece> MakePiece(int64_t entry, const State& state,
                                   bool is_plain) const;
  // Adds a graph break where the piece lets go of values that only `state` has
  // and that are told of when they die: until a piece ends its caller has them,
  // too. True if a break is new.
  bool BreakWhereValuesDie(const Piece& piece, const State& state);
  PyObject* RunPiece(Piece& piece, const State& state, const Learn& learn,
                     SplitEvents* events);
  void NoteRefusal(Piece& piece, const Learn& learn);
  // Puts what an exit tells into `state`.
  void Leave(const Exit& exit, PyObject* told, State* state) const;
  std::string Where(int64_t entry) const;

  PyRef function_;
  CompiledOptions options_;
  Codes& codes_;
  size_t num_variables_ = 0;
  std::map<int32_t, std::string> reasons_;  // By graph break.
  std::set<int32_t> unsplittable_;
  PyRef steps_;  // A frozenset of units: the breaks, and what follows of them.
  std::set<int64_t> step_units_;
  // By where they begin and which slots have a value.
  std::map<std::pair<int64_t, std::vector<bool>>, std::shared_ptr<Piece>>
      pieces_;
  std::vector<std::shared_ptr<Piece>> made_;  // Codes stay taken.
};

// All functions that are split for one callable.
//
// Calls of the callable run as they are, but for those functions, and for
// modules' forward(), which become graphs of their own. Needs the GIL.
class Splits {
 public:
  explicit Splits(CompiledOptions options);

  // Breaks the graph where the run was that was refused.
  void LearnFrom(const Refusal& refusal);
  PyObject* Call(PyObject* callable, const CallArgs& args);

  // Of the last call.
  const SplitEvents& events() const { return events_; }
  // What the stance "check" found in it, once.
  PyRef TakeCheckError() { return std::exchange(events_.check_error, {}); }

  // New lists of dicts, into `report`.
  bool Report(PyObject* report) const;
  int Traverse(visitproc visit, void* arg) const;

 private:
  using Key = std::pair<PyObject*, PyObject*>;  // Code and module.
  // What is known of a module's method, as long as the module lives, or of
  // another function.
  struct Known {
    PyRef code;    // Its address stays taken.
    PyRef module;  // A weak reference, or null.
    PyRef last;    // The function that came last, if it has a closure: weak.
    std::map<int32_t, std::string> breaks;  // Wanted.
    bool is_made = false;
    std::shared_ptr<SplitFunction> function;  // Null if it can't be split,
    std::string why_whole;                    // and why.
  };
  // The entry of a key, a new one in the place of that of a module which is
  // gone.
  Known& KnownOf(PyObject* code, PyObject* module);
  // Drops what is known of modules that are gone.
  void DropGone();
  bool Evaluate(const NewFrame& frame, SplitEvents* events, PyRef* result);
  std::shared_ptr<SplitFunction> FindFunction(const NewFrame& frame);
  // True for a function whose closure holds nothing but functions, classes and
  // constants, for the callable itself, a module's method, and what came
  // before. A function made anew at each call isn't split: it would only be
  // kept alive, with what its cells hold.
  bool IsLasting(Known& known, const NewFrame& frame) const;
  // True if a graph break is new.
  bool LearnSite(const FrameSite& site, const std::string& why);
  bool LearnFromPiece(const Refusal& refusal, SplitFunction* from,
                      PyObject* code, const std::vector<int32_t>& origins);

  CompiledOptions options_;
  SplitFunction::Codes codes_;
  std::map<Key, Known> known_;
  std::vector<std::weak_ptr<SplitFunction>> order_;
  SplitEvents events_;
  PyObject* callable_ = nullptr;  // Of the call under way.
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_SERVE_SPLITS_H_
