// Calls into the world outside.

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "python/capture/known/purity.h"
#include "python/capture/values/constants.h"
#include "python/capture/watch/module_dicts.h"
#include "python/capture/watch/state_watch.h"
#include "python/interpreter/frame_hook.h"

namespace mica {

void StateWatch::AddHostCall(PyObject* callable,
                             absl::Span<PyObject* const> args,
                             PyObject* keyword_names, std::string title,
                             Sink sink) {
  if (later_ != nullptr) {
    return Refuse(absl::StrCat("calls ", title, ", into the world outside"));
  }
  Mute();
  HostCall call{.callable = PyRef::Share(callable),
                .keyword_names = PyRef::Share(keyword_names),
                .note = NoteOf(title),
                .sink = std::move(sink)};
  call.is_last = user_call_.has_value() || !call.sink.RunsNoUserCode();
  for (PyObject* arg : args) {
    if (IsTensor(arg)) {
      AddTensorArgument(arg, &call);
    } else if (values_.Find(arg) >= 0 ||
               (IsConstant(arg) && call.sink.kind == Sink::Kind::kUnknown)) {
      // Of a constant, the user may ask which object it is.
      if (values_.Find(arg) < 0) values_.MarkExactDeep(arg);
      AddHostArgument(PyRef::Share(arg), PyRef(), -1, &call);
    } else {
      values_.MarkExactDeep(arg);
      call.args.push_back(PyRef::Share(arg));
    }
  }
  // Whoever is told keeps the objects that eager would have passed.
  std::vector<PyRef> plain;
  bool has_own = false;
  for (PyObject* arg : args) {
    plain.push_back(values_.PlainOf(arg));
    has_own |= plain.back().get() != arg;
  }
  if (has_own && !in_place_of_call_) {
    in_place_of_call_ = FixedCall(callable, plain, keyword_names);
  }
  const bool begins_last = call.is_last && !user_call_.has_value();
  host_calls_.push_back(std::move(call));
  makes_host_call_ = true;
  if (on_host_call_) on_host_call_(/*begins=*/true);
  if (host_calls_.back().is_last) LendNumbers();
  if (begins_last) BeginLastCalls(std::move(title));
}

void StateWatch::LendNumbers() {
  std::vector<StatePlace> places(values_.places().begin(),
                                 values_.places().end());
  places.insert(places.end(), written_.begin(), written_.end());
  for (const Increment& counter : counters_) places.push_back(counter.place);
  if (slots_ != nullptr) {
    places.insert(places.end(), slots_->places().begin(),
                  slots_->places().end());
  }
  for (StatePlace& place : places) {
    PyRef number = PyRef::Share(place.Find());
    PyRef plain = number ? values_.PlainOf(number.get()) : PyRef();
    if (plain.get() == number.get()) continue;
    if (!place.Set(plain.get())) PyErr_Clear();
    lent_.push_back({std::move(place), std::move(number), std::move(plain)});
  }
}

// But for those that the code has set.
void StateWatch::TakeNumbersBack() {
  const PyErrorKeeper keeper;
  for (const Lent& lent : lent_) {
    if (lent.place.Find() != lent.plain.get()) continue;
    if (!lent.place.Set(lent.number.get())) PyErr_Clear();
  }
  lent_.clear();
}

void StateWatch::HandOver(absl::Span<PyObject*> args) {
  if (!makes_host_call_ || !host_calls_.back().is_last) return;
  for (PyObject*& arg : args) {
    if (arg != nullptr) Py_SETREF(arg, values_.PlainOf(arg).release());
  }
}

void StateWatch::AddHostArgument(PyRef argument, PyRef shown, int64_t version,
                                 HostCall* call) {
  call->args.push_back(PyRef());
  call->shown.push_back(std::move(shown));
  if (!call->is_last) ++num_first_arguments_;
  host_arguments_.push_back(std::move(argument));
  argument_versions_.push_back(version);
  argument_calls_.push_back(num_calls_ ? num_calls_() : 0);
}

void StateWatch::AddTensorArgument(PyObject* tensor, HostCall* call) {
  if (call->is_last) {
    return AddHostArgument(PyRef::Share(tensor), PyRef(), VersionOf(tensor),
                           call);
  }
  // Of what it holds now: the recorder sees these as the program's own.
  PyRef copy = PyRef::Steal(PyObject_CallMethod(tensor, "detach", nullptr));
  if (copy) {
    copy = PyRef::Steal(PyObject_CallMethod(copy.get(), "clone", nullptr));
  }
  if (!copy) {
    PyErr_Clear();
    Refuse("tells the world outside of a tensor that can't be copied");
    copy = PyRef::Share(tensor);
  }
  AddHostArgument(std::move(copy), ShownAs(tensor), -1, call);
}

void StateWatch::Mute() {
  if (!muted_.has_value() || host_calls_.size() > muted_->num_made) return;
  const bool raises = host_calls_.size() == muted_->num_made;
  if (raises && !muted_->error) return;  // It is made.
  in_place_of_call_ = MutedCall(raises ? muted_->error.get() : nullptr);
}

std::string StateWatch::ChangedArgument() const {
  for (size_t i = 0; i < host_arguments_.size(); ++i) {
    PyObject* object = host_arguments_[i].get();
    if (argument_versions_[i] >= 0 &&
        VersionOf(object) != argument_versions_[i]) {
      return PathOf(object);
    }
  }
  return "";
}

bool StateWatch::CheckShown() {
  for (const ShownContainer& shown : shown_containers_) {
    PyObject* container = shown.container.get();
    const bool is_changed =
        changed_containers_.contains(container) ||
        written_dicts_.contains(container) ||
        absl::c_any_of(counters_, [&](const Increment& counter) {
          return counter.place.holder.get() == container;
        });
    if (!is_changed && !(shown.may_not_be_read && guards_.HasItems(container)))
      continue;
    Refuse(absl::StrCat("changes or reads ", PathOf(container),
                        ", which a call into the world outside shows or "
                        "changes"),
           "pass text or a copy");
    refusal_.places = {shown.places};
    return false;
  }
  return true;
}

bool StateWatch::MayShow(PyObject* object) {
  if (!IsOld(object) || IsInput(object)) return false;
  const std::vector<PyRef> containers = PlainContainers(object);
  for (const PyRef& container : containers) {
    shown_containers_.push_back(
        {.container = container, .places = SitesBelow(caller_)});
  }
  return !containers.empty();
}

// From the first user code on, a hit makes the calls when the run is over: what
// is passed has to be by then what it was when the program called.
void StateWatch::CallHost(PyObject* callable, absl::Span<PyObject* const> args,
                          PyObject* keyword_names, Sink sink) {
  const PyRef values = PyRef::Steal(PyList_New(0));
  // Whether text is made of what is passed.
  const auto shows = [&] {
    return sink.kind != Sink::Kind::kUnknown && sink.kind != Sink::Kind::kInC;
  };
  for (size_t i = 0; i < args.size(); ++i) {
    PyObject* arg = args[i];
    if (IsConstant(arg)) {
      if (values_.Find(arg) < 0 && shows() && !IsPlainConstant(arg)) {
        sink = Sink();
      }
      continue;
    }
    if (IsTensor(arg) && IsPlainTensor(arg)) {
      TouchPassed(arg);
      continue;
    }
    if (IsOld(arg) && !IsInput(arg)) {
      if (!shows() || arg == sink.target.get()) continue;
      if (!MayShow(arg)) {
        sink = Sink();
      } else if (!values || PyList_Append(values.get(), arg) != 0) {
        return PyErr_Clear();
      }
      continue;
    }
    return Refuse(absl::StrCat("passes ", CallableName(callable), " a ",
                               TypeName(Py_TYPE(arg)),
                               ", which can't be had again at each hit"),
                  "pass constants, numbers and tensors");
  }
  if (sink.kind != Sink::Kind::kUnknown) {
    sink.values = PyRef::Steal(PyList_AsTuple(values.get()));
  }
  AddHostCall(callable, OwnArguments(callable, args), keyword_names,
              CallableName(callable), std::move(sink));
}

void StateWatch::TouchPassed(PyObject* tensor) {
  // It is handed on, not read.
  auto user_call = std::exchange(user_call_, std::nullopt);
  Touch(tensor);
  user_call_ = std::move(user_call);
}

// Where it prints to is looked up at each hit, as at each call.
void StateWatch::Print(PyObject* print, absl::Span<PyObject* const> args,
                       PyObject* keyword_names) {
  static PyObject* stdout_name = PyUnicode_InternFromString("stdout");
  PyObject* sys = DictOfModule("sys");
  if (sys == nullptr || IsWritten(sys, stdout_name)) return RefuseCall(print);
  const Py_ssize_t num_keywords =
      keyword_names == nullptr ? 0 : PyTuple_GET_SIZE(keyword_names);
  const size_t num_positional = args.size() - static_cast<size_t>(num_keywords);
  Sink sink{.kind = Sink::Kind::kPrint};
  for (size_t i = num_positional; i < args.size(); ++i) {
    const auto keyword = static_cast<Py_ssize_t>(i - num_positional);
    if (PyText(PyTuple_GET_ITEM(keyword_names, keyword)) != "file") continue;
    if (!IsConstant(args[i])) sink.target = PyRef::Share(args[i]);
    if (IsConstant(args[i]) || IsOld(args[i])) continue;
    return Refuse(
        absl::StrCat("prints to a ", TypeName(Py_TYPE(args[i])), " of its own"),
        "print it outside the compiled function");
  }
  for (PyObject* arg : args) {
    const bool is_shown = IsConstant(arg) ||
                          (IsTensor(arg) && IsPlainTensor(arg)) ||
                          arg == sink.target.get() ||
                          (IsOld(arg) && !PlainContainers(arg).empty());
    if (is_shown) continue;
    return Refuse(absl::StrCat("prints a ", TypeName(Py_TYPE(arg))),
                  "print it outside the compiled function");
  }
  CallHost(print, args, keyword_names, std::move(sink));
}

Sink StateWatch::SinkInC(PyObject* callable, absl::Span<PyObject* const> args) {
  if (!PyCFunction_Check(callable) &&
      Py_TYPE(callable) != &PyMethodDescr_Type) {
    return Sink();
  }
  for (PyObject* arg : args) {
    if (IsTensor(arg) || IsContainer(arg)) return Sink();
  }
  return {.kind = Sink::Kind::kInC};
}

}  // namespace mica
