#include "python/capture/known/stand_ins.h"

namespace mica {
namespace {

struct StandIn {
  PyTypeObject* type = nullptr;
  Py_ssize_t vectorcall_offset = 0;
  PyObject* (*inside)(PyObject*) = nullptr;
};
StandIn stand_in;

}  // namespace

void SetStandIn(PyTypeObject* type, Py_ssize_t vectorcall_offset,
                PyObject* (*inside)(PyObject*)) {
  stand_in = {type, vectorcall_offset, inside};
}

PyObject* FindInside(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  // Few types have their vectorcall there.
  if (stand_in.type == nullptr ||
      type->tp_vectorcall_offset != stand_in.vectorcall_offset ||
      PyType_IsSubtype(type, stand_in.type) == 0) {
    return nullptr;
  }
  return stand_in.inside(object);
}

}  // namespace mica
