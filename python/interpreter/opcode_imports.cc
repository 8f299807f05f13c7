// What an import names.

#include <string>

#include "python/interpreter/opcode_stream.h"

namespace mica {

void OpcodeStream::Import(PyObject* name) {
  const long level = PyLong_AsLong(Peek(2));
  if (level == 0) return listener_.Import(name);
  // A relative import: from the package that the code belongs to.
  PyObject* package = PyDict_GetItemString(frame_->f_globals, "__package__");
  if (level < 0 || package == nullptr || !PyUnicode_Check(package)) {
    PyErr_Clear();
    return listener_.Refuse("imports relative to no package");
  }
  std::string full = PyText(package);
  for (long i = 1; i < level; ++i) {
    const size_t dot = full.rfind('.');
    if (dot == std::string::npos) return;  // Raises.
    full.resize(dot);
  }
  const std::string last = PyText(name);
  if (!last.empty()) full += "." + last;
  PyRef word = PyRef::Steal(PyUnicode_InternFromString(full.c_str()));
  listener_.Import(word.get());
}

}  // namespace mica
