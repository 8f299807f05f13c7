// The attributes of modules that are imported.

#ifndef MICA_PYTHON_CAPTURE_WATCH_MODULE_DICTS_H_
#define MICA_PYTHON_CAPTURE_WATCH_MODULE_DICTS_H_

#include "python/interpreter/py_ref.h"

namespace mica {

// Null if there is no such module yet. Borrowed.
inline PyObject* DictOfModule(const char* name) {
  PyRef text = PyRef::Steal(PyUnicode_FromString(name));
  PyRef module = PyRef::Steal(PyImport_GetModule(text.get()));
  return module ? PyModule_GetDict(module.get()) : nullptr;
}

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_WATCH_MODULE_DICTS_H_
