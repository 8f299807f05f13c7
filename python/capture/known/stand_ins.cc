#include "python/capture/known/stand_ins.h"

namespace mica {
namespace {

struct StandIn {
  PyTypeObject* type = nullptr;
  PyObject* (*inside)(PyObject*) = nullptr;
};
StandIn stand_in;

}  // namespace

void SetStandIn(PyTypeObject* type, PyObject* (*inside)(PyObject*)) {
  stand_in = {type, inside};
}

PyObject* FindInside(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  // Few types have their vectorcall there.
  if (stand_in.type == nullptr ||
      type->tp_vectorcall_offset != stand_in.type->tp_vectorcall_offset ||
      PyType_IsSubtype(type, stand_in.type) == 0) {
    return nullptr;
  }
  return stand_in.inside(object);
}

}  // namespace mica
