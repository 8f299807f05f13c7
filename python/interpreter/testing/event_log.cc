#include "python/interpreter/testing/event_log.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace mica {
namespace {

std::string AttributeText(PyObject* object, const char* name) {
  const PyRef text = PyRef::Steal(PyObject_GetAttrString(object, name));
  if (!text) PyErr_Clear();
  return PyText(text.get());
}

absl::string_view OrderText(StreamListener::Order order) {
  constexpr absl::string_view kTexts[] = {"<", "<=", "==", "!=", ">", ">="};
  return kTexts[static_cast<int>(order)];
}

}  // namespace

std::string Describe(PyObject* object) {
  if (object == nullptr) return "nothing";
  const PyErrorKeeper keeper;
  PyTypeObject* type = Py_TYPE(object);
  if (object == Py_None || object == Py_Ellipsis || PyBool_Check(object) ||
      PyLong_CheckExact(object) || PyFloat_CheckExact(object) ||
      PyUnicode_CheckExact(object) || PySlice_Check(object)) {
    const PyRef text = PyRef::Steal(PyObject_Repr(object));
    return PyText(text.get());
  }
  if (PyFunction_Check(object)) {
    return absl::StrCat("def ", AttributeText(object, "__qualname__"));
  }
  if (PyType_Check(object)) {
    return absl::StrCat("class ", AttributeText(object, "__qualname__"));
  }
  if (PyCFunction_Check(object) || type == &PyMethodDescr_Type ||
      type == &PyWrapperDescr_Type) {
    return absl::StrCat("builtin ", AttributeText(object, "__qualname__"));
  }
  if (PyMethod_Check(object)) {
    return absl::StrCat("method ", AttributeText(object, "__qualname__"));
  }
  if (PyModule_Check(object)) {
    return absl::StrCat("module ", AttributeText(object, "__name__"));
  }
  if (PyTuple_CheckExact(object) || PyList_CheckExact(object) ||
      PyDict_CheckExact(object) || PyAnySet_CheckExact(object)) {
    return absl::StrCat(type->tp_name, "[", PyObject_Size(object), "]");
  }
  return absl::StrCat("<", type->tp_name, ">");
}

void EventLog::BeginStep() { computes_ = steps_over_ = false; }

void EventLog::EndStep(PyObject** result, bool entered) {
  if (computes_ && !entered && result != nullptr && !lines_.empty()) {
    absl::StrAppend(&lines_.back(), " -> ", Describe(*result));
  }
  computes_ = false;
}

bool EventLog::Follows(PyObject* function) {
  return AttributeText(function, "__qualname__") != options_.unfollowed;
}

bool EventLog::WantsMore() {
  return options_.max_events == 0 || lines_.size() < options_.max_events;
}

void EventLog::Refuse(std::string reason, std::string /*mend*/) {
  Add(absl::StrCat("refuse: ", reason));
}

void EventLog::CameBack(PyObject* result) {
  if (result == nullptr) Add("came back with nothing");
}

void EventLog::EnterFunction(PyObject* function) {
  Add(absl::StrCat("enter ", AttributeText(function, "__qualname__")));
}

void EventLog::LoadConstant(PyObject* constant) {
  if (options_.constants) Add(absl::StrCat("constant ", Describe(constant)));
}

void EventLog::ReadGlobal(PyObject* globals, PyObject* builtins,
                          PyObject* name) {
  const bool is_global = PyDict_GetItemWithError(globals, name) != nullptr;
  const bool is_builtin = !is_global && builtins != nullptr &&
                          PyDict_GetItemWithError(builtins, name) != nullptr;
  Add(absl::StrCat("read ",
                   is_global    ? "global "
                   : is_builtin ? "builtin "
                                : "missing ",
                   PyText(name)));
}

void EventLog::WriteGlobal(PyObject* /*globals*/, PyObject* name) {
  Add(absl::StrCat("write global ", PyText(name)));
}

void EventLog::ReadAttribute(PyObject* owner, PyObject* name) {
  computes_ = false;  // A method isn't made, nor is it on top, everywhere.
  Add(absl::StrCat("read attribute ", PyText(name), " of ", Describe(owner)));
}

void EventLog::WriteAttribute(PyObject* owner, PyObject* name) {
  Add(absl::StrCat("write attribute ", PyText(name), " of ", Describe(owner)));
}

void EventLog::RemoveAttribute(PyObject* owner, PyObject* name) {
  Add(absl::StrCat("remove attribute ", PyText(name), " of ", Describe(owner)));
}

void EventLog::ReadCell(PyObject* cell, PyObject* name) {
  Add(absl::StrCat("read variable ", PyText(name), ": ",
                   Describe(PyCell_GET(cell))));
}

void EventLog::WriteCell(PyObject* /*cell*/, PyObject* name) {
  Add(absl::StrCat("write variable ", PyText(name)));
}

void EventLog::UseItem(PyObject* container, PyObject* key) {
  computes_ = true;
  Add(absl::StrCat("use item ", Describe(key), " of ", Describe(container)));
}

void EventLog::WriteItem(PyObject* container, PyObject* key, PyObject* value) {
  Add(absl::StrCat("write item ", Describe(key), " of ", Describe(container),
                   ": ", Describe(value)));
}

void EventLog::RemoveItem(PyObject* container, PyObject* key) {
  Add(absl::StrCat("remove item ", Describe(key), " of ", Describe(container)));
}

void EventLog::Store(PyObject* owner, PyObject* value) {
  const bool is_cell = owner != nullptr && PyCell_Check(owner);
  Add(absl::StrCat("store ", Describe(value), " in ",
                   owner == nullptr ? "globals"
                   : is_cell        ? "a cell"
                                    : Describe(owner)));
}

void EventLog::NoteChange(PyObject* container) {
  Add(absl::StrCat("change ", Describe(container)));
}

void EventLog::BeginIncrement(PyObject* addend) {
  Add(absl::StrCat("begin increment by ", Describe(addend)));
}

void EventLog::SetStoresSum(bool stores) {
  Add(stores ? "sum is stored" : "sum is stored no more");
}

void EventLog::Binary(const char* op, PyObject* a, PyObject* b) {
  computes_ = true;
  Add(absl::StrCat("binary ", op == nullptr ? "other" : op, " of ", Describe(a),
                   " and ", Describe(b)));
}

void EventLog::Negate(PyObject* number) {
  computes_ = true;
  Add(absl::StrCat("negate ", Describe(number)));
}

void EventLog::CompareNumbers(Order order, PyObject* a, PyObject* b) {
  computes_ = true;
  Add(absl::StrCat("compare ", Describe(a), " ", OrderText(order), " ",
                   Describe(b)));
}

void EventLog::Compare(PyObject** a, PyObject** b) {
  computes_ = true;
  Add(absl::StrCat("compare ", Describe(*a), " is ", Describe(*b)));
}

int64_t EventLog::TakeForks(int64_t num_before) {
  const int64_t since = std::max(told_forks_, num_before);
  told_forks_ = forks_;
  return since < forks_ ? since : -1;
}

void EventLog::JoinWays(int64_t /*token*/,
                        absl::Span<PyObject* const> variables,
                        absl::Span<PyObject* const> operands) {
  const auto list = [](absl::Span<PyObject* const> objects) {
    std::string text;
    for (PyObject* object : objects) {
      absl::StrAppend(&text, text.empty() ? "" : ", ", Describe(object));
    }
    return text;
  };
  Add(absl::StrCat("join [", list(variables), "] [", list(operands), "]"));
}

void EventLog::TestTruth(PyObject* object) {
  if (options_.forks) ++forks_;
  if (!PyBool_Check(object)) Add(absl::StrCat("truth of ", Describe(object)));
}

void EventLog::Format(PyObject* value, int /*conversion*/, PyObject* /*spec*/) {
  if (PyUnicode_CheckExact(value)) return;
  Add(absl::StrCat("format ", Describe(value)));
}

void EventLog::Inspect(PyObject* object) {
  Add(absl::StrCat("inspect ", Describe(object)));
}

void EventLog::Touch(PyObject* object) {
  Add(absl::StrCat("touch ", Describe(object)));
}

void EventLog::TouchDeep(PyObject* object) {
  Add(absl::StrCat("touch all of ", Describe(object)));
}

void EventLog::AddYoung(PyObject* object) {
  Add(absl::StrCat("made ", Describe(object)));
}

void EventLog::Call(PyObject* callable, absl::Span<PyObject* const> args,
                    PyObject* keyword_names) {
  computes_ = true;
  steps_over_ =
      Describe(callable) == absl::StrCat("def ", options_.stepped_over);
  const size_t num_keywords =
      keyword_names == nullptr
          ? 0
          : static_cast<size_t>(PyTuple_GET_SIZE(keyword_names));
  std::string line = absl::StrCat("call ", Describe(callable), "(");
  for (size_t i = 0; i < args.size(); ++i) {
    if (i > 0) absl::StrAppend(&line, ", ");
    const size_t num_positional = args.size() - num_keywords;
    if (i >= num_positional) {
      PyObject* name = PyTuple_GET_ITEM(
          keyword_names, static_cast<Py_ssize_t>(i - num_positional));
      absl::StrAppend(&line, PyText(name), "=");
    }
    absl::StrAppend(&line, Describe(args[i]));
  }
  Add(absl::StrCat(line, ")"));
}

bool EventLog::IsFollowedCall(PyObject* callable) {
  return PyFunction_Check(callable);
}

bool EventLog::TakesItemsOf(PyObject* callable, PyObject* /*iterator*/) {
  return PyCFunction_Check(callable) || PyType_Check(callable);
}

void EventLog::Import(PyObject* name) {
  Add(absl::StrCat("import ", PyText(name)));
}

}  // namespace mica
