// Python objects held from C++.

#ifndef MICA_PYTHON_INTERPRETER_PY_REF_H_
#define MICA_PYTHON_INTERPRETER_PY_REF_H_

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include <string>
#include <utility>

namespace mica {

// A strong reference, or none. Needs the GIL wherever it is made or dropped.
class PyRef {
 public:
  PyRef() = default;
  // Takes over the caller's reference; null stays null.
  static PyRef Steal(PyObject* object) { return PyRef(object); }
  // Adds a reference.
  static PyRef Share(PyObject* object) {
    Py_XINCREF(object);
    return PyRef(object);
  }
  PyRef(const PyRef& other) : object_(other.object_) { Py_XINCREF(object_); }
  PyRef(PyRef&& other) noexcept
      : object_(std::exchange(other.object_, nullptr)) {}
  PyRef& operator=(PyRef other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~PyRef() { Py_XDECREF(object_); }

  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  explicit PyRef(PyObject* object) : object_(object) {}
  PyObject* object_ = nullptr;
};

// Holds the GIL: torch gives it up around its operators.
class GilHolder {
 public:
  GilHolder() : state_(PyGILState_Ensure()) {}
  ~GilHolder() { PyGILState_Release(state_); }
  GilHolder(const GilHolder&) = delete;
  GilHolder& operator=(const GilHolder&) = delete;

 private:
  PyGILState_STATE state_;
};

// The Python error that is set, kept aside while other Python code runs.
class PyErrorKeeper {
 public:
  PyErrorKeeper() { PyErr_Fetch(&type_, &value_, &traceback_); }
  ~PyErrorKeeper() { PyErr_Restore(type_, value_, traceback_); }
  PyErrorKeeper(const PyErrorKeeper&) = delete;
  PyErrorKeeper& operator=(const PyErrorKeeper&) = delete;

 private:
  PyObject* type_ = nullptr;
  PyObject* value_ = nullptr;
  PyObject* traceback_ = nullptr;
};

// The Python error that is set, which it no longer is then; or null.
inline PyRef TakePyError() {
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
  return PyRef::Steal(value);
}

inline PyTypeObject* AsType(PyObject* object) {
  return reinterpret_cast<PyTypeObject*>(object);
}

// Python's one str of these characters; stays alive.
inline PyObject* Interned(const char* text) {
  return PyUnicode_InternFromString(text);
}

// The text of a str; what can't be read as one gives "?".
inline std::string PyText(PyObject* text) {
  if (text == nullptr || !PyUnicode_Check(text)) return "?";
  Py_ssize_t size = 0;
  const char* data = PyUnicode_AsUTF8AndSize(text, &size);
  if (data == nullptr) {
    PyErr_Clear();
    return "?";
  }
  return std::string(data, static_cast<size_t>(size));
}

}  // namespace mica

#endif  // MICA_PYTHON_INTERPRETER_PY_REF_H_
