#include "python/interpreter/dict_version.h"

namespace mica {

void OwnValues(PyDictObject* dict) {
  auto* object = reinterpret_cast<PyObject*>(dict);
  const PyErrorKeeper keeper;
  // popitem() gives the table values of its own; what it took goes back to the
  // end, where it was. An empty dict gets something to take.
  static PyObject* filler = Interned("__dict__");
  const bool is_empty = PyDict_GET_SIZE(object) == 0;
  if (is_empty) PyDict_SetItem(object, filler, Py_None);
  const PyRef item =
      PyRef::Steal(PyObject_CallMethod(object, "popitem", nullptr));
  if (item && !is_empty) {
    PyDict_SetItem(object, PyTuple_GET_ITEM(item.get(), 0),
                   PyTuple_GET_ITEM(item.get(), 1));
  }
  PyErr_Clear();
}

}  // namespace mica
