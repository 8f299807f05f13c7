// Where C code calls ours. CPython's code knows no C++ exceptions: one that
// reached it would end the process.

#ifndef MICA_PYTHON_INTERPRETER_CONTAINED_H_
#define MICA_PYTHON_INTERPRETER_CONTAINED_H_

#include <exception>
#include <new>
#include <string>

#include "python/interpreter/py_ref.h"

namespace mica {

// What an exception says, without the stack that torch appends.
inline std::string TextOf(const std::exception& error) {
  const std::string text = error.what();
  return text.substr(0, text.find("\nException raised from "));
}

// Returns what `body` returns; `failed`, with a Python error set, if torch or
// the standard library throws there. A last resort: what is called on purpose
// and may throw is caught where a better answer is known.
template <typename Result, typename Body>
Result Contained(Result failed, Body&& body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, TextOf(error).c_str());
  }
  return failed;
}

// The same of a function that CPython calls and that returns an object.
template <auto function>
struct ContainedCall;
template <typename... Args, PyObject* (*function)(Args...)>
struct ContainedCall<function> {
  static PyObject* Run(Args... args) {
    return Contained(static_cast<PyObject*>(nullptr),
                     [&] { return function(args...); });
  }
};

}  // namespace mica

#endif  // MICA_PYTHON_INTERPRETER_CONTAINED_H_
