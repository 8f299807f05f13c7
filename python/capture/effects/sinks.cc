#include "python/capture/effects/sinks.h"

#include <vector>

#include "absl/strings/string_view.h"

namespace mica {
namespace {

// An attribute of mica.sinks; null if that can't be had.
PyObject* Known(const char* name) {
  static PyObject* module = PyImport_ImportModule("mica.sinks");
  PyObject* found =
      module == nullptr ? nullptr : PyObject_GetAttrString(module, name);
  if (found == nullptr) PyErr_Clear();
  return found;
}

// What a function of mica.sinks gives; null, without an error, for None.
PyRef Ask(PyObject* function, absl::Span<PyObject* const> args) {
  const PyErrorKeeper keeper;
  if (function == nullptr) return PyRef();
  PyRef found = PyRef::Steal(
      PyObject_Vectorcall(function, args.data(), args.size(), nullptr));
  if (!found) PyErr_Clear();
  return found.get() == Py_None ? PyRef() : found;
}

std::vector<PyRef> ItemsOf(const PyRef& list) {
  std::vector<PyRef> items;
  for (Py_ssize_t i = 0; list && i < PyList_GET_SIZE(list.get()); ++i) {
    items.push_back(PyRef::Share(PyList_GET_ITEM(list.get(), i)));
  }
  return items;
}

PyObject* OrNone(const PyRef& object) {
  return object ? object.get() : Py_None;
}

PyObject* Muted(PyObject* error, PyObject* /*args*/, PyObject* /*keywords*/) {
  if (error == Py_None) Py_RETURN_NONE;
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error)), error);
  return nullptr;
}

// `call` is the callable, its keywords' names or None, and the arguments.
PyObject* Fixed(PyObject* call, PyObject* /*args*/, PyObject* /*keywords*/) {
  const auto count = static_cast<size_t>(PyTuple_GET_SIZE(call)) - 2;
  PyObject* names = PyTuple_GET_ITEM(call, 1);
  const bool has_names = names != Py_None;
  const size_t num_keywords =
      has_names ? static_cast<size_t>(PyTuple_GET_SIZE(names)) : 0;
  return PyObject_Vectorcall(
      PyTuple_GET_ITEM(call, 0),
      reinterpret_cast<PyTupleObject*>(call)->ob_item + 2, count - num_keywords,
      has_names ? names : nullptr);
}

}  // namespace

bool Sink::RunsNoUserCode() const {
  if (kind == Kind::kUnknown) return false;
  if (kind == Kind::kSilent || kind == Kind::kInC || kind == Kind::kCache) {
    return true;
  }
  static PyObject* ask = Known("is_plain_call");
  static PyObject* words[] = {Interned("print"), Interned("log"),
                              Interned("warning")};
  static PyObject* nothing = PyTuple_New(0);
  PyObject* word = kind == Kind::kPrint ? words[0]
                   : kind == Kind::kLog ? words[1]
                                        : words[2];
  return Ask(ask, {word, OrNone(target), OrNone(level),
                   values ? values.get() : nothing})
             .get() == Py_True;
}

std::vector<PyRef> PlainContainers(PyObject* value) {
  static PyObject* is_plain = Known("is_plain_value");
  static PyObject* find = Known("containers_in");
  if (Ask(is_plain, {value}).get() != Py_True) return {};
  return ItemsOf(Ask(find, {value}));
}

bool IsPlainConstant(PyObject* value) {
  static PyObject* is_plain = Known("is_plain_value");
  return Ask(is_plain, {value}).get() == Py_True;
}

std::vector<PyRef> PartsOfLog(PyObject* logger) {
  static PyObject* find = Known("parts_of_log");
  return ItemsOf(Ask(find, {logger}));
}

PyRef ShownAs(PyObject* tensor) {
  static PyObject* shown = Known("shown");
  return Ask(shown, {tensor});
}

PyRef ListOfWarnings() {
  static PyObject* find = Known("warning_list");
  return Ask(find, {});
}

absl::Span<PyObject* const> LoggingClasses() {
  static PyObject* classes = Known("LOGGING_CLASSES");
  if (classes == nullptr) return {};
  return {PySequence_Fast_ITEMS(classes),
          static_cast<size_t>(PyTuple_GET_SIZE(classes))};
}

bool IsLogsAnError(PyObject* error) {
  return absl::string_view(Py_TYPE(error)->tp_name) == "LogsAnError";
}

PyRef MutedCall(PyObject* error) {
  static PyMethodDef definition = {
      "muted", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(&Muted)),
      METH_VARARGS | METH_KEYWORDS, nullptr};
  return PyRef::Steal(
      PyCFunction_New(&definition, error == nullptr ? Py_None : error));
}

PyRef FixedCall(PyObject* callable, absl::Span<const PyRef> args,
                PyObject* keyword_names) {
  static PyMethodDef definition = {
      "fixed", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(&Fixed)),
      METH_VARARGS | METH_KEYWORDS, nullptr};
  const PyRef call =
      PyRef::Steal(PyTuple_New(static_cast<Py_ssize_t>(args.size()) + 2));
  if (!call) return PyRef();
  const auto set = [&](Py_ssize_t i, PyObject* object) {
    Py_INCREF(object);
    PyTuple_SET_ITEM(call.get(), i, object);
  };
  set(0, callable);
  set(1, keyword_names == nullptr ? Py_None : keyword_names);
  for (size_t i = 0; i < args.size(); ++i) {
    set(static_cast<Py_ssize_t>(i) + 2, args[i].get());
  }
  return PyRef::Steal(PyCFunction_New(&definition, call.get()));
}

}  // namespace mica
