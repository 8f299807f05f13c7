#include "python/capture/watch/host_call_watch.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "python/capture/known/purity.h"
#include "python/capture/values/constants.h"
#include "python/capture/watch/object_kinds.h"
#include "python/interpreter/interpreter.h"
#include "python/torch_side/tensors/autograd_access.h"
#include "python/torch_side/tensors/tensor_access.h"

namespace mica {

void HostCallWatch::EndStep(PyObject* result) {
  if (!std::exchange(is_calling_, false)) return;
  TakeNumbersBack();
  CheckFound();
  recorder_.Mute(/*begins=*/false);
  if (step_.annotated != nullptr && result != Py_None && !step_.is_dropped) {
    Refuse("uses what a call into the world outside returns",
           "annotate only what returns None so");
  }
}

bool HostCallWatch::has_told() const {
  return absl::c_any_of(calls_, [](const HostCall& call) {
    return call.sink.kind != Sink::Kind::kSilent &&
           call.sink.kind != Sink::Kind::kCache;
  });
}

void HostCallWatch::AddCached(PyObject* wrapper,
                              absl::Span<PyObject* const> args,
                              PyObject* keyword_names,
                              const std::string& path) {
  HostCall& call =
      calls_.emplace_back(HostCall{.callable = PyRef::Share(wrapper),
                                   .args = {},
                                   .keyword_names = PyRef::Share(keyword_names),
                                   .note = NoteOf(path),
                                   .sink = {.kind = Sink::Kind::kCache},
                                   .is_last = last_calls_.has_begun()});
  // The cache keeps what eager would have passed.
  for (PyObject* arg : args) call.args.push_back(values_.PlainOf(arg));
  step_.in_place_of_call = FixedCall(wrapper, call.args, keyword_names);
}

void HostCallWatch::Add(PyObject* callable, absl::Span<PyObject* const> args,
                        PyObject* keyword_names, std::string title, Sink sink) {
  if (is_in_later_pass()) {
    return Refuse(absl::StrCat("calls ", title, ", into the world outside"));
  }
  Mute();
  HostCall call{.callable = PyRef::Share(callable),
                .keyword_names = PyRef::Share(keyword_names),
                .note = NoteOf(title),
                .sink = std::move(sink)};
  call.is_last = last_calls_.has_begun() || !call.sink.RunsNoUserCode();
  for (PyObject* arg : args) {
    if (IsTensor(arg)) {
      AddTensorArgument(arg, &call);
    } else if (values_.FindAny(arg) >= 0 ||
               (IsConstant(arg) && call.sink.kind == Sink::Kind::kUnknown)) {
      // Of a constant, the user may ask which object it is.
      if (values_.FindAny(arg) < 0) values_.MarkExactDeep(arg);
      AddArgument(PyRef::Share(arg), PyRef(), -1, &call);
    } else {
      values_.MarkExactDeep(arg);
      call.args.push_back(PyRef::Share(arg));
    }
  }
  PassPlain(callable, args, keyword_names);
  const bool begins_last = call.is_last && !last_calls_.has_begun();
  calls_.push_back(std::move(call));
  is_calling_ = true;
  recorder_.Mute(/*begins=*/true);
  if (calls_.back().is_last) {
    NoteFound();
    CheckBefore();
    LendNumbers();
  }
  if (begins_last) last_calls_.Begin(std::move(title));
}

void HostCallWatch::PassPlain(PyObject* callable,
                              absl::Span<PyObject* const> args,
                              PyObject* keyword_names) {
  std::vector<PyRef> plain;
  bool has_own = false;
  for (PyObject* arg : args) {
    plain.push_back(values_.PlainOf(arg));
    has_own |= plain.back().get() != arg;
  }
  if (has_own && !step_.in_place_of_call) {
    step_.in_place_of_call = FixedCall(callable, plain, keyword_names);
  }
}

void HostCallWatch::LendNumbers() {
  if (inputs_ != nullptr) lent_items_ = inputs_->LendOriginals();
  std::vector<StatePlace> places(values_.places().begin(),
                                 values_.places().end());
  const std::vector<StatePlace> others = written_.AllPlaces();
  places.insert(places.end(), others.begin(), others.end());
  for (StatePlace& place : places) {
    PyRef number = PyRef::Share(place.Find());
    PyRef plain = number ? values_.PlainOf(number.get()) : PyRef();
    if (plain.get() == number.get()) continue;
    if (!place.Set(plain.get())) PyErr_Clear();
    lent_.push_back({std::move(place), std::move(number), std::move(plain)});
  }
}

// But for those that the code has set.
void HostCallWatch::TakeNumbersBack() {
  const PyErrorKeeper keeper;
  for (const Lent& lent : lent_) {
    if (lent.place.Find() != lent.plain.get()) continue;
    if (!lent.place.Set(lent.number.get())) PyErr_Clear();
  }
  lent_.clear();
  InputGuards::TakeBack(std::exchange(lent_items_, {}));
}

void HostCallWatch::CheckBefore() {
  if (changed_before_) return;
  const PyErrorKeeper keeper;
  Rewritten rewritten;
  for (const StatePlace& place : written_.AllPlaces()) {
    rewritten.places.insert({place.holder.get(), place.key.get()});
  }
  for (const auto& [container, before] : containers_.changed()) {
    rewritten.containers.insert(container);
  }
  Miss miss;
  const std::string change = guards_.CheckBut(rewritten, &miss)
                                 ? (find_changed_ ? find_changed_() : "")
                                 : miss.ToString();
  if (change.empty()) return;
  changed_before_ = {
      .reason = absl::StrCat(
          "calls ", calls_.back().note.path,
          ", which takes back a change of state: ", miss.ToString()),
      .mend = "call it outside the compiled function",
      .at = CurrentUserLine(),
      .places = {SitesBelow(caller())}};
}

void HostCallWatch::NoteFound() {
  const auto is_own = [this](PyObject* object) {
    return !IsOld(object) && !IsInput(object);
  };
  found_ = LeftContents();
  for (const StatePlace& place : written_.places()) {
    found_.AddPlace(place, is_own);
  }
  for (const ContainerCall& call : containers_.calls()) {
    for (const PyRef& arg : call.args) {
      found_.AddValue(arg.get(), call.note.path, is_own);
    }
  }
}

void HostCallWatch::CheckFound() {
  const PyErrorKeeper keeper;
  const std::string path = std::exchange(found_, {}).FindChanged();
  if (path.empty()) return;
  Refuse(absl::StrCat("calls ", calls_.back().note.path, ", which changes ",
                      path, " after the program did"),
         "call it outside the compiled function");
}

void HostCallWatch::HandOver(absl::Span<PyObject*> args) {
  if (!is_calling_ || !calls_.back().is_last) return;
  for (PyObject*& arg : args) {
    if (arg != nullptr) Py_SETREF(arg, values_.PlainOf(arg).release());
  }
}

void HostCallWatch::AddArgument(PyRef argument, PyRef shown, int64_t version,
                                HostCall* call) {
  call->args.push_back(PyRef());
  call->shown.push_back(std::move(shown));
  if (!call->is_last) ++num_first_arguments_;
  arguments_.push_back(std::move(argument));
  argument_versions_.push_back(version);
  argument_calls_.push_back(recorder_.NumCalls());
}

void HostCallWatch::AddTensorArgument(PyObject* tensor, HostCall* call) {
  if (call->is_last) {
    return AddArgument(PyRef::Share(tensor), PyRef(), VersionOf(tensor), call);
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
  AddArgument(std::move(copy), ShownAs(tensor), -1, call);
}

void HostCallWatch::Mute() {
  if (!muted_.has_value() || calls_.size() > muted_->num_made) return;
  const bool raises = calls_.size() == muted_->num_made;
  if (raises && !muted_->error) return;  // It is made.
  step_.in_place_of_call = MutedCall(raises ? muted_->error.get() : nullptr);
}

std::string HostCallWatch::ChangedArgument() const {
  for (size_t i = 0; i < arguments_.size(); ++i) {
    PyObject* object = arguments_[i].get();
    if (argument_versions_[i] >= 0 &&
        VersionOf(object) != argument_versions_[i]) {
      return PathOf(object);
    }
  }
  return "";
}

bool HostCallWatch::CheckShown() {
  if (changed_before_ && !refusal()) {
    refusal() = changed_before_;
    return false;
  }
  for (const ShownContainer& shown : shown_) {
    PyObject* container = shown.container.get();
    const bool is_changed =
        containers_.Has(container) || written_.HasChanged(container);
    const bool is_read = shown.may_not_be_read && guards_.HasItems(container);
    if (!is_changed && !is_read) continue;
    Refuse(absl::StrCat("changes or reads ", PathOf(container),
                        ", which a call into the world outside shows or "
                        "changes"),
           "pass text or a copy");
    refusal().places = {shown.places};
    return false;
  }
  return true;
}

bool HostCallWatch::MayShow(PyObject* object) {
  if (!IsOld(object) || IsInput(object)) return false;
  const std::vector<PyRef> containers = PlainContainers(object);
  for (const PyRef& container : containers) {
    AddShown(container, /*may_not_be_read=*/false);
  }
  return !containers.empty();
}

void HostCallWatch::AddShown(PyRef container, bool may_not_be_read) {
  shown_.push_back({.container = std::move(container),
                    .places = SitesBelow(caller()),
                    .may_not_be_read = may_not_be_read});
}

// From the first user code on, a hit makes the calls when the run is over: what
// is passed has to be by then what it was when the program called.
void HostCallWatch::Call(PyObject* callable, absl::Span<PyObject* const> args,
                         PyObject* keyword_names, Sink sink) {
  const PyRef values = PyRef::Steal(PyList_New(0));
  if (!values) return PyErr_Clear();
  for (PyObject* arg : args) {
    if (!LookAt(arg, callable, values.get(), &sink)) return;
  }
  if (sink.kind != Sink::Kind::kUnknown) {
    sink.values = PyRef::Steal(PyList_AsTuple(values.get()));
  }
  Add(callable, OwnArguments(callable, args), keyword_names,
      CallableName(callable), std::move(sink));
}

bool HostCallWatch::LookAt(PyObject* arg, PyObject* callable, PyObject* values,
                           Sink* sink) {
  // Whether text is made of what is passed.
  const bool shows =
      sink->kind != Sink::Kind::kUnknown && sink->kind != Sink::Kind::kInC;
  if (IsConstant(arg)) {
    if (values_.Find(arg) < 0 && shows && !IsPlainConstant(arg)) *sink = Sink();
    return true;
  }
  if (IsTensor(arg) && IsPlainTensor(arg)) {
    // It is handed on, not read.
    const LastCalls::Pause pause(last_calls_);
    objects_.Touch(arg);
    return true;
  }
  if (IsOld(arg) && !IsInput(arg)) {
    if (!shows || arg == sink->target.get()) return true;
    if (!MayShow(arg)) {
      *sink = Sink();
    } else if (PyList_Append(values, arg) != 0) {
      PyErr_Clear();
      return false;
    }
    return true;
  }
  Refuse(absl::StrCat("passes ", CallableName(callable), " a ",
                      TypeName(Py_TYPE(arg)),
                      ", which can't be had again at each hit"),
         "pass constants, numbers and tensors");
  return false;
}

bool HostCallWatch::CheckLastCalls(const Tape& tape,
                                   absl::Span<PyObject* const> tensors,
                                   absl::Span<const TapeTensorId> ids) {
  if (!last_calls_.has_begun()) return true;
  // From which call on user code may have changed what memory.
  absl::flat_hash_map<int32_t, int64_t> since;
  for (const TapeTensor& tensor : tape.tensors) {
    if (tensor.origin == TapeOrigin::kInput ||
        tensor.origin == TapeOrigin::kState) {
      since[tensor.storage] = last_calls_.num_calls();
    }
  }
  for (size_t i = num_first_arguments_; i < arguments_.size(); ++i) {
    for (size_t j = 0; j < tensors.size() && j < ids.size(); ++j) {
      if (tensors[j] != arguments_[i].get()) continue;
      since.try_emplace(tape.tensors[ids[j]].storage, argument_calls_[i]);
    }
  }
  for (size_t i = last_calls_.num_calls(); i < tape.calls.size(); ++i) {
    const TapeCall& call = tape.calls[i];
    if (call.later_part >= 0) continue;
    bool is_safe = !call.is_nondeterministic_seeded;
    for (const TapeValue& arg : call.args) {
      ForEachTensor(arg, [&](TapeTensorId id) {
        const auto changed = since.find(tape.tensors[id].storage);
        is_safe &=
            changed == since.end() || static_cast<int64_t>(i) < changed->second;
      });
    }
    if (is_safe) continue;
    last_calls_.RefuseFirst(absl::StrCat("and goes on with ", call.op));
    return false;
  }
  return true;
}

}  // namespace mica
