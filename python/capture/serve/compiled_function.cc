// The Python type of what is compiled and is no torch.nn.Module: attributes are
// those of the callable inside.

#include <cstddef>

#include "python/capture/serve/compiled_object.h"

namespace mica {
namespace {

// A method that returns the object inside gives the compiled one.
PyObject* CallForwarded(PyObject* pair, PyObject* args, PyObject* keywords) {
  PyObject* self = PyTuple_GET_ITEM(pair, 0);
  PyRef result =
      PyRef::Steal(PyObject_Call(PyTuple_GET_ITEM(pair, 1), args, keywords));
  if (result && result.get() == CallableIn(self)) {
    return PyRef::Share(self).release();
  }
  return result.release();
}

PyMethodDef forwarded = {
    "forwarded",
    reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(&CallForwarded)),
    METH_VARARGS | METH_KEYWORDS, "A method of the compiled callable."};

PyObject* GetFunctionAttribute(PyObject* self, PyObject* name) {
  // The type has one, too, which would be found first.
  if (PyUnicode_Check(name) &&
      PyUnicode_CompareWithASCIIString(name, "__module__") == 0) {
    return PyObject_GetAttr(CallableIn(self), name);
  }
  PyObject* own = PyObject_GenericGetAttr(self, name);
  if (own != nullptr || !PyErr_ExceptionMatches(PyExc_AttributeError)) {
    return own;
  }
  PyErr_Clear();
  PyObject* callable = CallableIn(self);
  PyRef value = PyRef::Steal(PyObject_GetAttr(callable, name));
  if (!value || !PyMethod_Check(value.get()) ||
      PyMethod_GET_SELF(value.get()) != callable) {
    return value.release();
  }
  PyRef pair = PyRef::Steal(PyTuple_Pack(2, self, value.get()));
  return pair ? PyCFunction_New(&forwarded, pair.get()) : nullptr;
}

int SetAttribute(PyObject* self, PyObject* name, PyObject* value) {
  return PyObject_SetAttr(CallableIn(self), name, value);
}

// A compiled function in a class body is a method, as a plain one is.
PyObject* Get(PyObject* self, PyObject* object, PyObject* /*type*/) {
  if (object == nullptr || object == Py_None ||
      !PyFunction_Check(CallableIn(self))) {
    return PyRef::Share(self).release();
  }
  return PyMethod_New(self, object);
}

PyObject* Repr(PyObject* self) {
  return PyUnicode_FromFormat("mica.compile(%R)", CallableIn(self));
}

PyObject* Doc(PyObject* self, void* /*unused*/) {
  return PyObject_GetAttrString(CallableIn(self), "__doc__");
}

// Copies are what mica/copies.py makes of them.
template <const char* name>
PyObject* Copied(PyObject* self, PyObject* args) {
  const PyRef module = PyRef::Steal(PyImport_ImportModule("mica.copies"));
  if (!module) return nullptr;
  const PyRef function =
      PyRef::Steal(PyObject_GetAttrString(module.get(), name));
  const PyRef own = PyRef::Steal(PyTuple_Pack(1, self));
  if (!function || !own) return nullptr;
  const PyRef all = PyRef::Steal(PySequence_Concat(own.get(), args));
  return all ? PyObject_CallObject(function.get(), all.get()) : nullptr;
}

constexpr char kReduce[] = "reduce";
constexpr char kCopy[] = "shallow";
constexpr char kDeepCopy[] = "deep";

PyMethodDef function_methods[] = {
    {"__reduce_ex__", &Copied<kReduce>, METH_VARARGS, nullptr},
    {"__copy__", &Copied<kCopy>, METH_VARARGS, nullptr},
    {"__deepcopy__", &Copied<kDeepCopy>, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

PyMemberDef function_members[] = {
    kVectorcallOffset, kWeakListOffset, {nullptr, 0, 0, 0, nullptr}};

PyGetSetDef function_getters[] = {
    {"__doc__", &Doc, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

}  // namespace

PyTypeObject* CompiledFunctionType() {
  static PyTypeObject* type = nullptr;
  if (type != nullptr) return type;
  PyType_Slot slots[] = {{Py_tp_dealloc, AsSlot(&DeallocCompiled)},
                         {Py_tp_traverse, AsSlot(&TraverseCompiled)},
                         {Py_tp_clear, AsSlot(&ClearCompiled)},
                         {Py_tp_call, AsSlot(&PyVectorcall_Call)},
                         {Py_tp_getattro, AsSlot(&GetFunctionAttribute)},
                         {Py_tp_setattro, AsSlot(&SetAttribute)},
                         {Py_tp_descr_get, AsSlot(&Get)},
                         {Py_tp_repr, AsSlot(&Repr)},
                         {Py_tp_methods, function_methods},
                         {Py_tp_members, function_members},
                         {Py_tp_getset, function_getters},
                         {0, nullptr}};
  PyType_Spec spec = {"mica._mica.CompiledFunction", sizeof(CompiledObject), 0,
                      kCompiledFlags | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                      slots};
  type = MakeCompiledSubtype(&spec);
  return type;
}

}  // namespace mica
