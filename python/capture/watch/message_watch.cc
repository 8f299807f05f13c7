#include "python/capture/watch/message_watch.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "python/capture/values/constants.h"
#include "python/capture/watch/module_dicts.h"
#include "python/interpreter/call_with_names.h"
#include "python/interpreter/interpreter.h"

namespace mica {
namespace {

// The arguments of warnings.warn(); null where not given.
struct Warning {
  PyObject* message = nullptr;
  PyObject* category = nullptr;
  PyObject* stacklevel = nullptr;
  PyObject* source = nullptr;
};

// The list that warnings.warn() goes by; null before it is imported. Borrowed.
PyObject* WarningFilters() {
  PyObject* warnings = DictOfModule("warnings");
  return warnings == nullptr ? nullptr
                             : PyDict_GetItemString(warnings, "filters");
}

// What warnings are shown by. Borrowed.
std::array<PyObject*, 3> ShowsWarnings() {
  PyObject* warnings = DictOfModule("warnings");
  if (warnings == nullptr) return {};
  return {PyDict_GetItemString(warnings, "showwarning"),
          PyDict_GetItemString(warnings, "_showwarnmsg_impl"),
          PyDict_GetItemString(warnings, "formatwarning")};
}

// False for arguments that it doesn't take.
bool ParseWarning(absl::Span<PyObject* const> args, PyObject* keyword_names,
                  Warning* warning) {
  const std::array<std::pair<const char*, PyObject**>, 4> words = {
      {{"message", &warning->message},
       {"category", &warning->category},
       {"stacklevel", &warning->stacklevel},
       {"source", &warning->source}}};
  const size_t num_keywords = NumNames(keyword_names);
  const size_t num_positional = args.size() - num_keywords;
  if (num_positional > words.size()) return false;
  for (size_t i = 0; i < num_positional; ++i) *words[i].second = args[i];
  for (size_t i = 0; i < num_keywords; ++i) {
    const std::string name =
        PyText(PyTuple_GET_ITEM(keyword_names, static_cast<Py_ssize_t>(i)));
    bool is_known = false;
    for (const auto& [word, to] : words) {
      if (name != word) continue;
      *to = args[num_positional + i];
      is_known = true;
    }
    if (!is_known) return false;
  }
  return warning->message != nullptr;
}

// True if the first filter says to ignore each warning.
bool IgnoresAll(PyObject* filters) {
  if (!PyList_Check(filters) || PyList_GET_SIZE(filters) == 0) return false;
  PyObject* first = PyList_GET_ITEM(filters, 0);
  if (!PyTuple_Check(first) || PyTuple_GET_SIZE(first) != 5) return false;
  return PyText(PyTuple_GET_ITEM(first, 0)) == "ignore" &&
         PyTuple_GET_ITEM(first, 1) == Py_None &&
         PyTuple_GET_ITEM(first, 2) == PyExc_Warning &&
         PyTuple_GET_ITEM(first, 3) == Py_None;
}

// The level at which a method of a logger logs; null if that isn't known.
PyRef LevelOfLog(std::string method, absl::Span<PyObject* const> args) {
  if (method == "log") {
    const bool is_known = args.size() > 1 && PyLong_CheckExact(args[1]);
    return is_known ? PyRef::Share(args[1]) : PyRef();
  }
  for (char& c : method) c = absl::ascii_toupper(static_cast<unsigned char>(c));
  PyObject* logging = DictOfModule("logging");
  return logging == nullptr
             ? PyRef()
             : PyRef::Share(PyDict_GetItemString(logging, method.c_str()));
}

// The text and the category of a warning. False, with a reason, if they can't
// be had again at each hit.
bool TextOfWarning(const Warning& warning, PyRef* text, PyRef* category,
                   std::string* reason) {
  *text = PyRef::Share(warning.message);
  *category =
      PyRef::Share(warning.category == nullptr || warning.category == Py_None
                       ? PyExc_UserWarning
                       : warning.category);
  *reason = "of a message that isn't text";
  if (PyExceptionInstance_Check(warning.message)) {
    *category =
        PyRef::Share(reinterpret_cast<PyObject*>(Py_TYPE(warning.message)));
    PyRef own = PyRef::Steal(PyObject_GetAttrString(warning.message, "args"));
    if (!own || !PyTuple_CheckExact(own.get()) ||
        PyTuple_GET_SIZE(own.get()) != 1) {
      PyErr_Clear();
      return false;
    }
    *text = PyRef::Share(PyTuple_GET_ITEM(own.get(), 0));
  }
  if (!PyUnicode_CheckExact(text->get())) return false;
  *reason = "of a category that is no class";
  return PyType_Check(category->get());
}

// The registry of the module that a warning is of, made if need be. Null, with
// a Python error, without memory.
PyRef RegistryOf(PyObject* globals) {
  static PyObject* name = PyUnicode_InternFromString("__warningregistry__");
  PyRef registry = PyRef::Share(PyDict_GetItemWithError(globals, name));
  if (registry) return registry;
  registry = PyRef::Steal(PyDict_New());
  const bool is_put =
      registry && PyDict_SetItem(globals, name, registry.get()) == 0;
  return is_put ? registry : PyRef();
}

}  // namespace

MessageWatch::MessageWatch(WatchGround& ground, const Parts& parts)
    : WatchPart(ground),
      containers_(parts.containers),
      written_(parts.written),
      objects_(parts.objects),
      host_calls_(parts.host_calls),
      filters_(PyRef::Share(WarningFilters())),
      shown_(ShowsWarnings()) {}

void MessageWatch::RefuseToWarn(const std::string& why) {
  Refuse(absl::StrCat("warns ", why), "warn outside the compiled function");
}

bool MessageWatch::ShowsAsBefore() {
  PyObject* filters = WarningFilters();
  if (filters != filters_.get()) {
    if (filters == nullptr || !IgnoresAll(filters)) {
      RefuseToWarn("under filters of its own");
    }
    return false;
  }
  if (containers_.Has(filters) || ShowsWarnings() != shown_ ||
      written_.IsWritten(DictOfModule("sys"), Interned("stderr"))) {
    RefuseToWarn("in a way that it has just changed");
    return false;
  }
  return true;
}

// warnings.warn_explicit() is told.
void MessageWatch::Warn(absl::Span<PyObject* const> args,
                        PyObject* keyword_names) {
  PyObject* warnings = DictOfModule("warnings");
  if (warnings == nullptr) return RefuseToWarn("before warnings is imported");
  if (!ShowsAsBefore()) return;
  Warning warning;
  if (!ParseWarning(args, keyword_names, &warning)) {
    return RefuseToWarn("with arguments that aren't known");
  }
  PyRef text, category;
  std::string reason;
  if (!TextOfWarning(warning, &text, &category, &reason)) {
    return RefuseToWarn(reason);
  }
  if (!IsOld(category.get())) {
    return RefuseToWarn("of a category made during the call");
  }
  if (warning.source != nullptr && warning.source != Py_None) {
    return RefuseToWarn("of a source");
  }
  int64_t level = 1;
  if (warning.stacklevel != nullptr) {
    if (!PyLong_CheckExact(warning.stacklevel)) {
      return RefuseToWarn("of no level");
    }
    level = PyLong_AsLongLong(warning.stacklevel);
    if (PyErr_Occurred()) return PyErr_Clear();
  }
  const auto at = FrameAbove(level < 1 ? 0 : level - 1, caller());
  if (!at.has_value()) return RefuseToWarn("of its caller's line");
  static PyObject* module_name = PyUnicode_InternFromString("__name__");
  const PyRef registry = RegistryOf(at->globals);
  if (!registry) return PyErr_Clear();
  PyObject* module = PyDict_GetItemWithError(at->globals, module_name);
  PyRef line = PyRef::Steal(PyLong_FromLong(at->line));
  PyRef unknown = PyRef::Steal(PyUnicode_FromString("<string>"));
  PyRef warn = PyRef::Share(PyDict_GetItemString(warnings, "warn_explicit"));
  if (!line || !unknown || !warn) return PyErr_Clear();
  host_calls_.Add(
      warn.get(),
      {text.get(), category.get(), at->filename, line.get(),
       module != nullptr && PyUnicode_Check(module) ? module : unknown.get(),
       registry.get()},
      nullptr, "warnings.warn", SinkOfWarning(category.get()));
}

Sink MessageWatch::SinkOfWarning(PyObject* category) {
  const PyTypeObject* type = AsType(category);
  for (const char* name : {"__init__", "__new__", "__str__", "__repr__"}) {
    PyObject* method = _PyType_Lookup(AsType(category), Interned(name));
    const bool is_own = method != nullptr &&
                        Py_TYPE(method) != &PyWrapperDescr_Type &&
                        !PyCFunction_Check(method);
    if (is_own) return Sink();
  }
  if (Py_TYPE(type) != &PyType_Type) return Sink();
  if (PyRef list = ListOfWarnings()) {
    host_calls_.AddShown(std::move(list), /*may_not_be_read=*/true);
  }
  return {.kind = Sink::Kind::kWarning};
}

Sink MessageWatch::SinkOfLog(PyObject* logger, PyObject* level) {
  for (const PyRef& part : PartsOfLog(logger)) {
    if (written_.HasWritten(part.get()) || containers_.Has(part.get())) {
      return Sink();
    }
  }
  if (written_.IsWritten(DictOfModule("sys"), Interned("stderr")))
    return Sink();
  for (PyObject* type : LoggingClasses()) objects_.TouchType(AsType(type));
  return {.kind = Sink::Kind::kLog,
          .target = PyRef::Share(logger),
          .level = PyRef::Share(level)};
}

bool MessageWatch::LogsAsOthers(PyObject* logger, PyObject* method) {
  for (const char* name : {"_log", "findCaller"}) {
    const PyRef own = PyRef::Steal(PyObject_GetAttrString(
        reinterpret_cast<PyObject*>(Py_TYPE(logger)), name));
    if (own && PyFunction_Check(own.get()) &&
        PyFunction_GetModule(own.get()) == PyFunction_GetModule(method)) {
      continue;
    }
    PyErr_Clear();
    Refuse(absl::StrCat("logs by a ", TypeName(Py_TYPE(logger)),
                        ", which has its own way to"),
           "log it outside the compiled function");
    return false;
  }
  return true;
}

void MessageWatch::Log(PyObject* method, absl::Span<PyObject* const> args,
                       PyObject* keyword_names) {
  static PyObject* log_again = [] {
    const PyRef module = PyRef::Steal(PyImport_ImportModule("mica.logs"));
    return module ? PyObject_GetAttrString(module.get(), "log_again") : nullptr;
  }();
  if (log_again == nullptr) return PyErr_Clear();
  for (Py_ssize_t i = 0;
       keyword_names != nullptr && i < PyTuple_GET_SIZE(keyword_names); ++i) {
    const std::string name = PyText(PyTuple_GET_ITEM(keyword_names, i));
    if (name == "extra") continue;
    return Refuse(absl::StrCat("logs with ", name),
                  "log it outside the compiled function");
  }
  const auto* code =
      reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(method));
  if (args.empty()) return RefuseCall(method);
  if (!LogsAsOthers(args[0], method)) return;
  std::optional<FrameLine> at = FrameAbove(0, caller());
  for (int level = 1;
       at.has_value() && PyText(at->filename) == PyText(code->co_filename);
       ++level) {
    at = FrameAbove(level, caller());
  }
  if (!at.has_value()) return RefuseCall(method);
  const PyRef line = PyRef::Steal(PyLong_FromLong(at->line));
  if (!line) return PyErr_Clear();
  std::vector<PyObject*> all = {log_again,    code->co_name, args[0],
                                at->filename, line.get(),    at->function};
  all.insert(all.end(), args.begin() + 1, args.end());
  host_calls_.Call(
      all[0], absl::MakeSpan(all).subspan(1), keyword_names,
      SinkOfLog(args[0], LevelOfLog(PyText(code->co_name), args).get()));
}

}  // namespace mica
