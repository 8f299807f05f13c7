#include "python/capture/guards/state_reading.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "python/interpreter/interpreter.h"
#include "python/interpreter/lru_cache.h"

namespace mica {
namespace {

// Contents of larger arrays aren't guarded.
constexpr Py_ssize_t kMaxArrayBytes = 64 << 10;

}  // namespace

PyRef ContextValue(PyObject* variable) {
  PyObject* value = nullptr;
  if (PyContextVar_Get(variable, nullptr, &value) != 0) PyErr_Clear();
  return PyRef::Steal(value);
}

PyObject* FindItem(PyObject* dict, PyObject* key) {
  PyObject* value = PyDict_GetItemWithError(dict, key);
  if (value == nullptr && PyErr_Occurred()) PyErr_Clear();
  return value;
}

bool IsFreeLock(PyObject* lock) {
  PyRef owned;
  if (absl::string_view(Py_TYPE(lock)->tp_name) == "_thread.RLock") {
    owned = PyRef::Steal(PyObject_CallMethod(lock, "_is_owned", nullptr));
  }
  const PyRef taken =
      PyRef::Steal(PyObject_CallMethod(lock, "acquire", "O", Py_False));
  const bool is_taken = taken && taken.get() == Py_True;
  if (is_taken) {
    PyRef::Steal(PyObject_CallMethod(lock, "release", nullptr));
  }
  PyErr_Clear();
  return is_taken && (!owned || owned.get() == Py_False);
}

void ForEachItem(PyObject* container,
                 absl::FunctionRef<bool(PyObject*)> visit) {
  if (PyList_Check(container)) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(container); ++i) {
      if (!visit(PyList_GET_ITEM(container, i))) return;
    }
    return;
  }
  if (PyTuple_Check(container)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(container); ++i) {
      if (!visit(PyTuple_GET_ITEM(container, i))) return;
    }
    return;
  }
  if (PyAnySet_Check(container)) {
    Py_ssize_t position = 0;
    PyObject* item = nullptr;
    while (NextItem(container, &position, &item)) {
      if (!visit(item)) return;
    }
    return;
  }
  if (PyObject** place = LruCachePlace(container)) {
    visit(*place);
    return;
  }
  PyTypeObject* deque = DequeType();
  if (deque == nullptr || !PyObject_TypeCheck(container, deque)) return;
  PyRef iterator = PyRef::Steal(deque->tp_iter(container));
  if (!iterator) {
    PyErr_Clear();
    return;
  }
  while (PyRef item = PyRef::Steal(PyIter_Next(iterator.get()))) {
    if (!visit(item.get())) return;
  }
  PyErr_Clear();
}

void ForEachPart(PyObject* object, absl::FunctionRef<void(PyObject*)> visit) {
  const auto* function = reinterpret_cast<PyFunctionObject*>(object);
  for (PyObject* part : {function->func_globals, function->func_builtins,
                         function->func_defaults, function->func_kwdefaults}) {
    if (part != nullptr) visit(part);
  }
  if (function->func_closure == nullptr) return;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(function->func_closure); ++i) {
    visit(PyTuple_GET_ITEM(function->func_closure, i));
  }
}

bool IsWrapper(PyObject* attribute) {
  PyTypeObject* type = Py_TYPE(attribute);
  return type == &PyProperty_Type || type == &PyStaticMethod_Type ||
         type == &PyClassMethod_Type;
}

bool IsOwnDescriptor(PyTypeObject* type, PyObject* attribute) {
  return (Py_TYPE(attribute) == &PyGetSetDescr_Type ||
          Py_TYPE(attribute) == &PyMemberDescr_Type) &&
         PyDescr_TYPE(attribute) == type;
}

std::vector<PyRef> AttributeParts(PyObject* attribute) {
  std::vector<PyRef> parts;
  if (!IsWrapper(attribute)) return parts;
  const auto add = [&](const char* name) {
    parts.push_back(PyRef::Steal(PyObject_GetAttrString(attribute, name)));
    if (!parts.back()) PyErr_Clear();
  };
  if (Py_TYPE(attribute) == &PyProperty_Type) {
    for (const char* name : {"fget", "fset", "fdel"}) add(name);
  } else {
    add("__func__");
  }
  return parts;
}

std::vector<const void*> PlacesOfItems(PyObject* container) {
  std::vector<const void*> places;
  if (PyList_Check(container)) {
    const auto* list = reinterpret_cast<PyListObject*>(container);
    places = {&list->ob_base.ob_size, &list->ob_item};
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
      places.push_back(&list->ob_item[i]);
    }
  } else if (PyTuple_Check(container)) {
    const auto* tuple = reinterpret_cast<PyTupleObject*>(container);
    places = {&tuple->ob_base.ob_size};
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
      places.push_back(&tuple->ob_item[i]);
    }
  } else if (PyAnySet_Check(container)) {
    const auto* set = reinterpret_cast<PySetObject*>(container);
    places = {&set->used, &set->mask, &set->table};
    for (Py_ssize_t i = 0; i <= set->mask; ++i) {
      places.push_back(&set->table[i].key);
    }
  } else if (PyObject** place = LruCachePlace(container)) {
    places = {place};
  }
  return places;
}

std::vector<std::pair<PyRef, PyRef>> ContentsOf(PyObject* dict) {
  std::vector<std::pair<PyRef, PyRef>> contents;
  contents.reserve(static_cast<size_t>(PyDict_GET_SIZE(dict)));
  if (PyODict_Check(dict)) {
    PyRef iterator = PyRef::Steal(PyODict_Type.tp_iter(dict));
    while (iterator) {
      PyRef key = PyRef::Steal(PyIter_Next(iterator.get()));
      if (!key) break;
      PyObject* value = FindItem(dict, key.get());
      contents.emplace_back(std::move(key), PyRef::Share(value));
    }
    PyErr_Clear();
    return contents;
  }
  Py_ssize_t position = 0;
  PyObject *key = nullptr, *value = nullptr;
  while (PyDict_Next(dict, &position, &key, &value)) {
    contents.emplace_back(PyRef::Share(key), PyRef::Share(value));
  }
  return contents;
}

bool ReadArray(PyObject* array, std::string* form, absl::string_view* bytes,
               Py_buffer* view) {
  if (PyObject_GetBuffer(array, view, PyBUF_FORMAT | PyBUF_STRIDES) != 0) {
    PyErr_Clear();
    return false;
  }
  const bool usable =
      view->len <= kMaxArrayBytes && PyBuffer_IsContiguous(view, 'A') &&
      (view->format == nullptr || std::strchr(view->format, 'O') == nullptr);
  if (!usable) {
    PyBuffer_Release(view);
    return false;
  }
  *form = absl::StrCat(view->format == nullptr ? "" : view->format, " at ",
                       reinterpret_cast<uintptr_t>(view->buf));
  for (int i = 0; i < view->ndim; ++i) {
    absl::StrAppend(form, " ", view->shape[i], "/", view->strides[i]);
  }
  if (view->readonly != 0) absl::StrAppend(form, " readonly");
  *bytes = absl::string_view(static_cast<const char*>(view->buf),
                             static_cast<size_t>(view->len));
  return true;
}

}  // namespace mica
