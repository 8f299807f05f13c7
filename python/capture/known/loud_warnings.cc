#include "python/capture/known/loud_warnings.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "framework/base/hit_code.h"
#include "python/interpreter/interpreter.h"
#include "python/interpreter/py_ref.h"

namespace mica {
namespace {

using Filters = std::vector<PyRef>;

// The list that warnings go by; null before it is there. Borrowed.
MICA_HIT_CODE PyObject* CurrentFilters() {
  static PyObject* dict = nullptr;
  static PyObject* name = Interned("filters");
  if (dict == nullptr) {
    PyRef module = PyRef::Steal(PyImport_GetModule(Interned("warnings")));
    if (!module) return nullptr;
    dict = PyModule_GetDict(module.release());
  }
  PyObject* filters = PyDict_GetItemWithError(dict, name);
  return filters != nullptr && PyList_CheckExact(filters) ? filters : nullptr;
}

// A filter is (action, message, category, module, line).
bool IsFilter(PyObject* filter) {
  return PyTuple_CheckExact(filter) && PyTuple_GET_SIZE(filter) == 5;
}

bool IsLoud(PyObject* filter) {
  if (!IsFilter(filter)) return true;
  const std::string action = PyText(PyTuple_GET_ITEM(filter, 0));
  return action != "ignore" && action != "default" && action != "once" &&
         action != "module";
}

// What comes after it is of no effect.
bool IsOfAll(PyObject* filter) {
  return IsFilter(filter) && PyTuple_GET_ITEM(filter, 1) == Py_None &&
         PyTuple_GET_ITEM(filter, 2) == PyExc_Warning &&
         PyTuple_GET_ITEM(filter, 3) == Py_None &&
         PyLong_CheckExact(PyTuple_GET_ITEM(filter, 4)) &&
         PyLong_AsLong(PyTuple_GET_ITEM(filter, 4)) == 0;
}

// Of an action, a category, a line or a compiled pattern.
bool IsSamePart(PyObject* a, PyObject* b) {
  if (a == b) return true;
  if (Py_TYPE(a) != Py_TYPE(b)) return false;
  const bool is_plain = PyUnicode_CheckExact(a) || PyLong_CheckExact(a) ||
                        absl::string_view(Py_TYPE(a)->tp_name) == "re.Pattern";
  if (!is_plain) return false;
  const int is_same = PyObject_RichCompareBool(a, b, Py_EQ);
  if (is_same < 0) PyErr_Clear();
  return is_same == 1;
}

bool IsSameFilter(const PyRef& a, const PyRef& b) {
  if (a.get() == b.get()) return true;
  if (!IsFilter(a.get()) || !IsFilter(b.get())) return false;
  for (Py_ssize_t i = 0; i < 5; ++i) {
    if (!IsSamePart(PyTuple_GET_ITEM(a.get(), i),
                    PyTuple_GET_ITEM(b.get(), i))) {
      return false;
    }
  }
  return true;
}

// Whether code in C may give warnings that the filter is for: of Python's own
// categories, numpy's and torch's. Others are given by Python code, which is
// seen.
bool IsForCode(PyObject* filter) {
  if (!IsFilter(filter)) return true;
  PyObject* category = PyTuple_GET_ITEM(filter, 2);
  if (!PyType_Check(category)) return true;
  if (!IsPythonClass(AsType(category))) return true;
  static PyObject* name = Interned("__module__");
  PyObject* home = PyDict_GetItemWithError(TypeDict(AsType(category)), name);
  if (home == nullptr || !PyUnicode_Check(home)) return true;
  const std::string text = PyText(home);
  return absl::StartsWith(text, "numpy") || absl::StartsWith(text, "torch");
}

// Those up to the last loud one that is of effect.
Filters LoudPart(Filters filters) {
  filters.erase(std::remove_if(filters.begin(), filters.end(),
                               [](const PyRef& filter) {
                                 return !IsForCode(filter.get());
                               }),
                filters.end());
  size_t size = 0;
  for (size_t i = 0; i < filters.size(); ++i) {
    if (IsLoud(filters[i].get())) size = i + 1;
    if (IsOfAll(filters[i].get())) break;
  }
  return {filters.begin(), filters.begin() + static_cast<ptrdiff_t>(size)};
}

int64_t NumberOf(Filters loud) {
  if (loud.empty()) return 0;
  constexpr size_t kMaxKnown = 256;
  static auto& known = *new std::vector<Filters>;
  static int64_t num_forgotten = 0;
  const auto it =
      std::find_if(known.begin(), known.end(), [&](const Filters& other) {
        return std::equal(loud.begin(), loud.end(), other.begin(), other.end(),
                          IsSameFilter);
      });
  const int64_t number = num_forgotten + (it - known.begin()) + 1;
  if (it != known.end()) return number;
  if (known.size() < kMaxKnown) {
    known.push_back(std::move(loud));
    return number;
  }
  std::vector<Filters> forgotten = {std::move(loud)};
  known.swap(forgotten);
  num_forgotten += static_cast<int64_t>(forgotten.size());
  return num_forgotten + 1;
}

}  // namespace

MICA_HIT_CODE int64_t LoudWarnings() {
  static auto& last = *new Filters;
  static int64_t last_number = 0;
  PyObject* filters = CurrentFilters();
  const size_t size =
      filters == nullptr ? 0 : static_cast<size_t>(PyList_GET_SIZE(filters));
  bool is_same = size == last.size();
  for (size_t i = 0; is_same && i < size; ++i) {
    is_same =
        PyList_GET_ITEM(filters, static_cast<Py_ssize_t>(i)) == last[i].get();
  }
  if (is_same) return last_number;
  Filters now;
  for (size_t i = 0; i < size; ++i) {
    now.push_back(
        PyRef::Share(PyList_GET_ITEM(filters, static_cast<Py_ssize_t>(i))));
  }
  const int64_t number = NumberOf(LoudPart(now));
  last.swap(now);  // Code that the ends of the old ones run may come here.
  last_number = number;
  return number;
}

}  // namespace mica
