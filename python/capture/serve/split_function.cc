// Functions split into pieces: how these are made, and how a run goes.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "python/capture/record/record.h"
#include "python/capture/serve/splits.h"
#include "python/capture/values/unread.h"
#include "python/interpreter/interpreter.h"

namespace mica {
namespace {

constexpr size_t kMaxBreaks = 16;  // Of one function.
// Refusals of a piece that told nothing new, after which it runs plainly.
constexpr int kMaxStrikes = 3;
// Runs in a row without an operator after which a piece runs plainly.
constexpr int kMaxIdleRuns = 4;

// What mica.pieces.split has.
struct Splitter {
  PyRef steps;
  PyRef build;
  PyRef unbound;
};

const Splitter* FindSplitter() {
  static Splitter* splitter = nullptr;
  if (splitter != nullptr) return splitter;
  PyRef module = PyRef::Steal(PyImport_ImportModule("mica.pieces.split"));
  if (!module) return nullptr;
  const auto get = [&](const char* name) {
    return PyRef::Steal(PyObject_GetAttrString(module.get(), name));
  };
  Splitter found{get("steps"), get("build"), get("UNBOUND")};
  if (!found.steps || !found.build || !found.unbound) return nullptr;
  splitter = new Splitter(std::move(found));
  return splitter;
}

// The steps of a function whose graph breaks at `units`. Null, at times with a
// Python error set, if it can't be split there.
PyRef StepsOf(PyObject* function, PyObject* units) {
  const Splitter* splitter = FindSplitter();
  if (splitter == nullptr || units == nullptr) return PyRef();
  return PyRef::Steal(PyObject_CallFunctionObjArgs(
      splitter->steps.get(), PyFunction_GET_CODE(function), units, nullptr));
}

PyRef Units(const std::set<int32_t>& units) {
  PyRef list = PyRef::Steal(PyList_New(0));
  for (const int32_t unit : units) {
    PyRef number = PyRef::Steal(PyLong_FromLong(unit));
    if (!list || !number || PyList_Append(list.get(), number.get()) != 0) {
      return PyRef();
    }
  }
  return list;
}

// The numbers of a tuple.
template <typename T>
std::vector<T> Numbers(PyObject* tuple) {
  std::vector<T> numbers;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    numbers.push_back(
        static_cast<T>(PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, i))));
  }
  return numbers;
}

// A CheckError says what eager did (mica/checking). Goes on with that: what it
// returned, or null with what it raised; the error is for the call's end.
PyRef TakeCheckError(SplitEvents* events) {
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  PyObject* attributes = value == nullptr ? nullptr : InstanceDict(value);
  PyObject* returned = attributes == nullptr
                           ? nullptr
                           : PyDict_GetItemString(attributes, "_mica_returned");
  PyObject* raised = attributes == nullptr
                         ? nullptr
                         : PyDict_GetItemString(attributes, "_mica_raised");
  PyRef result = PyRef::Share(returned);
  const PyRef error = PyRef::Share(raised);
  if (!result && !error) {
    PyErr_Restore(type, value, traceback);
    return PyRef();
  }
  if (!events->check_error) events->check_error = PyRef::Share(value);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
  if (error) {
    PyObject* own = PyException_GetTraceback(error.get());
    PyErr_Restore(
        PyRef::Share(reinterpret_cast<PyObject*>(Py_TYPE(error.get())))
            .release(),
        PyRef::Share(error.get()).release(), own);
  }
  return result;
}

}  // namespace

SplitFunction::SplitFunction(PyRef function, CompiledOptions options,
                             Codes* codes)
    : function_(std::move(function)),
      options_(std::move(options)),
      codes_(*codes),
      num_variables_(NumOwnVariables(reinterpret_cast<PyCodeObject*>(
          PyFunction_GET_CODE(function_.get())))),
      steps_(PyRef::Steal(PyFrozenSet_New(nullptr))) {}

SplitFunction::~SplitFunction() {
  for (const auto& piece : made_)
    codes_.erase(PyFunction_GET_CODE(piece->function.get()));
}

std::string SplitFunction::WhyWhole() const {
  const PyErrorKeeper keeper;
  if (StepsOf(function_.get(), steps_.get())) return "";
  const PyRef error = TakePyError();
  if (!error) return "its pieces can't be made";
  const PyRef text = PyRef::Steal(PyObject_Str(error.get()));
  if (!text) PyErr_Clear();
  return PyText(text.get());
}

bool SplitFunction::AddBreak(int32_t unit, const std::string& why) {
  if (reasons_.contains(unit) || unsplittable_.contains(unit) ||
      reasons_.size() >= kMaxBreaks) {
    return false;
  }
  const PyErrorKeeper keeper;
  std::set<int32_t> breaks = {unit};
  for (const auto& [at, reason] : reasons_) breaks.insert(at);
  const PyRef units = Units(breaks);
  PyRef steps = StepsOf(function_.get(), units.get());
  PyRef items = PyRef::Steal(steps ? PySequence_Tuple(steps.get()) : nullptr);
  if (!items) {
    PyErr_Clear();
    unsplittable_.insert(unit);
    return false;
  }
  reasons_[unit] = why;
  steps_ = std::move(steps);
  std::set<int32_t> added;
  for (const int64_t step : Numbers<int64_t>(items.get())) {
    if (step_units_.insert(step).second) {
      added.insert(static_cast<int32_t>(step));
    }
  }
  // Pieces that a new step is in the middle of.
  for (auto it = pieces_.begin(); it != pieces_.end();) {
    const std::vector<int32_t>& origins = it->second->origins;
    const bool is_split =
        std::any_of(origins.begin(), origins.end(),
                    [&](int32_t origin) { return added.contains(origin); });
    it = is_split ? pieces_.erase(it) : std::next(it);
  }
  return !added.empty();
}

bool SplitFunction::Fits(PyFunctionObject* function) const {
  auto* own = reinterpret_cast<PyFunctionObject*>(function_.get());
  if (function == own) return true;
  if (function->func_code != own->func_code ||
      function->func_globals != own->func_globals ||
      function->func_builtins != own->func_builtins) {
    return false;
  }
  PyObject *a = function->func_closure, *b = own->func_closure;
  if (a == b) return true;
  if (a == nullptr || b == nullptr) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(a); ++i) {
    if (PyTuple_GET_ITEM(a, i) != PyTuple_GET_ITEM(b, i)) return false;
  }
  return true;
}

std::shared_ptr<SplitFunction::Piece> SplitFunction::MakePiece(
    int64_t entry, const State& state, bool is_plain) const {
  const Splitter* splitter = FindSplitter();
  if (splitter == nullptr) return nullptr;
  std::set<int32_t> bound;
  for (size_t i = 0; i < state.size(); ++i) {
    if (state[i]) bound.insert(static_cast<int32_t>(i));
  }
  PyRef slots = Units(bound);
  PyRef start = PyRef::Steal(PyLong_FromLongLong(entry));
  if (!slots || !start) return nullptr;
  PyRef made = PyRef::Steal(PyObject_CallFunctionObjArgs(
      splitter->build.get(), function_.get(), start.get(), steps_.get(),
      slots.get(), is_plain ? Py_True : Py_False, nullptr));
  if (!made) return nullptr;
  const auto item = [](PyObject* tuple, int i) {
    return PyTuple_GET_ITEM(tuple, i);
  };
  auto piece = std::make_shared<Piece>();
  piece->function = PyRef::Share(item(made.get(), 0));
  piece->entry = entry;
  piece->params = Numbers<int>(item(made.get(), 1));
  piece->origins = Numbers<int32_t>(item(made.get(), 3));
  PyObject* lets_go = item(made.get(), 4);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(lets_go); ++i) {
    const auto pair = Numbers<int32_t>(PyTuple_GET_ITEM(lets_go, i));
    piece->lets_go.emplace_back(pair[0], pair[1]);
  }
  Py_ssize_t position = 0;
  PyObject *key = nullptr, *value = nullptr;
  while (PyDict_Next(item(made.get(), 2), &position, &key, &value)) {
    piece->exits[PyLong_AsLongLong(key)] = {
        .depth = static_cast<int>(PyLong_AsLong(item(value, 0))),
        .values = Numbers<int>(item(value, 1)),
        .nulls = Numbers<int>(item(value, 2)),
        .unread = Numbers<int>(item(value, 3))};
  }
  if (!is_plain) {
    piece->holder = MakeCompiled(piece->function, PyRef(), options_);
    if (!piece->holder) return nullptr;
    piece->compiled = CompiledOf(piece->holder.get());
  }
  return piece;
}

std::shared_ptr<SplitFunction::Piece> SplitFunction::FindPiece(
    int64_t entry, const State& state) {
  std::vector<bool> bound(state.size());
  for (size_t i = 0; i < state.size(); ++i) bound[i] = bool{state[i]};
  const std::pair key{entry, std::move(bound)};
  if (const auto it = pieces_.find(key); it != pieces_.end()) {
    return it->second;
  }
  const bool is_plain = entry < 0 || step_units_.contains(entry);
  std::shared_ptr<Piece> piece = MakePiece(entry, state, is_plain);
  if (piece == nullptr && entry >= 0) {
    // What can't be split any more goes on to its end.
    PyErr_Clear();
    piece = MakePiece(-1 - entry, state, /*is_plain=*/true);
  }
  if (piece == nullptr) return nullptr;
  codes_.insert(PyFunction_GET_CODE(piece->function.get()));
  made_.push_back(piece);
  pieces_[key] = piece;
  return piece;
}

bool SplitFunction::BreakWhereValuesDie(const Piece& piece,
                                        const State& state) {
  if (piece.entry < 0) return false;  // It goes on to the end.
  bool is_new = false;
  for (const auto& [slot, unit] : piece.lets_go) {
    PyObject* value = state[slot].get();
    if (Py_REFCNT(value) != 1 || MayDieEarly(value)) continue;
    is_new |=
        AddBreak(unit, absl::StrCat("lets go of a ", TypeName(Py_TYPE(value)),
                                    ", which is told of as it dies"));
  }
  return is_new;
}

PyObject* SplitFunction::Run(absl::Span<PyObject* const> variables,
                             const Learn& learn, SplitEvents* events) {
  State state;
  for (PyObject* variable : variables) state.push_back(PyRef::Share(variable));
  int64_t entry = 0;
  while (true) {
    const std::shared_ptr<Piece> piece = FindPiece(entry, state);
    if (piece == nullptr) return nullptr;
    if (BreakWhereValuesDie(*piece, state)) continue;
    PyRef told = PyRef::Steal(RunPiece(*piece, state, learn, events));
    if (!told) return nullptr;
    PyObject* key = PyTuple_GET_ITEM(told.get(), 0);
    if (key == Py_None) {
      return PyRef::Share(PyTuple_GET_ITEM(told.get(), 1)).release();
    }
    entry = PyLong_AsLongLong(key);
    Leave(piece->exits.at(entry), told.get(), &state);
  }
}

void SplitFunction::Leave(const Exit& exit, PyObject* told,
                          State* state) const {
  const PyObject* unbound = FindSplitter()->unbound.get();
  state->resize(num_variables_ + exit.depth);
  PyObject* unread = PyTuple_GET_ITEM(told, 1);
  for (size_t i = 0; i < exit.unread.size(); ++i) {
    PyObject* value = PyTuple_GET_ITEM(unread, static_cast<Py_ssize_t>(i));
    // Where the piece gave it none, it has the value that it had.
    if (value != unbound) (*state)[exit.unread[i]] = PyRef::Share(value);
  }
  for (size_t i = 0; i < exit.values.size(); ++i) {
    PyObject* value = PyTuple_GET_ITEM(told, static_cast<Py_ssize_t>(i) + 2);
    (*state)[exit.values[i]] = value == unbound ? PyRef() : PyRef::Share(value);
  }
  for (const int slot : exit.nulls) (*state)[slot] = PyRef();
}

PyObject* SplitFunction::RunPiece(Piece& piece, const State& state,
                                  const Learn& learn, SplitEvents* events) {
  std::vector<PyObject*> args;
  args.reserve(piece.params.size());
  for (const int slot : piece.params) args.push_back(state[slot].get());
  const bool is_plain = piece.compiled == nullptr || piece.has_no_ops ||
                        !piece.left_eager.empty();
  if (is_plain) {
    if (piece.compiled == nullptr) {
      ++events->steps;
    } else if (!piece.left_eager.empty()) {
      ++events->eager;
    }
    return PyObject_Vectorcall(piece.function.get(), args.data(), args.size(),
                               nullptr);
  }
  Compiled& compiled = *piece.compiled;
  const int64_t num_eager = compiled.num_eager_calls();
  const int64_t num_refusals = compiled.num_refusals();
  // As a Python object: the stance may have it checked.
  PyRef told = PyRef::Steal(PyObject_Vectorcall(piece.holder.get(), args.data(),
                                                args.size(), nullptr));
  std::string unserved = compiled.TakeUnserved();
  if (events->unserved.empty()) events->unserved = std::move(unserved);
  if (!told) told = TakeCheckError(events);
  if (!told) return nullptr;
  if (compiled.num_eager_calls() == num_eager) {
    if (compiled.LastNumOps() > 0) {
      ++events->graphs;
      piece.num_idle = 0;
    } else if (++piece.num_idle >= kMaxIdleRuns) {
      piece.has_no_ops = true;  // Not worth a record.
    }
  } else {
    ++events->eager;
    if (compiled.num_refusals() != num_refusals) NoteRefusal(piece, learn);
  }
  return told.release();
}

void SplitFunction::NoteRefusal(Piece& piece, const Learn& learn) {
  const Refusal refusal = piece.compiled->TakeLastRefusal();
  // What changes state may do so once only.
  if (refusal.transient && piece.strikes == 0) {
    ++piece.strikes;
    return;
  }
  if (learn(refusal, this, PyFunction_GET_CODE(piece.function.get()),
            piece.origins)) {
    return;
  }
  piece.strikes += refusal.transient ? 1 : kMaxStrikes;
  if (piece.strikes >= kMaxStrikes) piece.left_eager = refusal.ToString();
}

int SplitFunction::Traverse(visitproc visit, void* arg) const {
  Py_VISIT(function_.get());
  for (const auto& piece : made_) {
    Py_VISIT(piece->function.get());
    Py_VISIT(piece->holder.get());
  }
  return 0;
}

}  // namespace mica
