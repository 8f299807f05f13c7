// The module `mica_interpreter_testing`: interpreter.h and stream.h for tests
// in Python, on every version of CPython that has a library of them. No part of
// the package.

#include <memory>
#include <string>

#include "python/interpreter/frame_hook.h"
#include "python/interpreter/instructions.h"
#include "python/interpreter/interpreter.h"
#include "python/interpreter/joins.h"
#include "python/interpreter/keys.h"
#include "python/interpreter/pending_signals.h"
#include "python/interpreter/testing/event_log.h"

namespace mica {
namespace {

PyObject* Share(PyObject* object) {
  return PyRef::Share(object == nullptr ? Py_None : object).release();
}
PyObject* Share(PyTypeObject* type) {
  return Share(reinterpret_cast<PyObject*>(type));
}

// ---- Set-up and the stream. ----

// init(module_type, module_call, torch_dir, mica_dir)
PyObject* Init(PyObject* /*self*/, PyObject* args) {
  PyObject *type = nullptr, *call = nullptr;
  const char *torch_dir = nullptr, *mica_dir = nullptr;
  if (!PyArg_ParseTuple(args, "O!O!ss", &PyType_Type, &type, &PyCode_Type,
                        &call, &torch_dir, &mica_dir) ||
      !InitInterpreter(
          {.torch_dir = torch_dir,
           .mica_dir = mica_dir,
           .module_type = AsType(type),
           .module_call = reinterpret_cast<PyCodeObject*>(call)})) {
    return nullptr;
  }
  Py_RETURN_NONE;
}

// events(fn, args, constants=False, unfollowed="", stepped_over="",
// max_events=0, forks=False): calls fn(*args); gives the lines, and what it
// returned or, as an exception object, raised.
PyObject* Events(PyObject* /*self*/, PyObject* args, PyObject* keywords) {
  static const char* words[] = {"fn",         "args",         "constants",
                                "unfollowed", "stepped_over", "max_events",
                                "forks",      nullptr};
  PyObject *fn = nullptr, *values = nullptr;
  int constants = 0, max_events = 0, forks = 0;
  const char *unfollowed = "", *stepped_over = "";
  if (!PyArg_ParseTupleAndKeywords(
          args, keywords, "OO!|pssip", const_cast<char**>(words), &fn,
          &PyTuple_Type, &values, &constants, &unfollowed, &stepped_over,
          &max_events, &forks)) {
    return nullptr;
  }
  EventLog log({.constants = constants != 0,
                .unfollowed = unfollowed,
                .stepped_over = stepped_over,
                .max_events = static_cast<size_t>(max_events),
                .forks = forks != 0});
  const auto stream = MakeInterpreterStream(&log);
  stream->Start();
  PyRef result = PyRef::Steal(PyObject_Call(fn, values, nullptr));
  stream->Stop();
  log.EndStep(nullptr, /*entered=*/false);
  if (!result) {
    PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    result = PyRef::Steal(value);
  }
  PyRef lines = PyRef::Steal(PyList_New(0));
  for (const std::string& line : log.lines()) {
    const PyRef text = PyRef::Steal(PyUnicode_FromString(line.c_str()));
    if (!text || PyList_Append(lines.get(), text.get()) != 0) return nullptr;
  }
  return Py_BuildValue("(OO)", lines.get(), result.get());
}

// depths(code): the operands before each instruction, -1 where none leads to;
// None for code that can't be followed. All 0 on 3.11.
PyObject* Depths(PyObject* /*self*/, PyObject* code) {
  const auto instructions =
      Instructions::Of(reinterpret_cast<PyCodeObject*>(code));
  if (instructions == nullptr) Py_RETURN_NONE;
  PyRef depths = PyRef::Steal(PyList_New(0));
  for (int unit = 0; unit < instructions->num_units(); ++unit) {
    const Instruction& instruction = instructions->at(unit);
    if (instruction.act == Act::kPartOfStep) continue;
    const PyRef depth = PyRef::Steal(PyLong_FromLong(instruction.depth));
    if (PyList_Append(depths.get(), depth.get()) != 0) return nullptr;
  }
  return depths.release();
}

// ---- Versions and insides of objects. ----

PyObject* VersionOfDict(PyObject* /*self*/, PyObject* dict) {
  if (!PyDict_Check(dict)) return PyErr_Format(PyExc_TypeError, "no dict");
  return PyLong_FromUnsignedLongLong(
      DictVersion(reinterpret_cast<PyDictObject*>(dict)));
}

PyObject* VersionOfType(PyObject* /*self*/, PyObject* type) {
  return PyLong_FromUnsignedLong(TypeVersion(AsType(type)));
}

PyObject* InstanceDictOf(PyObject* /*self*/, PyObject* object) {
  return Share(InstanceDict(object));
}

PyObject* IsGeneratorOf(PyObject* /*self*/, PyObject* object) {
  return PyBool_FromLong(IsGenerator(object));
}

PyObject* IsSuspendedOf(PyObject* /*self*/, PyObject* object) {
  return PyBool_FromLong(IsSuspendedGenerator(object));
}

// slot_value(owner, member)
PyObject* SlotValueOf(PyObject* /*self*/, PyObject* args) {
  PyObject *owner = nullptr, *member = nullptr;
  if (!PyArg_ParseTuple(args, "OO!", &owner, &PyMemberDescr_Type, &member)) {
    return nullptr;
  }
  return Share(SlotValue(owner, member));
}

PyObject* Deque(PyObject* /*self*/, PyObject* /*args*/) {
  return Share(DequeType());
}

PyObject* IsPythonClassOf(PyObject* /*self*/, PyObject* type) {
  return PyBool_FromLong(IsPythonClass(AsType(type)));
}

PyObject* SolidBaseOf(PyObject* /*self*/, PyObject* type) {
  return Share(SolidBase(AsType(type)));
}

PyObject* HasSlotsOf(PyObject* /*self*/, PyObject* type) {
  return PyBool_FromLong(HasSlots(AsType(type)));
}

PyObject* SuperTypeOf(PyObject* /*self*/, PyObject* super) {
  return Share(SuperType(super));
}

PyObject* ProxiedOf(PyObject* /*self*/, PyObject* proxy) {
  return Share(ProxiedMapping(proxy));
}

// The results that a functools.lru_cache keeps; None if it keeps no dict.
PyObject* LruResultsOf(PyObject* /*self*/, PyObject* wrapper) {
  PyObject* dict = LruCacheDict(wrapper);
  if (dict == nullptr) Py_RETURN_NONE;
  PyRef results = PyRef::Steal(PyList_New(0));
  for (PyObject* result : LruCacheResults(dict)) {
    if (PyList_Append(results.get(), result) != 0) return nullptr;
  }
  return results.release();
}

PyObject* NewIntOf(PyObject* /*self*/, PyObject* number) {
  return NewInt(PyLong_AsLongLong(number)).release();
}

// replace_keys(container, others): each key that `others` has by that.
PyObject* ReplaceKeysOf(PyObject* /*self*/, PyObject* args) {
  PyObject *container = nullptr, *others = nullptr;
  if (!PyArg_ParseTuple(args, "OO!", &container, &PyList_Type, &others)) {
    return nullptr;
  }
  ReplaceKeys(container, [others](PyObject* key) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(others); ++i) {
      PyObject* pair = PyList_GET_ITEM(others, i);
      if (PyTuple_GET_ITEM(pair, 0) == key) return PyTuple_GET_ITEM(pair, 1);
    }
    return key;
  });
  Py_RETURN_NONE;
}

// like_set(set, members): one of these in the places of the set's own.
PyObject* LikeSet(PyObject* /*self*/, PyObject* args) {
  PyObject *set = nullptr, *list = nullptr;
  if (!PyArg_ParseTuple(args, "OO!", &set, &PyList_Type, &list)) return nullptr;
  std::vector<PyRef> members;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); ++i) {
    members.push_back(PyRef::Share(PyList_GET_ITEM(list, i)));
  }
  return SetForm::Of(set).Make(Py_TYPE(set), members).release();
}

// ---- Ages. ----

AgeMark* MarkOf(PyObject* capsule) {
  return static_cast<AgeMark*>(PyCapsule_GetPointer(capsule, "AgeMark"));
}

PyObject* MakeAgeMark(PyObject* /*self*/, PyObject* /*args*/) {
  return PyCapsule_New(new AgeMark, "AgeMark",
                       [](PyObject* capsule) { delete MarkOf(capsule); });
}

// age(mark, object): "younger", "older" or "unknown".
PyObject* AgeOf(PyObject* /*self*/, PyObject* args) {
  PyObject *mark = nullptr, *object = nullptr;
  if (!PyArg_ParseTuple(args, "OO", &mark, &object)) return nullptr;
  switch (MarkOf(mark)->Of(object)) {
    case AgeMark::Age::kYounger:
      return PyUnicode_FromString("younger");
    case AgeMark::Age::kOlder:
      return PyUnicode_FromString("older");
    case AgeMark::Age::kUnknown:
      break;
  }
  return PyUnicode_FromString("unknown");
}

PyObject* IsDisturbedMark(PyObject* /*self*/, PyObject* mark) {
  return PyBool_FromLong(MarkOf(mark)->IsDisturbed());
}

// ---- Frames. ----

PyObject* UserLineHere(PyObject* /*self*/, PyObject* /*args*/) {
  const UserLine line = CurrentUserLine();
  return Py_BuildValue("(si)", line.file.c_str(), line.line);
}

// frame_above(level, outer or None): (globals, file, line) or None.
PyObject* FrameAboveHere(PyObject* /*self*/, PyObject* args) {
  int level = 0;
  PyObject* outer = nullptr;
  if (!PyArg_ParseTuple(args, "iO", &level, &outer)) return nullptr;
  const auto frame = FrameAbove(
      level,
      outer == Py_None ? nullptr : reinterpret_cast<PyFrameObject*>(outer));
  if (!frame) Py_RETURN_NONE;
  return Py_BuildValue("(OOi)", frame->globals, frame->filename, frame->line);
}

// sites_below(outer or None): [(code, module or None, unit)].
PyObject* SitesBelowHere(PyObject* /*self*/, PyObject* outer) {
  PyRef sites = PyRef::Steal(PyList_New(0));
  for (const FrameSite& site :
       SitesBelow(outer == Py_None ? nullptr
                                   : reinterpret_cast<PyFrameObject*>(outer))) {
    PyObject* module = site.module ? site.module.get() : Py_None;
    const PyRef item = PyRef::Steal(
        Py_BuildValue("(OOi)", site.code.get(), module, site.unit));
    if (!item || PyList_Append(sites.get(), item.get()) != 0) return nullptr;
  }
  return sites.release();
}

PyObject* CalledModules(PyObject* /*self*/, PyObject* /*args*/) {
  PyRef modules = PyRef::Steal(PyList_New(0));
  ForEachCalledModule([&](PyObject* module) {
    return PyList_Append(modules.get(), module) == 0;
  });
  return modules.release();
}

PyObject* CanSplitCode(PyObject* /*self*/, PyObject* code) {
  return PyBool_FromLong(CanSplit(reinterpret_cast<PyCodeObject*>(code)));
}

PyObject* IsSettingUpHere(PyObject* /*self*/, PyObject* /*args*/) {
  return PyBool_FromLong(IsSettingUp(nullptr));
}

PyObject* IsTracerActive(PyObject* /*self*/, PyObject* /*args*/) {
  return PyBool_FromLong(IsForeignTracerActive());
}

PyObject* PendingSignalsHere(PyObject* /*self*/, PyObject* /*args*/) {
  return PyLong_FromLong(PendingSignals()->load());
}

PyObject* IsMainThreadHere(PyObject* /*self*/, PyObject* /*args*/) {
  return PyBool_FromLong(IsMainThread());
}

// with_hook(evaluate, fn, args): fn(*args), with evaluate(function, variables,
// is_module_call) asked about each function: None lets it run, a tuple of one
// is its result.
PyObject* WithHook(PyObject* /*self*/, PyObject* args) {
  PyObject *evaluate = nullptr, *fn = nullptr, *values = nullptr;
  if (!PyArg_ParseTuple(args, "OOO!", &evaluate, &fn, &PyTuple_Type, &values)) {
    return nullptr;
  }
  bool is_asking = false;  // What evaluate() runs isn't asked about.
  const FrameHook hook([&](const NewFrame& frame, PyRef* made) {
    if (is_asking) return false;
    is_asking = true;
    PyRef variables = PyRef::Steal(PyList_New(0));
    for (PyObject* variable : frame.variables) {
      PyList_Append(variables.get(), variable == nullptr ? Py_None : variable);
    }
    const PyRef answer = PyRef::Steal(PyObject_CallFunction(
        evaluate, "OOO", reinterpret_cast<PyObject*>(frame.function),
        variables.get(), frame.is_module_call ? Py_True : Py_False));
    is_asking = false;
    if (!answer) return true;
    if (answer.get() == Py_None) return false;
    *made = PyRef::Share(PyTuple_GET_ITEM(answer.get(), 0));
    return true;
  });
  return PyObject_Call(fn, values, nullptr);
}

// join_of(code, offset): where the ways from the instruction there meet, as an
// offset; -1 at the function's end.
PyObject* JoinOf(PyObject* /*self*/, PyObject* args) {
  PyObject* code = nullptr;
  int offset = 0;
  if (!PyArg_ParseTuple(args, "O!i", &PyCode_Type, &code, &offset)) {
    return nullptr;
  }
  const int unit = Joins(reinterpret_cast<PyCodeObject*>(code)).Of(offset / 2);
  return PyLong_FromLong(unit == Joins::kEnd ? -1 : 2 * unit);
}

PyMethodDef methods[] = {
    {"init", Init, METH_VARARGS, nullptr},
    {"events",
     reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&Events)),
     METH_VARARGS | METH_KEYWORDS, nullptr},
    {"depths", Depths, METH_O, nullptr},
    {"join_of", JoinOf, METH_VARARGS, nullptr},
    {"dict_version", VersionOfDict, METH_O, nullptr},
    {"type_version", VersionOfType, METH_O, nullptr},
    {"instance_dict", InstanceDictOf, METH_O, nullptr},
    {"is_generator", IsGeneratorOf, METH_O, nullptr},
    {"is_suspended", IsSuspendedOf, METH_O, nullptr},
    {"slot_value", SlotValueOf, METH_VARARGS, nullptr},
    {"deque_type", Deque, METH_NOARGS, nullptr},
    {"is_python_class", IsPythonClassOf, METH_O, nullptr},
    {"solid_base", SolidBaseOf, METH_O, nullptr},
    {"has_slots", HasSlotsOf, METH_O, nullptr},
    {"super_type", SuperTypeOf, METH_O, nullptr},
    {"proxied", ProxiedOf, METH_O, nullptr},
    {"lru_results", LruResultsOf, METH_O, nullptr},
    {"new_int", NewIntOf, METH_O, nullptr},
    {"replace_keys", ReplaceKeysOf, METH_VARARGS, nullptr},
    {"like_set", LikeSet, METH_VARARGS, nullptr},
    {"age_mark", MakeAgeMark, METH_NOARGS, nullptr},
    {"age", AgeOf, METH_VARARGS, nullptr},
    {"is_disturbed", IsDisturbedMark, METH_O, nullptr},
    {"user_line", UserLineHere, METH_NOARGS, nullptr},
    {"frame_above", FrameAboveHere, METH_VARARGS, nullptr},
    {"sites_below", SitesBelowHere, METH_O, nullptr},
    {"called_modules", CalledModules, METH_NOARGS, nullptr},
    {"can_split", CanSplitCode, METH_O, nullptr},
    {"is_setting_up", IsSettingUpHere, METH_NOARGS, nullptr},
    {"is_tracer_active", IsTracerActive, METH_NOARGS, nullptr},
    {"pending_signals", PendingSignalsHere, METH_NOARGS, nullptr},
    {"is_main_thread", IsMainThreadHere, METH_NOARGS, nullptr},
    {"with_hook", WithHook, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "mica_interpreter_testing",
    .m_doc = nullptr,
    .m_size = -1,
    .m_methods = methods,
    .m_slots = nullptr,
    .m_traverse = nullptr,
    .m_clear = nullptr,
    .m_free = nullptr,
};

}  // namespace
}  // namespace mica

PyMODINIT_FUNC PyInit_mica_interpreter_testing() {
  return PyModule_Create(&mica::definition);
}
