// What InitInterpreter() found. Only for this folder's sources.

#ifndef MICA_PYTHON_INTERPRETER_KNOWN_H_
#define MICA_PYTHON_INTERPRETER_KNOWN_H_

#include <string>

#include "python/interpreter/interpreter.h"

namespace mica {

struct Known {
  KnownPlaces places;
  PyTypeObject* deque = nullptr;
  PyTypeObject* default_dict = nullptr;
  destructor python_dealloc = nullptr;  // That of classes made in Python.
  PyTypeObject* method_wrapper = nullptr;
  std::string library_dir;  // Python's own.
};
// Requires: InitInterpreter() gave true.
const Known& known();

}  // namespace mica

#endif  // MICA_PYTHON_INTERPRETER_KNOWN_H_
