// The Python type of a Compiled.

#include <cstddef>
#include <memory>
#include <utility>

#include "python/capture/compiled.h"
#include "python/capture/stance.h"
#include "python/interpreter/py_ref.h"

namespace mica {
namespace {

struct CompiledObject {
  PyObject_HEAD;
  vectorcallfunc vectorcall;
  PyObject* weak_references;
  Compiled* compiled;
};

PyTypeObject* compiled_type = nullptr;

CompiledObject* Cast(PyObject* object) {
  return reinterpret_cast<CompiledObject*>(object);
}

// The arguments as Python's calling convention of a tuple and a dict.
PyObject* CallChecker(PyObject* self, const CallArgs& args) {
  PyRef positional = PyRef::Steal(PyTuple_New(args.num_positional));
  PyRef keywords = PyRef::Steal(PyDict_New());
  if (!positional || !keywords) return nullptr;
  for (Py_ssize_t i = 0; i < args.num_positional; ++i) {
    Py_INCREF(args.args[i]);
    PyTuple_SET_ITEM(positional.get(), i, args.args[i]);
  }
  for (Py_ssize_t i = 0; i < args.num_keywords(); ++i) {
    if (PyDict_SetItem(keywords.get(), PyTuple_GET_ITEM(args.keyword_names, i),
                       args.args[args.num_positional + i]) != 0) {
      return nullptr;
    }
  }
  return PyObject_CallFunctionObjArgs(Checker(), self, positional.get(),
                                      keywords.get(), nullptr);
}

PyObject* VectorCall(PyObject* self, PyObject* const* args, size_t count,
                     PyObject* keyword_names) {
  const CallArgs call{.args = args,
                      .num_positional = PyVectorcall_NARGS(count),
                      .keyword_names = keyword_names};
  Compiled& compiled = *Cast(self)->compiled;
  const Stance stance = CurrentStance();
  if (stance == Stance::kForceEager) return compiled.CallEagerly(call);
  if (stance == Stance::kCheck && Checker() != nullptr && !IsCapturing() &&
      !IsDisabled()) {
    return CallChecker(self, call);
  }
  return compiled.Call(call);
}

PyObject* NewInstance(PyTypeObject* type, PyRef callable, PyRef error,
                      CompiledOptions options) {
  PyObject* self = type->tp_alloc(type, 0);
  if (self == nullptr) return nullptr;
  Cast(self)->vectorcall = &VectorCall;
  Cast(self)->compiled =
      new Compiled(std::move(callable), std::move(error), std::move(options));
  return self;
}

// Compiled(callable, error, frozen, fullgraph, exact, disabled, num_threads,
//          num_streams, queue, max_records, logs, make_runner)
PyObject* New(PyTypeObject* type, PyObject* args, PyObject* /*keywords*/) {
  PyObject *callable = nullptr, *error = nullptr;
  int frozen = 0, fullgraph = 0, exact = 0, disabled = 0, num_threads = 1;
  int num_streams = 1, queue = 0;
  int max_records = 0;
  const char* logs = nullptr;
  PyObject* make_runner = nullptr;
  if (!PyArg_ParseTuple(args, "OOppppiipisO", &callable, &error, &frozen,
                        &fullgraph, &exact, &disabled, &num_threads,
                        &num_streams, &queue, &max_records, &logs,
                        &make_runner)) {
    return nullptr;
  }
  CompiledOptions options;
  options.capture.graph.frozen = frozen != 0;
  options.capture.graph.exact = exact != 0;
  options.capture.graph.num_threads = num_threads;
  options.capture.graph.num_streams = num_streams;
  options.capture.graph.queue = queue != 0;
  if (make_runner != Py_None) {
    options.capture.make_runner = PyRef::Share(make_runner);
  }
  options.fullgraph = fullgraph != 0;
  options.disabled = disabled != 0;
  options.max_records = max_records;
  const std::string words = std::string(",") + logs + ",";
  options.log_guards = words.find(",guards,") != std::string::npos;
  options.log_recompiles = words.find(",recompiles,") != std::string::npos;
  options.log_graph = words.find(",graph,") != std::string::npos;
  return NewInstance(type, PyRef::Share(callable), PyRef::Share(error),
                     std::move(options));
}

void Dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  if (Cast(self)->weak_references != nullptr) PyObject_ClearWeakRefs(self);
  delete Cast(self)->compiled;
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

int Traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (Cast(self)->compiled == nullptr) return 0;
  return Cast(self)->compiled->Traverse(visit, arg);
}

int Clear(PyObject* self) {
  // The records go first: they name parts of the callable.
  Cast(self)->compiled->Reset();
  Cast(self)->compiled->DropCallable();
  return 0;
}

// A module's method that returns the module (eval, to) gives the Compiled.
PyObject* CallForwarded(PyObject* pair, PyObject* args, PyObject* keywords) {
  PyObject* self = PyTuple_GET_ITEM(pair, 0);
  PyRef result =
      PyRef::Steal(PyObject_Call(PyTuple_GET_ITEM(pair, 1), args, keywords));
  if (result && result.get() == UnwrapCompiled(self)) {
    return PyRef::Share(self).release();
  }
  return result.release();
}

PyMethodDef forwarded = {
    "forwarded",
    reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(&CallForwarded)),
    METH_VARARGS | METH_KEYWORDS, "A method of the compiled callable."};

PyObject* GetAttribute(PyObject* self, PyObject* name) {
  PyObject* own = PyObject_GenericGetAttr(self, name);
  if (own != nullptr || !PyErr_ExceptionMatches(PyExc_AttributeError)) {
    return own;
  }
  PyErr_Clear();
  PyObject* callable = Cast(self)->compiled->callable();
  PyRef value = PyRef::Steal(PyObject_GetAttr(callable, name));
  if (!value || !PyMethod_Check(value.get()) ||
      PyMethod_GET_SELF(value.get()) != callable) {
    return value.release();
  }
  PyRef pair = PyRef::Steal(PyTuple_Pack(2, self, value.get()));
  return pair ? PyCFunction_New(&forwarded, pair.get()) : nullptr;
}

int SetAttribute(PyObject* self, PyObject* name, PyObject* value) {
  return PyObject_SetAttr(Cast(self)->compiled->callable(), name, value);
}

// A compiled function in a class body is a method, as a plain one is.
PyObject* Get(PyObject* self, PyObject* object, PyObject* /*type*/) {
  if (object == nullptr || object == Py_None ||
      !PyFunction_Check(Cast(self)->compiled->callable())) {
    return PyRef::Share(self).release();
  }
  return PyMethod_New(self, object);
}

PyObject* Repr(PyObject* self) {
  return PyUnicode_FromFormat("mica.compile(%R)",
                              Cast(self)->compiled->callable());
}

PyObject* Report(PyObject* self, PyObject* /*unused*/) {
  return Cast(self)->compiled->Report();
}

PyObject* Matches(PyObject* self, PyObject* const* args, Py_ssize_t count,
                  PyObject* keyword_names) {
  return PyBool_FromLong(Cast(self)->compiled->Matches(
      {.args = args, .num_positional = count, .keyword_names = keyword_names}));
}

PyObject* Describe(PyObject* self, PyObject* const* args, Py_ssize_t count,
                   PyObject* keyword_names) {
  return Cast(self)->compiled->Describe(
      {.args = args, .num_positional = count, .keyword_names = keyword_names});
}

PyObject* Records(PyObject* self, PyObject* /*unused*/) {
  return Cast(self)->compiled->Describe();
}

PyObject* Touched(PyObject* self, PyObject* const* args, Py_ssize_t count,
                  PyObject* keyword_names) {
  return Cast(self)->compiled->Touched(
      {.args = args, .num_positional = count, .keyword_names = keyword_names});
}

PyObject* Rehearse(PyObject* self, PyObject* const* args, Py_ssize_t count,
                   PyObject* keyword_names) {
  return Cast(self)->compiled->Rehearse(
      {.args = args, .num_positional = count, .keyword_names = keyword_names});
}

PyObject* Watch(PyObject* self, PyObject* const* args, Py_ssize_t count,
                PyObject* keyword_names) {
  return Cast(self)->compiled->Watch(
      {.args = args, .num_positional = count, .keyword_names = keyword_names});
}

// A call as in the stance "default".
PyObject* CallPlainly(PyObject* self, PyObject* const* args, Py_ssize_t count,
                      PyObject* keyword_names) {
  return Cast(self)->compiled->Call(
      {.args = args, .num_positional = count, .keyword_names = keyword_names});
}

PyObject* Reset(PyObject* self, PyObject* /*unused*/) {
  Cast(self)->compiled->Reset();
  Py_RETURN_NONE;
}

PyObject* Wrapped(PyObject* self, void* /*unused*/) {
  return PyRef::Share(Cast(self)->compiled->callable()).release();
}

PyObject* Doc(PyObject* self, void* /*unused*/) {
  return PyObject_GetAttrString(Cast(self)->compiled->callable(), "__doc__");
}

// Of methods that take a call's arguments, in vectorcall's form.
constexpr int kTakesAll = METH_FASTCALL | METH_KEYWORDS;
PyCFunction AsMethod(_PyCFunctionFastWithKeywords method) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(method));
}

PyMethodDef methods[] = {
    {"_mica_report", &Report, METH_NOARGS,
     "What explain() shows, as a dict of lists, numbers and texts."},
    {"_mica_matches", AsMethod(&Matches), kTakesAll,
     "Whether the most recent record fits a call, which isn't made."},
    {"_mica_describe", AsMethod(&Describe), kTakesAll,
     "The record that fits a call, which isn't made, as a dict; or None."},
    {"_mica_records", &Records, METH_NOARGS,
     "Each record as a dict, most recently hit first."},
    {"_mica_touched", AsMethod(&Touched), kTakesAll,
     "What a hit may touch of the program's state; None if none would serve."},
    {"_mica_rehearse", AsMethod(&Rehearse), kTakesAll,
     "A hit without its calls into the world outside: the result and those."},
    {"_mica_watch", AsMethod(&Watch), kTakesAll,
     "An eager run: its result, and its calls into the world outside."},
    {"_mica_call", AsMethod(&CallPlainly), kTakesAll,
     "A call whatever the stance is."},
    {"_mica_reset", &Reset, METH_NOARGS,
     "Forgets all records, refusals and statistics."},
    {nullptr, nullptr, 0, nullptr}};

PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(CompiledObject, vectorcall),
     READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET,
     offsetof(CompiledObject, weak_references), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

PyGetSetDef getters[] = {
    {"__wrapped__", &Wrapped, nullptr, "The callable inside.", nullptr},
    {"__doc__", &Doc, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

template <typename F>
void* Slot(F* function) {
  return reinterpret_cast<void*>(function);
}

}  // namespace

PyObject* MakeCompiledType() {
  if (compiled_type == nullptr) {
    PyType_Slot slots[] = {{Py_tp_new, Slot(&New)},
                           {Py_tp_dealloc, Slot(&Dealloc)},
                           {Py_tp_traverse, Slot(&Traverse)},
                           {Py_tp_clear, Slot(&Clear)},
                           {Py_tp_call, Slot(&PyVectorcall_Call)},
                           {Py_tp_getattro, Slot(&GetAttribute)},
                           {Py_tp_setattro, Slot(&SetAttribute)},
                           {Py_tp_descr_get, Slot(&Get)},
                           {Py_tp_repr, Slot(&Repr)},
                           {Py_tp_methods, methods},
                           {Py_tp_members, members},
                           {Py_tp_getset, getters},
                           {0, nullptr}};
    PyType_Spec spec = {"mica._mica.Compiled", sizeof(CompiledObject), 0,
                        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC |
                            Py_TPFLAGS_HAVE_VECTORCALL |
                            Py_TPFLAGS_IMMUTABLETYPE,
                        slots};
    compiled_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
    if (compiled_type == nullptr) return nullptr;
  }
  return PyRef::Share(reinterpret_cast<PyObject*>(compiled_type)).release();
}

PyObject* UnwrapCompiled(PyObject* object) {
  return Py_TYPE(object) == compiled_type ? Cast(object)->compiled->callable()
                                          : nullptr;
}

PyRef MakeCompiled(PyRef callable, PyRef error, CompiledOptions options) {
  return PyRef::Steal(NewInstance(compiled_type, std::move(callable),
                                  std::move(error), std::move(options)));
}

Compiled* CompiledOf(PyObject* instance) { return Cast(instance)->compiled; }

}  // namespace mica
