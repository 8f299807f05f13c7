// The Python type of a Compiled, and how it is called.

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "framework/base/hit_code.h"
#include "python/capture/known/stand_ins.h"
#include "python/capture/serve/compiled_object.h"
#include "python/capture/serve/stance.h"
#include "python/interpreter/contained.h"
#include "python/interpreter/interpreter.h"
#include "python/interpreter/py_ref.h"

namespace mica {
namespace {

PyTypeObject* compiled_type = nullptr;

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

MICA_HIT_CODE PyObject* VectorCall(PyObject* self, PyObject* const* args,
                                   size_t count, PyObject* keyword_names) {
  const CallArgs call{.args = args,
                      .num_positional = PyVectorcall_NARGS(count),
                      .keyword_names = keyword_names};
  Compiled& compiled = *AsCompiledObject(self)->compiled;
  const Stance stance = CurrentStance();
  if (stance == Stance::kForceEager) return compiled.CallEagerly(call);
  if (stance == Stance::kCheck && Checker() != nullptr && !IsCapturing() &&
      !IsDisabled()) {
    return CallChecker(self, call);
  }
  return compiled.Call(call);
}

PyObject* Report(PyObject* self, PyObject* /*unused*/) {
  return AsCompiledObject(self)->compiled->Report();
}

PyObject* Hits(PyObject* self, PyObject* /*unused*/) {
  return PyLong_FromLongLong(AsCompiledObject(self)->compiled->hits());
}

PyObject* Matches(PyObject* self, PyObject* const* args, Py_ssize_t count,
                  PyObject* keyword_names) {
  return PyBool_FromLong(AsCompiledObject(self)->compiled->Matches(
      {.args = args, .num_positional = count, .keyword_names = keyword_names}));
}

PyObject* Describe(PyObject* self, PyObject* const* args, Py_ssize_t count,
                   PyObject* keyword_names) {
  return AsCompiledObject(self)->compiled->Describe(
      {.args = args, .num_positional = count, .keyword_names = keyword_names});
}

PyObject* Records(PyObject* self, PyObject* /*unused*/) {
  return AsCompiledObject(self)->compiled->Describe();
}

// The first two arguments, a tuple of (name, ((input, dim), ...), least,
// greatest) and one of (results, how many numbers), are no part of the call.
PyObject* Symbolic(PyObject* self, PyObject* const* args, Py_ssize_t count,
                   PyObject* keyword_names) {
  std::vector<NamedSize> open;
  std::vector<int> results;
  PyObject* result_numbers = nullptr;
  int num_numbers = 0;
  if (count < 2 || !PyTuple_Check(args[0]) ||
      PyArg_ParseTuple(args[1], "O!i", &PyTuple_Type, &result_numbers,
                       &num_numbers) == 0) {
    return nullptr;
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args[0]); ++i) {
    const char* name = nullptr;
    PyObject* dims = nullptr;
    NamedSize size;
    if (PyArg_ParseTuple(PyTuple_GET_ITEM(args[0], i), "sO!LL", &name,
                         &PyTuple_Type, &dims, &size.least,
                         &size.greatest) == 0) {
      return nullptr;
    }
    size.name = name;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(dims); ++k) {
      auto& [input, dim] = size.dims.emplace_back();
      if (PyArg_ParseTuple(PyTuple_GET_ITEM(dims, k), "ii", &input, &dim) ==
          0) {
        return nullptr;
      }
    }
    open.push_back(std::move(size));
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(result_numbers); ++i) {
    results.push_back(
        static_cast<int>(PyLong_AsLong(PyTuple_GET_ITEM(result_numbers, i))));
  }
  return AsCompiledObject(self)->compiled->Symbolic(
      open, results, num_numbers,
      {.args = args + 2,
       .num_positional = count - 2,
       .keyword_names = keyword_names});
}

PyObject* Touched(PyObject* self, PyObject* const* args, Py_ssize_t count,
                  PyObject* keyword_names) {
  return AsCompiledObject(self)->compiled->Touched(
      {.args = args, .num_positional = count, .keyword_names = keyword_names});
}

PyObject* Rehearse(PyObject* self, PyObject* const* args, Py_ssize_t count,
                   PyObject* keyword_names) {
  return AsCompiledObject(self)->compiled->Rehearse(
      {.args = args, .num_positional = count, .keyword_names = keyword_names});
}

PyObject* Watch(PyObject* self, PyObject* const* args, Py_ssize_t count,
                PyObject* keyword_names) {
  return AsCompiledObject(self)->compiled->Watch(
      {.args = args, .num_positional = count, .keyword_names = keyword_names});
}

// A call as in the stance "default".
PyObject* CallPlainly(PyObject* self, PyObject* const* args, Py_ssize_t count,
                      PyObject* keyword_names) {
  return AsCompiledObject(self)->compiled->Call(
      {.args = args, .num_positional = count, .keyword_names = keyword_names});
}

PyObject* Reset(PyObject* self, PyObject* /*unused*/) {
  AsCompiledObject(self)->compiled->Reset();
  DropForward(self);
  Py_RETURN_NONE;
}

PyObject* Wrapped(PyObject* self, void* /*unused*/) {
  return PyRef::Share(CallableIn(self)).release();
}

PyObject* Arguments(PyObject* self, void* /*unused*/) {
  PyObject* arguments = AsCompiledObject(self)->arguments;
  return PyRef::Share(arguments == nullptr ? Py_None : arguments).release();
}

// Of methods that take a call's arguments, in vectorcall's form.
constexpr int kTakesAll = METH_FASTCALL | METH_KEYWORDS;
PyCFunction AsMethod(_PyCFunctionFastWithKeywords method) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(method));
}

PyMethodDef type_methods[] = {
    {"_mica_report", &ContainedCall<&Report>::Run, METH_NOARGS,
     "What explain() shows, as a dict of lists, numbers and texts."},
    {"_mica_hits", &ContainedCall<&Hits>::Run, METH_NOARGS,
     "How many calls a record has served."},
    {"_mica_matches", AsMethod(&ContainedCall<&Matches>::Run), kTakesAll,
     "Whether the most recent record fits a call, which isn't made."},
    {"_mica_describe", AsMethod(&ContainedCall<&Describe>::Run), kTakesAll,
     "The record that fits a call, which isn't made, as a dict; or None."},
    {"_mica_symbolic", AsMethod(&ContainedCall<&Symbolic>::Run), kTakesAll,
     "The Program of the record that fits a call, with symbols for sizes."},
    {"_mica_records", &ContainedCall<&Records>::Run, METH_NOARGS,
     "Each record as a dict, most recently hit first."},
    {"_mica_touched", AsMethod(&ContainedCall<&Touched>::Run), kTakesAll,
     "What a hit may touch of the program's state; None if none would serve."},
    {"_mica_rehearse", AsMethod(&ContainedCall<&Rehearse>::Run), kTakesAll,
     "A hit without its calls into the world outside: the result and those."},
    {"_mica_watch", AsMethod(&ContainedCall<&Watch>::Run), kTakesAll,
     "An eager run: its result, and its calls into the world outside."},
    {"_mica_call", AsMethod(&ContainedCall<&CallPlainly>::Run), kTakesAll,
     "A call whatever the stance is."},
    {"_mica_reset", &ContainedCall<&Reset>::Run, METH_NOARGS,
     "Forgets all records, refusals and statistics."},
    {nullptr, nullptr, 0, nullptr}};

PyMemberDef type_members[] = {
    kVectorcallOffset, kWeakListOffset, {nullptr, 0, 0, 0, nullptr}};

PyGetSetDef type_getters[] = {
    {"__wrapped__", &Wrapped, nullptr, "The callable inside.", nullptr},
    {"_mica_arguments", &Arguments, nullptr, "Those of mica.compile.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

// Of what compiles a callable. Null with a Python error set.
PyRef TypeFor(PyObject* callable) {
  if (IsTorchModule(callable)) {
    PyRef type = CompiledClassFor(Py_TYPE(callable));
    if (type || !PyErr_ExceptionMatches(PyExc_TypeError)) return type;
    PyErr_Clear();  // It has slots of its own, or a base in C.
  }
  return PyRef::Share(reinterpret_cast<PyObject*>(CompiledFunctionType()));
}

}  // namespace

PyObject* NewCompiledObject(PyTypeObject* type, PyRef callable, PyRef arguments,
                            PyRef error, CompiledOptions options) {
  PyObject* self = type->tp_alloc(type, 0);
  if (self == nullptr) return nullptr;
  CompiledObject* object = AsCompiledObject(self);
  object->vectorcall = &ContainedCall<&VectorCall>::Run;
  object->compiled =
      new Compiled(std::move(callable), std::move(error), std::move(options));
  object->arguments = arguments.release();
  return self;
}

void DeallocCompiled(PyObject* self) {
  PyObject_GC_UnTrack(self);
  CompiledObject* object = AsCompiledObject(self);
  if (object->weak_references != nullptr) PyObject_ClearWeakRefs(self);
  delete object->compiled;
  Py_CLEAR(object->arguments);
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

int TraverseCompiled(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(AsCompiledObject(self)->arguments);
  const Compiled* compiled = AsCompiledObject(self)->compiled;
  return compiled == nullptr ? 0 : compiled->Traverse(visit, arg);
}

int ClearCompiled(PyObject* self) {
  // The records go first: they name parts of the callable.
  AsCompiledObject(self)->compiled->Reset();
  AsCompiledObject(self)->compiled->DropCallable();
  Py_CLEAR(AsCompiledObject(self)->arguments);
  return 0;
}

PyObject* MakeCompiledType() {
  if (compiled_type == nullptr) {
    PyType_Slot slots[] = {{Py_tp_dealloc, AsSlot(&DeallocCompiled)},
                           {Py_tp_traverse, AsSlot(&TraverseCompiled)},
                           {Py_tp_clear, AsSlot(&ClearCompiled)},
                           {Py_tp_call, AsSlot(&PyVectorcall_Call)},
                           {Py_tp_methods, type_methods},
                           {Py_tp_members, type_members},
                           {Py_tp_getset, type_getters},
                           {0, nullptr}};
    PyType_Spec spec = {"mica._mica.Compiled", sizeof(CompiledObject), 0,
                        kCompiledFlags | Py_TPFLAGS_BASETYPE |
                            Py_TPFLAGS_DISALLOW_INSTANTIATION,
                        slots};
    compiled_type = AsType(PyType_FromSpec(&spec));
    if (compiled_type == nullptr) return nullptr;
    SetStandIn(compiled_type, CallableIn);
  }
  return PyRef::Share(reinterpret_cast<PyObject*>(compiled_type)).release();
}

PyTypeObject* MakeCompiledSubtype(PyType_Spec* spec) {
  const PyRef base = PyRef::Steal(MakeCompiledType());
  if (!base) return nullptr;
  return AsType(PyType_FromSpecWithBases(spec, base.get()));
}

PyRef MakeCompiled(PyRef callable, PyRef error, CompiledOptions options) {
  PyTypeObject* type = CompiledFunctionType();
  if (type == nullptr) return PyRef();
  return PyRef::Steal(NewCompiledObject(type, std::move(callable), PyRef(),
                                        std::move(error), std::move(options)));
}

PyObject* MakeCompiledFromPython(PyObject* args) {
  PyObject *callable = nullptr, *arguments = nullptr;
  PyObject *error = nullptr, *make_runner = nullptr;
  int frozen = 0, fullgraph = 0, exact = 0, checks_accuracy = 0;
  int disabled = 0, num_threads = 1;
  int num_streams = 1, queue = 0;
  int max_records = 0, vary_sizes = 1;
  double capture_budget = 0;
  const char* logs = nullptr;
  const char* offload_folder = nullptr;
  const char* precision = nullptr;
  if (!PyArg_ParseTuple(
          args, "OO!OpssppppiipipdsO", &callable, &PyDict_Type, &arguments,
          &error, &frozen, &offload_folder, &precision, &fullgraph, &exact,
          &checks_accuracy, &disabled, &num_threads, &num_streams, &queue,
          &max_records, &vary_sizes, &capture_budget, &logs, &make_runner)) {
    return nullptr;
  }
  const absl::StatusOr<Precision> parsed = ParsePrecision(precision);
  if (!parsed.ok()) {
    PyErr_SetString(
        PyExc_ValueError,
        absl::StrCat("mica.compile: ", parsed.status().message()).c_str());
    return nullptr;
  }
  const PyRef type = TypeFor(callable);
  if (!type) return nullptr;
  CompiledOptions options;
  options.capture.graph.precision = *parsed;
  options.capture.graph.frozen = frozen != 0;
  options.capture.graph.offload_folder = offload_folder;
  options.capture.graph.exact = exact != 0;
  options.capture.graph.checks_accuracy = checks_accuracy != 0;
  options.capture.graph.num_threads = num_threads;
  options.capture.graph.num_streams = num_streams;
  options.capture.graph.queue = queue != 0;
  if (make_runner != Py_None) {
    options.capture.make_runner = PyRef::Share(make_runner);
  }
  options.fullgraph = fullgraph != 0;
  options.disabled = disabled != 0;
  options.max_records = max_records;
  options.capture.vary_sizes = vary_sizes != 0;
  options.capture_budget = capture_budget;
  const std::string words = std::string(",") + logs + ",";
  options.log_guards = words.find(",guards,") != std::string::npos;
  options.log_recompiles = words.find(",recompiles,") != std::string::npos;
  options.log_graph = words.find(",graph,") != std::string::npos;
  return NewCompiledObject(AsType(type.get()), PyRef::Share(callable),
                           PyRef::Share(arguments), PyRef::Share(error),
                           std::move(options));
}

Compiled* CompiledOf(PyObject* instance) {
  return AsCompiledObject(instance)->compiled;
}

}  // namespace mica
