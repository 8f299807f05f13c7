#include "python/capture/watch/container_changes.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "python/capture/known/purity.h"
#include "python/capture/values/sequences.h"

namespace mica {
namespace {

PyRef CopyOf(PyObject* container) {
  if (PyList_CheckExact(container)) {
    return PyRef::Steal(
        PyList_GetSlice(container, 0, PyList_GET_SIZE(container)));
  }
  return PyRef::Steal(PyObject_CallMethod(container, "copy", nullptr));
}

}  // namespace

bool ContainerChanges::Begin(PyObject* container) {
  PyRef copy = CopyOf(container);
  if (!copy) {
    PyErr_Clear();
    return false;
  }
  if (!guards_.HasItems(container)) unread_.insert(container);
  const PyRef items = PyRef::Steal(PySequence_List(copy.get()));
  if (!items) PyErr_Clear();
  for (Py_ssize_t i = 0; items && i < PyList_GET_SIZE(items.get()); ++i) {
    PyObject* item = PyList_GET_ITEM(items.get(), i);
    if (HeldObjects::IsNoticed(item)) ++noticed_[item];
  }
  changed_[container] = std::move(copy);
  return true;
}

void ContainerChanges::Add(ContainerCall call) {
  // What came before has left nothing behind.
  if (absl::EndsWith(CallableName(call.method.get()), ".clear")) {
    std::erase_if(calls_, [&call](const ContainerCall& earlier) {
      return earlier.container.get() == call.container.get();
    });
  }
  calls_.push_back(std::move(call));
}

bool ContainerChanges::ReadEmpty(PyObject* container) {
  const auto before = changed_.find(container);
  if (before == changed_.end() || IsPythonClass(Py_TYPE(container)) ||
      PyObject_Size(before->second.get()) != 0) {
    PyErr_Clear();
    return false;
  }
  guards_.AddNoItems(container, NoteOf(PathOf(container)));
  unread_.erase(container);
  return true;
}

void ContainerChanges::WantSequence(PyObject* container) {
  const auto before = changed_.find(container);
  if (before == changed_.end() ||
      !(PyList_CheckExact(container) || IsDeque(container))) {
    return;
  }
  wanted_.push_back(
      {.place = StatePlace::OfSequence(container, {.path = PathOf(container)}),
       .size_before = static_cast<size_t>(Py_SIZE(before->second.get()))});
}

bool ContainerChanges::FindWanted(std::vector<StatePlace>* slots,
                                  std::vector<PyRef>* changed) const {
  const size_t num_before = slots->size();
  for (const Wanted& wanted : wanted_) {
    PyObject* sequence = wanted.place.holder.get();
    if (!IsSlotSequence(sequence, wanted.size_before)) continue;
    slots->push_back(wanted.place);
    if (IsDeque(sequence)) changed->push_back(PyRef::Share(sequence));
  }
  return slots->size() > num_before;
}

void ContainerChanges::Forget() {
  const auto gone = std::exchange(changed_, {});  // Their ends may come here.
  noticed_.clear();
}

bool ContainerChanges::Check(std::string* reason) {
  for (const auto& [container, before] : changed_) {
    PyRef copy = CopyOf(before.get());
    bool is_same = static_cast<bool>(copy);
    for (const ContainerCall& call : calls_) {
      if (!is_same || call.container.get() != container) continue;
      is_same = call.Make(copy.get(), call.args);
    }
    PyRef want = is_same ? PyRef::Steal(PySequence_List(copy.get())) : PyRef();
    PyRef got = PyRef::Steal(PySequence_List(container));
    is_same = want && got &&
              PyList_GET_SIZE(want.get()) == PyList_GET_SIZE(got.get());
    for (Py_ssize_t i = 0; is_same && i < PyList_GET_SIZE(want.get()); ++i) {
      is_same = PyList_GET_ITEM(want.get(), i) == PyList_GET_ITEM(got.get(), i);
    }
    PyErr_Clear();
    if (is_same) continue;
    WantSequence(container);
    *reason = absl::StrCat("changes ", PathOf(container),
                           " in ways that aren't known");
    return false;
  }
  return true;
}

}  // namespace mica
