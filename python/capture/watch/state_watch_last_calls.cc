// Calls into the world outside that run the user's code. A hit makes them when
// all else is done, which is where the program makes them only if it does
// nothing afterwards that such code could see, or that could see what it did.

#include <utility>

#include "absl/strings/str_cat.h"
#include "python/capture/values/constants.h"
#include "python/capture/watch/state_watch.h"
#include "python/interpreter/frame_hook.h"

namespace mica {
namespace {

// What a name stands for that is bound once: code, or an object of a class of
// Python's, whose contents are read by themselves.
bool IsBoundOnce(PyObject* value) {
  if (value == nullptr) return true;  // Raises, or comes from a base.
  PyTypeObject* type = Py_TYPE(value);
  return PyFunction_Check(value) || PyCFunction_Check(value) ||
         PyType_Check(value) || PyModule_Check(value) ||
         PyMethod_Check(value) || type == &PyMethodDescr_Type ||
         type == &PyStaticMethod_Type || type == &PyClassMethod_Type ||
         (IsPythonClass(type) && !IsTensor(value) && !IsConstant(value));
}

// One of Python's own modules, whose constants stay.
bool IsLibrary(PyObject* module) {
  static PyObject* names = PySys_GetObject("stdlib_module_names");
  const PyRef name = PyRef::Steal(PyModule_GetNameObject(module));
  if (!name || names == nullptr) {
    PyErr_Clear();
    return false;
  }
  return PySequence_Contains(names, name.get()) == 1;
}

}  // namespace

void StateWatch::BeginLastCalls(std::string title) {
  user_call_ = {.title = std::move(title),
                .at = CurrentUserLine(),
                .places = SitesBelow(caller_),
                .num_calls = num_calls_ ? num_calls_() : 0};
  if (HasHandlerBelow(caller_)) RefuseUserCall("where an error is handled");
}

void StateWatch::RefuseUserCall(const std::string& why) {
  if (refusal_ || !user_call_.has_value()) return;
  const UserCall call = *std::exchange(user_call_, std::nullopt);
  Refuse(absl::StrCat("calls ", call.title, ", which runs code of the user's, ",
                      why),
         "call it last, or outside the compiled function");
  refusal_.at = call.at;
  refusal_.places = {call.places};
}

void StateWatch::NoteLateUse(PyObject* object) {
  if (!user_call_.has_value() || refusal_ || object == nullptr) return;
  if (!IsOld(object) && !IsInput(object)) return;
  RefuseUserCall(absl::StrCat("and goes on to use ", PathOf(object)));
}

void StateWatch::NoteLateRead(PyObject* value, const std::string& path) {
  if (!user_call_.has_value() || refusal_ || IsBoundOnce(value)) return;
  RefuseUserCall(absl::StrCat("and goes on to read ", path));
}

void StateWatch::NoteLateGlobal(PyObject* globals, PyObject* builtins,
                                PyObject* name) {
  if (!user_call_.has_value() || refusal_) return;
  PyObject* value = PyDict_GetItemWithError(globals, name);
  if (value == nullptr && builtins != nullptr) {
    value = PyDict_GetItemWithError(builtins, name);
  }
  if (PyErr_Occurred() != nullptr) PyErr_Clear();
  NoteLateRead(value, PyText(name));
}

void StateWatch::NoteLateAttribute(PyObject* owner, PyObject* name) {
  if (!user_call_.has_value() || refusal_) return;
  PyObject* value = nullptr;
  if (PyModule_Check(owner)) {
    value = PyDict_GetItemWithError(PyModule_GetDict(owner), name);
    if (value != nullptr && IsConstant(value) && IsLibrary(owner)) return;
  } else if (PyType_Check(owner)) {
    value = _PyType_Lookup(AsType(owner), name);
  } else if (!IsOld(owner) && !IsInput(owner)) {
    return;
  } else if (IsTensor(owner)) {
    return NoteLateUse(owner);
  } else {
    PyObject* dict = InstanceDict(owner);
    if (dict != nullptr) value = PyDict_GetItemWithError(dict, name);
    if (value == nullptr) value = _PyType_Lookup(Py_TYPE(owner), name);
  }
  NoteLateRead(value, absl::StrCat(PathOf(owner), ".", PyText(name)));
}

void StateWatch::NoteLateTouch(PyObject* object) {
  if (!user_call_.has_value() || refusal_ || object == nullptr) return;
  if (GivesItems(object)) return RefuseUserCall("in a loop");
  if (IsTensor(object) || IsContainer(object) || IsArray(object)) {
    if (!IsConstant(object)) NoteLateUse(object);
  }
}

bool StateWatch::CheckLastCalls(const Tape& tape,
                                absl::Span<PyObject* const> tensors,
                                absl::Span<const TapeTensorId> ids) {
  if (!user_call_.has_value()) return true;
  // From which call on user code may have changed what memory.
  absl::flat_hash_map<int32_t, int64_t> since;
  for (const TapeTensor& tensor : tape.tensors) {
    if (tensor.origin == TapeOrigin::kInput ||
        tensor.origin == TapeOrigin::kState) {
      since[tensor.storage] = user_call_->num_calls;
    }
  }
  for (size_t i = num_first_arguments_; i < host_arguments_.size(); ++i) {
    for (size_t j = 0; j < tensors.size() && j < ids.size(); ++j) {
      if (tensors[j] != host_arguments_[i].get()) continue;
      since.try_emplace(tape.tensors[ids[j]].storage, argument_calls_[i]);
    }
  }
  for (size_t i = user_call_->num_calls; i < tape.calls.size(); ++i) {
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
    RefuseUserCall(absl::StrCat("and goes on with ", call.op));
    return false;
  }
  return true;
}

}  // namespace mica
