// The Python type of a compiled torch.nn.Module.
//
// Each class of modules has a class of compiled ones, a subclass of both this
// type and it (mica/modules.py). An instance's __dict__ is the very dict of the
// module inside: parameters, buffers, children, hooks and all else that Python
// code sets on either is the other's too, and torch's own methods work on it as
// they stand. Calls go to the Compiled, whose self is the module inside.
//
// The module inside may get another class (torch.nn.utils.parametrize does
// that) or another __dict__; whoever asks the compiled one for an attribute
// finds it following.

#include <cstddef>
#include <utility>

#include "python/capture/serve/compiled_object.h"
#include "python/capture/serve/stance.h"
#include "python/interpreter/interpreter.h"

namespace mica {
namespace {

struct CompiledModuleObject {
  CompiledObject base;
  PyObject* dict;     // The module's.
  PyObject* forward;  // Its forward(), compiled by itself; or null.
};

CompiledModuleObject* Cast(PyObject* object) {
  return reinterpret_cast<CompiledModuleObject*>(object);
}

// The class of modules that a class of compiled ones is for. Borrowed.
PyTypeObject* ClassInside(PyTypeObject* type) {
  return AsType(PyTuple_GET_ITEM(type->tp_bases, 1));
}

// Takes over the class and the __dict__ of the module inside. False with a
// Python error set.
bool Follow(PyObject* self) {
  PyObject* inside = CallableIn(self);
  if (inside == nullptr) return true;  // It is being collected.
  PyObject* dict = InstanceDict(inside);
  if (dict != Cast(self)->dict) {
    Py_XINCREF(dict);
    Py_XSETREF(Cast(self)->dict, dict);
  }
  if (ClassInside(Py_TYPE(self)) == Py_TYPE(inside)) return true;
  PyRef made = CompiledClassFor(Py_TYPE(inside));
  if (!made) return false;
  PyTypeObject* before = Py_TYPE(self);
  Py_SET_TYPE(self, AsType(made.release()));
  Py_DECREF(before);
  return true;
}

// forward() by itself is served, too, if it is the class's.
PyObject* GetForward(PyObject* self) {
  PyObject* inside = CallableIn(self);
  static PyObject* word = Interned("forward");
  PyObject* function = _PyType_Lookup(Py_TYPE(inside), word);
  if (function == nullptr || !PyFunction_Check(function)) return nullptr;
  if (PyDict_GetItemWithError(Cast(self)->dict, word) != nullptr) {
    return nullptr;
  }
  PyObject* known = Cast(self)->forward;
  if (known != nullptr &&
      PyMethod_GET_FUNCTION(CallableIn(known)) == function) {
    return PyRef::Share(known).release();
  }
  const PyRef method = PyRef::Steal(PyMethod_New(function, inside));
  const PyRef module = PyRef::Steal(PyImport_ImportModule("mica.copies"));
  if (!method || !module) return nullptr;
  PyRef made = PyRef::Steal(PyObject_CallMethod(module.get(), "compile_alike",
                                                "OO", self, method.get()));
  if (!made) return nullptr;
  Py_XSETREF(Cast(self)->forward, PyRef(made).release());
  return made.release();
}

PyObject* GetModuleAttribute(PyObject* self, PyObject* name) {
  if (!Follow(self)) return nullptr;
  PyObject* inside = CallableIn(self);
  static PyObject* own_getter = Interned("__getattribute__");
  static PyObject* objects_getter =
      _PyType_Lookup(&PyBaseObject_Type, own_getter);
  if (inside != nullptr &&
      _PyType_Lookup(Py_TYPE(inside), own_getter) != objects_getter) {
    // The class has its own way, which knows nothing of this one.
    PyObject* found = PyObject_GenericGetAttr(self, name);
    if (found != nullptr || !PyErr_ExceptionMatches(PyExc_AttributeError)) {
      return found;
    }
    PyErr_Clear();
    return PyObject_GetAttr(inside, name);
  }
  if (inside != nullptr && !IsCapturing() && PyUnicode_Check(name) &&
      PyUnicode_CompareWithASCIIString(name, "forward") == 0) {
    PyObject* forward = GetForward(self);
    if (forward != nullptr || PyErr_Occurred()) return forward;
  }
  return PyObject_GenericGetAttr(self, name);
}

PyObject* GetClass(PyObject* self, void* /*unused*/) {
  PyObject* inside = CallableIn(self);
  if (inside == nullptr) inside = self;
  return PyRef::Share(reinterpret_cast<PyObject*>(Py_TYPE(inside))).release();
}

int SetClass(PyObject* self, PyObject* type, void* /*unused*/) {
  const PyRef word = PyRef::Steal(PyUnicode_FromString("__class__"));
  if (!word) return -1;
  if (type != nullptr && PyType_Check(type) &&
      PyType_IsSubtype(AsType(type), CompiledModuleType()) != 0) {
    type = reinterpret_cast<PyObject*>(ClassInside(AsType(type)));
  }
  // As object does, past what the class may have set up for its attributes.
  if (PyObject_GenericSetAttr(CallableIn(self), word.get(), type) != 0) {
    return -1;
  }
  return Follow(self) ? 0 : -1;
}

PyObject* GetDict(PyObject* self, void* /*unused*/) {
  if (!Follow(self)) return nullptr;
  return PyRef::Share(Cast(self)->dict).release();
}

int SetDict(PyObject* self, PyObject* dict, void* /*unused*/) {
  const PyRef word = PyRef::Steal(PyUnicode_FromString("__dict__"));
  if (!word) return -1;
  if (PyObject_GenericSetAttr(CallableIn(self), word.get(), dict) != 0) {
    return -1;
  }
  return Follow(self) ? 0 : -1;
}

// What a comparison looks at: hooks get the module inside, and who keeps
// modules in dicts and sets finds it by either.
PyObject* Inside(PyObject* object) {
  if (PyType_IsSubtype(Py_TYPE(object), CompiledModuleType()) == 0) {
    return object;
  }
  PyObject* inside = CallableIn(object);
  return inside == nullptr ? Py_None : inside;  // It is being collected.
}

PyObject* Compare(PyObject* self, PyObject* other, int how) {
  return PyObject_RichCompare(Inside(self), Inside(other), how);
}

Py_hash_t Hash(PyObject* self) { return PyObject_Hash(Inside(self)); }

// A call of the class makes a module that isn't compiled.
PyObject* New(PyTypeObject* type, PyObject* args, PyObject* keywords) {
  if (type == CompiledModuleType()) {
    PyErr_SetString(PyExc_TypeError, "mica.compile makes compiled modules");
    return nullptr;
  }
  return PyObject_Call(reinterpret_cast<PyObject*>(ClassInside(type)), args,
                       keywords);
}

// The module's __del__ is called when that dies.
void Finalize(PyObject* /*self*/) {}

// The module's class may keep a list of those that derive from it.
PyObject* IgnoreSubclass(PyObject* /*type*/, PyObject* /*unused*/) {
  Py_RETURN_NONE;
}

void Dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  Py_CLEAR(Cast(self)->dict);
  Py_CLEAR(Cast(self)->forward);
  DeallocCompiled(self);
}

int Traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Cast(self)->dict);
  Py_VISIT(Cast(self)->forward);
  return TraverseCompiled(self, visit, arg);
}

int Clear(PyObject* self) {
  Py_CLEAR(Cast(self)->dict);
  Py_CLEAR(Cast(self)->forward);
  return ClearCompiled(self);
}

PyMethodDef module_methods[] = {
    {"__init_subclass__", &IgnoreSubclass, METH_CLASS | METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

PyMemberDef module_members[] = {
    kVectorcallOffset,
    kWeakListOffset,
    {"__dictoffset__", T_PYSSIZET, offsetof(CompiledModuleObject, dict),
     READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

PyGetSetDef module_getters[] = {
    {"__class__", &GetClass, &SetClass, nullptr, nullptr},
    {"__dict__", &GetDict, &SetDict, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

}  // namespace

PyTypeObject* CompiledModuleType() {
  static PyTypeObject* type = nullptr;
  if (type != nullptr) return type;
  PyType_Slot slots[] = {{Py_tp_new, AsSlot(&New)},
                         {Py_tp_dealloc, AsSlot(&Dealloc)},
                         {Py_tp_finalize, AsSlot(&Finalize)},
                         {Py_tp_traverse, AsSlot(&Traverse)},
                         {Py_tp_clear, AsSlot(&Clear)},
                         {Py_tp_call, AsSlot(&PyVectorcall_Call)},
                         {Py_tp_getattro, AsSlot(&GetModuleAttribute)},
                         {Py_tp_richcompare, AsSlot(&Compare)},
                         {Py_tp_hash, AsSlot(&Hash)},
                         {Py_tp_methods, module_methods},
                         {Py_tp_members, module_members},
                         {Py_tp_getset, module_getters},
                         {0, nullptr}};
  PyType_Spec spec = {"mica._mica.CompiledModule", sizeof(CompiledModuleObject),
                      0, kCompiledFlags | Py_TPFLAGS_BASETYPE, slots};
  type = MakeCompiledSubtype(&spec);
  return type;
}

void DropForward(PyObject* self) {
  if (PyType_IsSubtype(Py_TYPE(self), CompiledModuleType()) == 0) return;
  Py_CLEAR(Cast(self)->forward);
}

PyRef CompiledClassFor(PyTypeObject* type) {
  const PyRef module = PyRef::Steal(PyImport_ImportModule("mica.modules"));
  if (!module) return PyRef();
  return PyRef::Steal(
      PyObject_CallMethod(module.get(), "compiled_class", "O", type));
}

bool FinishModuleClass(PyObject* made) {
  PyTypeObject* type = AsType(made);
  if (!PyType_Check(made) ||
      PyType_IsSubtype(type, CompiledModuleType()) == 0 ||
      type->tp_vectorcall_offset != offsetof(CompiledObject, vectorcall) ||
      type->tp_call != &PyVectorcall_Call) {
    return false;
  }
  // Nobody may set __call__ on it any more: calls are C's. What is set on the
  // class of a compiled module would not be found by the one inside.
  type->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_IMMUTABLETYPE;
  type->tp_flags &= ~Py_TPFLAGS_BASETYPE;
  return true;
}

}  // namespace mica
