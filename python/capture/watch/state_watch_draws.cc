// Numbers that the program draws or asks the world outside for.

#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "python/capture/known/purity.h"
#include "python/capture/values/constants.h"
#include "python/capture/values/numbers.h"
#include "python/capture/watch/state_watch.h"

namespace mica {
namespace {

constexpr char kDrawMend[] =
    "draw with torch, or from a random.Random(seed) made in the program";

}  // namespace

void StateWatch::DrawNumber(PyObject* callable,
                            absl::Span<PyObject* const> args,
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
    for (PyObject* arg : args.subspan(1)) TouchObject(arg, kDeepDepth);
    return;
  }
  if (!is_known || IsInput(generator) || !follows_draws_ ||
      IsOtherGeneratorMethod(word)) {
    return refuse();
  }
  AddDraw(Draw::Kind::kGenerator, callable, args, keyword_names);
}

void StateWatch::Ask(CallKind kind, PyObject* callable,
                     absl::Span<PyObject* const> args,
                     PyObject* keyword_names) {
  if (!follows_draws_) {
    return Refuse(absl::StrCat("asks ", CallableName(callable),
                               ", whose answers no record repeats"),
                  "call it outside the compiled function");
  }
  if (kind == CallKind::kClock && num_calls_ && num_calls_() > 0) {
    // A hit asks before it computes: the time that it takes would be missing.
    return Refuse(absl::StrCat("reads a clock, ", CallableName(callable),
                               ", after operators have run"),
                  "read it outside the compiled function");
  }
  AddDraw(kind == CallKind::kClock ? Draw::Kind::kClock : Draw::Kind::kAsk,
          callable, args, keyword_names);
}

PyRef StateWatch::ArgumentOfDraw(Draw::Kind kind, PyObject* argument) {
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
    copy = PyRef::Steal(PyObject_CallMethod(argument, "copy", nullptr));
  } else {
    return PyRef();
  }
  // It is what guards and constants make of it now; others may change it.
  TouchObject(argument, kDeepDepth);
  values_.MarkExactDeep(argument);
  if (!copy) PyErr_Clear();
  return copy;
}

void StateWatch::AddDraw(Draw::Kind kind, PyObject* callable,
                         absl::Span<PyObject* const> args,
                         PyObject* keyword_names) {
  const std::string name = CallableName(callable);
  if (later_ != nullptr) return Refuse(absl::StrCat("calls ", name));
  const bool is_after_call =
      absl::c_any_of(host_calls_, [](const HostCall& call) {
        return call.sink.kind != Sink::Kind::kSilent &&
               call.sink.kind != Sink::Kind::kCache;
      });
  if (is_after_call) {
    // Which a hit makes at its end; it may draw, too.
    return Refuse(
        absl::StrCat("calls ", name, " after a call into the world outside"),
        "draw before it");
  }
  Draw draw{.kind = kind,
            .callable = PyRef::Share(callable),
            .keyword_names = PyRef::Share(keyword_names),
            .note = NoteOf(name),
            .places = SitesBelow(caller_)};
  const absl::Span<PyObject* const> own = OwnArguments(callable, args);
  if (kind == Draw::Kind::kGenerator) draw.generator = PyRef::Share(args[0]);
  for (PyObject* arg : own) {
    PyRef again = arg == draw.generator.get() ? draw.generator
                                              : ArgumentOfDraw(kind, arg);
    if (refusal_) return;
    if (!again) {
      return Refuse(absl::StrCat("passes ", name, " a ", TypeName(Py_TYPE(arg)),
                                 ", which can't be had again at each hit"),
                    "pass constants");
    }
    draw.args.push_back(std::move(again));
  }
  draws_.push_back(std::move(draw));
  is_drawing_ = true;
  if (on_host_call_) on_host_call_(/*begins=*/true);
}

void StateWatch::EndDraw(PyObject** top) {
  if (on_host_call_) on_host_call_(/*begins=*/false);
  Draw& draw = draws_.back();
  PyObject* result = top == nullptr ? nullptr : *top;
  if (refusal_) return;
  const auto refuse = [&](std::string reason, std::string mend) {
    Refuse(std::move(reason), std::move(mend));
    refusal_.at = draw.note.at;
    refusal_.places = {draw.places};
  };
  if (result == nullptr) {
    return refuse(absl::StrCat(draw.note.path, " raised"), "");
  }
  if (draw.kind != Draw::Kind::kGenerator && !readings_.empty()) {
    Py_SETREF(*top, PyRef(readings_[0]).release());
    readings_.remove_prefix(1);
    result = *top;
  }
  if (!IsConstant(result)) {
    return refuse(absl::StrCat("uses a ", TypeName(Py_TYPE(result)), " that ",
                               draw.note.path, " gives"),
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
