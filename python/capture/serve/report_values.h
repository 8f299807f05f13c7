// What reports for explain() are put together of.

#ifndef MICA_PYTHON_CAPTURE_SERVE_REPORT_VALUES_H_
#define MICA_PYTHON_CAPTURE_SERVE_REPORT_VALUES_H_

#include <string>

#include "python/interpreter/py_ref.h"

namespace mica {

// False with a Python error set if there is no value or no memory.
inline bool Put(PyObject* dict, const char* key, const PyRef& value) {
  return value && PyDict_SetItemString(dict, key, value.get()) == 0;
}

// Of UTF-8; what isn't is replaced. Null with a Python error set on failure.
inline PyRef Text(const std::string& text) {
  return PyRef::Steal(PyUnicode_DecodeUTF8(
      text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_SERVE_REPORT_VALUES_H_
