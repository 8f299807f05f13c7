#include "python/capture/serve/notices.h"

#include <utility>

namespace mica {
namespace {

// mica.MicaWarning; null with a Python error set.
PyObject* WarningClass() {
  static PyObject* found = nullptr;
  if (found == nullptr) {
    const PyRef module = PyRef::Steal(PyImport_ImportModule("mica.errors"));
    if (!module) return nullptr;
    found = PyObject_GetAttrString(module.get(), "MicaWarning");
  }
  return found;
}

// False with a Python error set.
bool Warn(const Notice& notice) {
  PyObject* category = WarningClass();
  if (category == nullptr) return false;
  const bool is_known = notice.at.line != 0;
  const PyRef text = PyRef::Steal(PyUnicode_DecodeUTF8(
      notice.text.data(), static_cast<Py_ssize_t>(notice.text.size()),
      "replace"));
  const PyRef file = PyRef::Steal(PyUnicode_DecodeFSDefault(
      is_known ? notice.at.file.c_str() : "<unknown>"));
  if (!text || !file) return false;
  return PyErr_WarnExplicitObject(category, text.get(), file.get(),
                                  is_known ? notice.at.line : 1,
                                  /*module=*/nullptr,
                                  /*registry=*/nullptr) == 0;
}

// True if a filter makes an error of this class itself, not of any warning.
bool IsErrorByName() {
  PyObject* warnings = PyImport_AddModule("warnings");
  const PyRef filters =
      warnings == nullptr
          ? PyRef()
          : PyRef::Steal(PyObject_GetAttrString(warnings, "filters"));
  bool found = false;
  if (filters && PyList_Check(filters.get())) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(filters.get()) && !found; ++i) {
      PyObject* filter = PyList_GET_ITEM(filters.get(), i);
      found = PyTuple_Check(filter) && PyTuple_GET_SIZE(filter) == 5 &&
              PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(filter, 0),
                                               "error") == 0 &&
              PyTuple_GET_ITEM(filter, 2) == WarningClass();
    }
  }
  PyErr_Clear();
  return found;
}

}  // namespace

bool Notices::Add(Kind kind, Notice notice) {
  if (std::exchange(is_told_[static_cast<size_t>(kind)], true)) return false;
  waiting_.push_back(std::move(notice));
  return true;
}

void Notices::Issue() {
  // A warning's handler may call what was compiled.
  for (const Notice& notice : std::exchange(waiting_, {})) {
    if (Warn(notice)) continue;
    const PyRef error = TakePyError();
    if (!error) continue;
    // A handler of the user's may have raised something else.
    const bool is_ours =
        reinterpret_cast<PyObject*>(Py_TYPE(error.get())) == WarningClass();
    if (!is_ours || IsErrorByName()) {
      error_ = PyRef::Share(error.get());
    } else {
      PySys_FormatStderr("%s:%d: %s: %S\n", notice.at.file.c_str(),
                         notice.at.line, Py_TYPE(error.get())->tp_name,
                         error.get());
    }
  }
}

bool Notices::Raise() {
  if (!error_) return false;
  const PyRef error = std::exchange(error_, PyRef());
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.get())),
                  error.get());
  return true;
}

}  // namespace mica
