#include "python/capture/watch/draw_watch.h"

#include <initializer_list>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "python/capture/values/constants.h"
#include "python/capture/values/numbers.h"
#include "python/interpreter/interpreter.h"
#include "python/torch_side/tensors/tensor_access.h"

namespace mica {
namespace {

// How many of the first arguments of a method say what is drawn, not how many.
int NumParameters(absl::string_view method) {
  static const auto& counts =
      *new absl::flat_hash_map<absl::string_view, int>{// Python's.
                                                       {"betavariate", 2},
                                                       {"expovariate", 1},
                                                       {"gammavariate", 2},
                                                       {"gauss", 2},
                                                       {"lognormvariate", 2},
                                                       {"normalvariate", 2},
                                                       {"paretovariate", 1},
                                                       {"randrange", 3},
                                                       {"triangular", 3},
                                                       {"vonmisesvariate", 2},
                                                       {"weibullvariate", 2},
                                                       // Numpy's, and both.
                                                       {"beta", 2},
                                                       {"binomial", 2},
                                                       {"choice", 1},
                                                       {"exponential", 1},
                                                       {"gamma", 2},
                                                       {"integers", 2},
                                                       {"laplace", 2},
                                                       {"logistic", 2},
                                                       {"lognormal", 2},
                                                       {"normal", 2},
                                                       {"poisson", 1},
                                                       {"randint", 2},
                                                       {"uniform", 2}};
  const auto it = counts.find(method);
  return it == counts.end() ? 0 : it->second;
}

// Whether argument `at` of `count`, besides the generator, is one of those.
bool IsParameter(const Draw& draw, size_t at, size_t count) {
  const absl::string_view name = draw.note.path;
  const int num_parameters = NumParameters(name.substr(name.rfind('.') + 1));
  PyObject* names = draw.keyword_names.get();
  const auto num_named =
      static_cast<size_t>(names == nullptr ? 0 : PyTuple_GET_SIZE(names));
  if (num_parameters == 0 || at < count - num_named) {
    return at < static_cast<size_t>(num_parameters);
  }
  const std::string keyword = PyText(
      PyTuple_GET_ITEM(names, static_cast<Py_ssize_t>(at + num_named - count)));
  return absl::c_linear_search(
      std::initializer_list<absl::string_view>{
          "a", "alpha", "b", "beta", "high", "kappa", "lam", "lambd", "loc",
          "low", "mean", "mu", "n", "p", "scale", "shape", "sigma"},
      keyword);
}

constexpr char kDrawMend[] =
    "draw with torch, or from a random.Random(seed) made in the program";

bool MayShareMemory(PyObject* a, PyObject* b) {
  static PyObject* ask = ResolveName("numpy.may_share_memory").release();
  const PyRef answer =
      PyRef::Steal(PyObject_CallFunctionObjArgs(ask, a, b, nullptr));
  PyErr_Clear();
  return answer.get() != Py_False;
}

}  // namespace

void DrawWatch::DrawNumber(PyObject* callable, absl::Span<PyObject* const> args,
                           PyObject* keyword_names) {
  PyObject* generator = args.empty() ? nullptr : args[0];
  const std::string name = CallableName(callable);
  const auto refuse = [&] {
    Refuse(absl::StrCat("calls ", name,
                        ", which draws random numbers that torch doesn't "
                        "know, or seeds them"),
           kDrawMend);
  };
  const bool is_known = generator != nullptr && IsKnownGenerator(generator);
  // What a class of the user's draws by isn't known.
  if (generator == nullptr || (PyFunction_Check(callable) && !is_known)) {
    return refuse();
  }
  const absl::string_view word =
      absl::string_view(name).substr(name.rfind('.') + 1);
  if (!IsOld(generator) && !IsInput(generator)) {
    // One that the run made and seeded draws the same numbers each time.
    const bool has_seed = args.size() > 1 && args[1] != Py_None;
    if (word == "seed" && !has_seed) return refuse();
    for (PyObject* arg : args.subspan(1)) objects_.Touch(arg, kDeep);
    return;
  }
  if (!is_known || IsInput(generator) || !follows_draws_ ||
      IsOtherGeneratorMethod(word)) {
    return refuse();
  }
  Add(Draw::Kind::kGenerator, callable, args, keyword_names);
}

void DrawWatch::Ask(CallKind kind, PyObject* callable,
                    absl::Span<PyObject* const> args, PyObject* keyword_names) {
  if (!follows_draws_) {
    return Refuse(absl::StrCat("asks ", CallableName(callable),
                               ", whose answers no record repeats"),
                  "call it outside the compiled function");
  }
  if (kind == CallKind::kClock && recorder_.NumCalls() > 0) {
    // A hit asks before it computes: the time that it takes would be missing.
    return Refuse(absl::StrCat("reads a clock, ", CallableName(callable),
                               ", after operators have run"),
                  "read it outside the compiled function");
  }
  Add(kind == CallKind::kClock ? Draw::Kind::kClock : Draw::Kind::kAsk,
      callable, args, keyword_names);
}

PyRef DrawWatch::ArgumentOf(Draw::Kind kind, PyObject* argument) {
  if (IsConstant(argument)) {
    values_.MarkExactDeep(argument);
    return PyRef::Share(argument);
  }
  // What is outside of the program doesn't hang on what the program changes.
  const bool is_outside = kind == Draw::Kind::kAsk && IsOld(argument) &&
                          !IsInput(argument) && !IsTensor(argument);
  if (is_outside) return PyRef::Share(argument);
  PyRef copy;
  if (PyList_CheckExact(argument)) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(argument); ++i) {
      if (!IsConstant(PyList_GET_ITEM(argument, i))) return PyRef();
    }
    copy = PyRef::Steal(PySequence_List(argument));
  } else if (IsArray(argument)) {
    passed_arrays_.push_back(PyRef::Share(argument));
    copy = PyRef::Steal(PyObject_CallMethod(argument, "copy", nullptr));
  } else {
    return PyRef();
  }
  // It is what guards and constants make of it now; others may change it.
  objects_.Touch(argument, kDeep);
  values_.MarkExactDeep(argument);
  if (!copy) PyErr_Clear();
  return copy;
}

bool DrawWatch::AddArguments(absl::Span<PyObject* const> args, Draw* draw) {
  // The generator comes first where the method isn't bound to it.
  const bool is_method =
      draw->generator && !args.empty() && args[0] == draw->generator.get();
  for (size_t i = 0; i < args.size(); ++i) {
    PyObject* arg = args[i];
    if (is_method && i == 0) {
      draw->args.push_back(draw->generator);
      continue;
    }
    const size_t at = i - static_cast<size_t>(is_method);
    const size_t count = args.size() - static_cast<size_t>(is_method);
    if (draw->generator && IsParameter(*draw, at, count) &&
        AddNumber(arg, draw)) {
      continue;
    }
    PyRef again = ArgumentOf(draw->kind, arg);
    if (!again && !refusal()) {
      Refuse(absl::StrCat("passes ", draw->note.path, " a ",
                          TypeName(Py_TYPE(arg)),
                          ", which can't be had again at each hit"),
             "pass constants");
    }
    if (refusal()) return false;
    draw->args.push_back(std::move(again));
  }
  return true;
}

void DrawWatch::Add(Draw::Kind kind, PyObject* callable,
                    absl::Span<PyObject* const> args, PyObject* keyword_names) {
  const std::string name = CallableName(callable);
  if (is_in_later_pass()) return Refuse(absl::StrCat("calls ", name));
  if (host_calls_.has_told()) {
    // Which a hit makes at its end; it may draw, too.
    return Refuse(
        absl::StrCat("calls ", name, " after a call into the world outside"),
        "draw before it");
  }
  Draw draw{.kind = kind,
            .callable = PyRef::Share(callable),
            .keyword_names = PyRef::Share(keyword_names),
            .note = NoteOf(name),
            .places = SitesBelow(caller())};
  passed_arrays_.clear();
  const absl::Span<PyObject* const> own = OwnArguments(callable, args);
  if (kind == Draw::Kind::kGenerator) draw.generator = PyRef::Share(args[0]);
  if (!AddArguments(own, &draw)) return;
  draws_.push_back(std::move(draw));
  is_drawing_ = true;
  recorder_.Mute(/*begins=*/true);
}

PyRef DrawWatch::Look(PyObject* callable, std::vector<PyRef> args,
                      PyRef recorded, std::string path) {
  if (host_calls_.has_told() || !follows_draws_ ||
      !IsConstant(recorded.get())) {
    Refuse(absl::StrCat(
        "reads the ", path, ", which it adds to",
        host_calls_.has_told() ? ", after a call into the world outside" : ""));
    return PyRef();
  }
  return AddLook({.kind = Draw::Kind::kLook,
                  .callable = PyRef::Share(callable),
                  .args = std::move(args),
                  .note = NoteOf(std::move(path))},
                 std::move(recorded));
}

PyRef DrawWatch::LookUp(PyObject* callable, PyObject* table, PyObject* index,
                        PyRef recorded, std::string path) {
  if (host_calls_.has_told() || !follows_draws_ || is_in_later_pass()) {
    return PyRef();
  }
  Draw draw{.kind = Draw::Kind::kTable,
            .callable = PyRef::Share(callable),
            .args = {PyRef::Share(table)},
            .note = NoteOf(std::move(path))};
  if (!AddNumber(index, &draw)) return PyRef();
  return AddLook(std::move(draw), std::move(recorded));
}

bool DrawWatch::AddNumber(PyObject* arg, Draw* draw) const {
  const HostValues::Id id = values_.Find(arg);
  if (!follows_numbers_ || id < 0 || !NumberOf(arg) || !values_.IsDynamic(id) ||
      !values_.NeedsNoRun(id)) {
    return false;
  }
  draw->numbers.push_back(
      {.arg = draw->args.size(), .id = id, .is_int = values_.is_int(id)});
  draw->args.push_back(PyRef::Share(arg));
  return true;
}

PyRef DrawWatch::AddLook(Draw draw, PyRef recorded) {
  draw.recorded = std::move(recorded);
  draw.places = SitesBelow(caller());
  if (follows_numbers_ && ScalarOf(draw.recorded.get()).has_value()) {
    PyRef own = NewNumber(draw.recorded.get());
    if (!own) PyErr_Clear();
    if (own) {
      draw.recorded = std::move(own);
      draw.is_exact = false;  // Unless Record::FindNumbers() says so.
      values_.AddDraw(draw.recorded.get(), static_cast<int>(draws_.size()),
                      draw.note);
    }
  }
  draws_.push_back(std::move(draw));
  return draws_.back().recorded;
}

void DrawWatch::RefuseDraw(const Draw& draw, std::string reason,
                           std::string mend) {
  if (refusal()) return;
  Refuse(std::move(reason), std::move(mend));
  refusal().at = draw.note.at;
  refusal().places = {draw.places};
}

void DrawWatch::RefuseArray(const Draw& draw) {
  RefuseDraw(
      draw,
      absl::StrCat("uses a numpy.ndarray that ", draw.note.path, " gives"),
      "hand it on to torch as it is, or draw with torch");
}

bool DrawWatch::AddArray(PyObject* array) {
  recorder_.Mute(/*begins=*/true);
  PyRef tensor = TensorOfArray(array);
  recorder_.Mute(/*begins=*/false);
  if (!tensor || UnsupportedTensor(tensor.get()).has_value()) return false;
  Draw& draw = draws_.back();
  draw.array = TensorMeta::Of(tensor.get());
  ages_.PinYoung(array);
  values_.AddArray(array, tensor.get());
  values_.drawn().Add(array, tensor.get(), static_cast<int>(draws_.size()) - 1,
                      num_arrays_++);
  draw.tensor = std::move(tensor);
  return true;
}

void DrawWatch::EndStep(PyObject** top) {
  if (!std::exchange(is_drawing_, false)) return;
  recorder_.Mute(/*begins=*/false);
  Draw& draw = draws_.back();
  PyObject* result = top == nullptr ? nullptr : *top;
  if (refusal()) return;
  const std::vector<PyRef> passed = std::exchange(passed_arrays_, {});
  if (result == nullptr) {
    return RefuseDraw(draw, absl::StrCat(draw.note.path, " raised"), "");
  }
  if (draw.kind == Draw::Kind::kGenerator && IsArray(result)) {
    // It may be one that was passed, written, or show its memory.
    const bool is_own = absl::c_none_of(passed, [&](const PyRef& one) {
      return MayShareMemory(one.get(), result);
    });
    if (!is_own || !AddArray(result)) RefuseArray(draw);
    return;
  }
  if (draw.kind != Draw::Kind::kGenerator && !readings_.empty()) {
    Py_SETREF(*top, PyRef(readings_[0]).release());
    readings_.remove_prefix(1);
    result = *top;
  }
  if (!IsConstant(result)) {
    return RefuseDraw(draw,
                      absl::StrCat("uses a ", TypeName(Py_TYPE(result)),
                                   " that ", draw.note.path, " gives"),
                      draw.kind == Draw::Kind::kGenerator
                          ? kDrawMend
                          : "have it give a number");
  }
  draw.recorded = PyRef::Share(result);
  if (!follows_numbers_ || !draw.is_number()) return;
  PyRef own = NewNumber(result);
  if (!own) return PyErr_Clear();
  draw.recorded = own;
  draw.is_exact = false;  // Unless Record::FindNumbers() says so.
  values_.AddDraw(own.get(), static_cast<int>(draws_.size()) - 1, draw.note);
  Py_SETREF(*top, own.release());
}

}  // namespace mica
