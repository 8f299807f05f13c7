// The Python objects around a Compiled, for the files that make their types.

#ifndef MICA_PYTHON_CAPTURE_SERVE_COMPILED_OBJECT_H_
#define MICA_PYTHON_CAPTURE_SERVE_COMPILED_OBJECT_H_

#include <cstddef>

#include "python/capture/serve/compiled.h"
#include "python/interpreter/py_ref.h"

namespace mica {

// "mica._mica.Compiled": what is common to all.
struct CompiledObject {
  PyObject_HEAD;
  vectorcallfunc vectorcall;
  PyObject* weak_references;
  Compiled* compiled;
  // A dict of mica.compile's arguments, for copies; null of a piece.
  PyObject* arguments;
};

inline CompiledObject* AsCompiledObject(PyObject* object) {
  return reinterpret_cast<CompiledObject*>(object);
}

// The callable inside; borrowed.
inline PyObject* CallableIn(PyObject* instance) {
  return AsCompiledObject(instance)->compiled->callable();
}

// A new instance of a type. Null with a Python error set.
PyObject* NewCompiledObject(PyTypeObject* type, PyRef callable, PyRef arguments,
                            PyRef error, CompiledOptions options);

// The subtype of CompiledModule and of a class of modules, for instances of
// that. Null with a Python error set, a TypeError if there can be none.
PyRef CompiledClassFor(PyTypeObject* type);

// Forgets what a compiled module's forward() by itself is served by; nothing if
// `self` is no compiled module.
void DropForward(PyObject* self);

// The subtype of Compiled that `spec` describes. Null with a Python error set.
PyTypeObject* MakeCompiledSubtype(PyType_Spec* spec);

// What the type and its subtypes have in common: flags, members,
inline constexpr unsigned int kCompiledFlags =
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
    Py_TPFLAGS_IMMUTABLETYPE;
inline constexpr PyMemberDef kVectorcallOffset = {
    "__vectorcalloffset__", T_PYSSIZET, offsetof(CompiledObject, vectorcall),
    READONLY, nullptr};
inline constexpr PyMemberDef kWeakListOffset = {
    "__weaklistoffset__", T_PYSSIZET, offsetof(CompiledObject, weak_references),
    READONLY, nullptr};
// and slots.
void DeallocCompiled(PyObject* self);
int TraverseCompiled(PyObject* self, visitproc visit, void* arg);
int ClearCompiled(PyObject* self);

template <typename F>
void* AsSlot(F* function) {
  return reinterpret_cast<void*>(function);
}

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_SERVE_COMPILED_OBJECT_H_
