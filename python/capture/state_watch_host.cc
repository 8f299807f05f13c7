#include <array>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "python/capture/constants.h"
#include "python/capture/purity.h"
#include "python/capture/state_watch.h"

namespace mica {
namespace {

PyObject* DictOfModule(const char* name) {
  PyRef text = PyRef::Steal(PyUnicode_FromString(name));
  PyRef module = PyRef::Steal(PyImport_GetModule(text.get()));
  return module ? PyModule_GetDict(module.get()) : nullptr;
}

// The list that warnings.warn() goes by; null before it is imported. Borrowed.
PyObject* WarningFilters() {
  PyObject* warnings = DictOfModule("warnings");
  return warnings == nullptr ? nullptr
                             : PyDict_GetItemString(warnings, "filters");
}

// The arguments of warnings.warn(); null where not given.
struct Warning {
  PyObject* message = nullptr;
  PyObject* category = nullptr;
  PyObject* stacklevel = nullptr;
  PyObject* source = nullptr;
};

// False for arguments that it doesn't take.
bool ParseWarning(absl::Span<PyObject* const> args, PyObject* keyword_names,
                  Warning* warning) {
  const std::array<std::pair<const char*, PyObject**>, 4> words = {
      {{"message", &warning->message},
       {"category", &warning->category},
       {"stacklevel", &warning->stacklevel},
       {"source", &warning->source}}};
  const size_t num_keywords =
      keyword_names == nullptr
          ? 0
          : static_cast<size_t>(PyTuple_GET_SIZE(keyword_names));
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

}  // namespace

bool StateWatch::ReadNumbers(PyObject* tensor) {
  constexpr int64_t kMaxNumbers = 64;
  if (!IsTensor(tensor) || !IsPlainTensor(tensor) ||
      NumElements(tensor) > kMaxNumbers) {
    return false;
  }
  Touch(tensor);
  // The recorder sees these as the program's own.
  PyRef plain = PyRef::Steal(PyObject_CallMethod(tensor, "detach", nullptr));
  if (plain) {
    plain = PyRef::Steal(PyObject_CallMethod(plain.get(), "reshape", "i", -1));
  }
  for (Py_ssize_t i = 0; plain && i < NumElements(tensor); ++i) {
    PyRef item =
        PyRef::Steal(PyObject_CallMethod(plain.get(), "select", "in", 0, i));
    if (item) {
      item = PyRef::Steal(PyObject_CallMethod(item.get(), "item", nullptr));
    }
    if (!item) plain = PyRef();
  }
  if (plain) return true;
  PyErr_Clear();
  return false;
}

void StateWatch::ReadData(PyObject* reader, absl::Span<PyObject* const> args) {
  const std::string name = CallableName(reader);
  const bool is_numpy = absl::EndsWith(name, ".numpy");
  if ((is_numpy || absl::EndsWith(name, ".tolist")) && args.size() == 1 &&
      ReadNumbers(args[0])) {
    if (is_numpy) Expose(args[0]);
    return;
  }
  Refuse(absl::StrCat("calls ", name,
                      ", which reads a tensor's data on the "
                      "host"),
         "keep the computation in tensors, or use item()");
}

void StateWatch::Expose(PyObject* tensor) {
  const int64_t version = VersionOf(tensor);
  if (version < 0) {
    return Refuse("shares an inference tensor's memory with numpy");
  }
  exposed_.push_back({.tensor = PyRef::Share(tensor),
                      .version = version,
                      .bytes = ElementBytes(tensor)});
}

std::string StateWatch::ChangedExposed() const {
  for (const Exposed& exposed : exposed_) {
    PyObject* tensor = exposed.tensor.get();
    if (VersionOf(tensor) != exposed.version ||
        ElementBytes(tensor) != exposed.bytes) {
      return PathOf(tensor);
    }
  }
  return "";
}

StateWatch::StateWatch(PyFrameObject* caller)
    : caller_(caller), warning_filters_(PyRef::Share(WarningFilters())) {}

void StateWatch::AddHostCall(PyObject* callable,
                             absl::Span<PyObject* const> args,
                             PyObject* keyword_names, std::string title) {
  HostCall call{.callable = PyRef::Share(callable),
                .keyword_names = PyRef::Share(keyword_names),
                .note = NoteOf(std::move(title))};
  for (PyObject* arg : args) {
    const bool is_tensor = IsTensor(arg);
    if (!is_tensor && values_.Find(arg) < 0) {
      values_.MarkExactDeep(arg);
      call.args.push_back(PyRef::Share(arg));
      continue;
    }
    call.args.push_back(PyRef());
    host_arguments_.push_back(PyRef::Share(arg));
    argument_versions_.push_back(is_tensor ? VersionOf(arg) : -1);
  }
  host_calls_.push_back(std::move(call));
  makes_host_call_ = true;
  if (on_host_call_) on_host_call_(/*begins=*/true);
}

std::string StateWatch::ChangedArgument() const {
  for (size_t i = 0; i < host_arguments_.size(); ++i) {
    PyObject* object = host_arguments_[i].get();
    if (IsTensor(object) && VersionOf(object) != argument_versions_[i]) {
      return PathOf(object);
    }
  }
  return "";
}

// A hit makes the call when the run is over: what is passed has to be by then
// what it was when the program called.
void StateWatch::CallHost(PyObject* callable, absl::Span<PyObject* const> args,
                          PyObject* keyword_names) {
  for (size_t i = 0; i < args.size(); ++i) {
    if (IsConstant(args[i])) continue;
    if (IsTensor(args[i]) && IsPlainTensor(args[i])) {
      Touch(args[i]);
      continue;
    }
    if (IsOld(args[i]) && !IsInput(args[i])) continue;
    return Refuse(absl::StrCat("passes ", CallableName(callable), " a ",
                               TypeName(Py_TYPE(args[i])),
                               ", which can't be had again at each hit"),
                  "pass constants, numbers and tensors");
  }
  AddHostCall(callable, OwnArguments(callable, args), keyword_names,
              CallableName(callable));
}

// Where it prints to is looked up at each hit, as at each call.
void StateWatch::Print(PyObject* print, absl::Span<PyObject* const> args,
                       PyObject* keyword_names) {
  static PyObject* stdout_name = PyUnicode_InternFromString("stdout");
  PyObject* sys = DictOfModule("sys");
  if (sys == nullptr || IsWritten(sys, stdout_name)) return RefuseCall(print);
  const Py_ssize_t num_keywords =
      keyword_names == nullptr ? 0 : PyTuple_GET_SIZE(keyword_names);
  const size_t num_positional = args.size() - static_cast<size_t>(num_keywords);
  for (size_t i = 0; i < args.size(); ++i) {
    if (IsConstant(args[i])) continue;
    if (IsTensor(args[i]) && IsPlainTensor(args[i])) {
      Touch(args[i]);
      continue;
    }
    const bool is_file =
        i >= num_positional &&
        PyText(PyTuple_GET_ITEM(keyword_names,
                                static_cast<Py_ssize_t>(i - num_positional))) ==
            "file";
    if (!is_file || !IsOld(args[i])) {
      return Refuse(absl::StrCat("prints a ", TypeName(Py_TYPE(args[i]))),
                    "print it outside the compiled function");
    }
  }
  AddHostCall(print, args, keyword_names, "print");
}

// A hit has no frames to find the warning's line in: it is found now, and
// warnings.warn_explicit() is told.
void StateWatch::Warn(absl::Span<PyObject* const> args,
                      PyObject* keyword_names) {
  const auto refuse = [this](absl::string_view why) {
    Refuse(absl::StrCat("warns ", why), "warn outside the compiled function");
  };
  PyObject* warnings = DictOfModule("warnings");
  if (warnings == nullptr) return refuse("before warnings is imported");
  PyObject* filters = WarningFilters();
  if (filters != warning_filters_.get()) {
    if (filters != nullptr && IgnoresAll(filters)) return;
    return refuse("under filters of its own");
  }
  Warning warning;
  if (!ParseWarning(args, keyword_names, &warning)) {
    return refuse("with arguments that aren't known");
  }
  PyRef text = PyRef::Share(warning.message);
  PyRef category =
      PyRef::Share(warning.category == nullptr || warning.category == Py_None
                       ? PyExc_UserWarning
                       : warning.category);
  if (PyExceptionInstance_Check(warning.message)) {
    category =
        PyRef::Share(reinterpret_cast<PyObject*>(Py_TYPE(warning.message)));
    PyRef own = PyRef::Steal(PyObject_GetAttrString(warning.message, "args"));
    if (!own || !PyTuple_CheckExact(own.get()) ||
        PyTuple_GET_SIZE(own.get()) != 1) {
      PyErr_Clear();
      return refuse("of a message that isn't text");
    }
    text = PyRef::Share(PyTuple_GET_ITEM(own.get(), 0));
  }
  if (!PyUnicode_CheckExact(text.get())) {
    return refuse("of a message that isn't text");
  }
  if (!PyType_Check(category.get()) || !IsOld(category.get())) {
    return refuse("of a category made during the call");
  }
  if (warning.source != nullptr && warning.source != Py_None) {
    return refuse("of a source");
  }
  int64_t level = 1;
  if (warning.stacklevel != nullptr) {
    if (!PyLong_CheckExact(warning.stacklevel)) return refuse("of no level");
    level = PyLong_AsLongLong(warning.stacklevel);
    if (PyErr_Occurred()) return PyErr_Clear();
  }
  const auto at = FrameAbove(level < 1 ? 0 : level - 1, caller_);
  if (!at.has_value()) return refuse("of its caller's line");
  static PyObject* registry_name =
      PyUnicode_InternFromString("__warningregistry__");
  static PyObject* module_name = PyUnicode_InternFromString("__name__");
  PyRef registry =
      PyRef::Share(PyDict_GetItemWithError(at->globals, registry_name));
  if (!registry) {
    registry = PyRef::Steal(PyDict_New());
    if (!registry ||
        PyDict_SetItem(at->globals, registry_name, registry.get()) != 0) {
      return PyErr_Clear();
    }
  }
  PyObject* module = PyDict_GetItemWithError(at->globals, module_name);
  PyRef line = PyRef::Steal(PyLong_FromLong(at->line));
  PyRef unknown = PyRef::Steal(PyUnicode_FromString("<string>"));
  PyRef warn = PyRef::Share(PyDict_GetItemString(warnings, "warn_explicit"));
  if (!line || !unknown || !warn) return PyErr_Clear();
  AddHostCall(
      warn.get(),
      {text.get(), category.get(), at->filename, line.get(),
       module != nullptr && PyUnicode_Check(module) ? module : unknown.get(),
       registry.get()},
      nullptr, "warnings.warn");
}

// A hit has no frames to find the line in that logs: as Warn().
void StateWatch::Log(PyObject* method, absl::Span<PyObject* const> args,
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
  for (const char* name : {"_log", "findCaller"}) {
    const PyRef own = PyRef::Steal(PyObject_GetAttrString(
        reinterpret_cast<PyObject*>(Py_TYPE(args[0])), name));
    if (!own || !PyFunction_Check(own.get()) ||
        PyFunction_GetModule(own.get()) != PyFunction_GetModule(method)) {
      PyErr_Clear();
      return Refuse(absl::StrCat("logs by a ", TypeName(Py_TYPE(args[0])),
                                 ", which has its own way to"),
                    "log it outside the compiled function");
    }
  }
  std::optional<FrameLine> at = FrameAbove(0, caller_);
  for (int level = 1;
       at.has_value() && PyText(at->filename) == PyText(code->co_filename);
       ++level) {
    at = FrameAbove(level, caller_);
  }
  if (!at.has_value()) return RefuseCall(method);
  const PyRef line = PyRef::Steal(PyLong_FromLong(at->line));
  if (!line) return PyErr_Clear();
  std::vector<PyObject*> all = {log_again,    code->co_name, args[0],
                                at->filename, line.get(),    at->function};
  all.insert(all.end(), args.begin() + 1, args.end());
  CallHost(all[0], absl::MakeSpan(all).subspan(1), keyword_names);
}

}  // namespace mica
