#include "python/capture/values/numbers.h"

#include <cmath>
#include <cstdint>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "kernels/reference/host_arithmetic.h"
#include "python/capture/values/constants.h"
#include "python/interpreter/interpreter.h"

namespace mica {

std::optional<double> NumberOf(PyObject* object) {
  if (PyFloat_CheckExact(object)) return PyFloat_AS_DOUBLE(object);
  if (!PyLong_CheckExact(object)) return std::nullopt;
  int overflow = 0;
  const auto number =
      static_cast<double>(PyLong_AsLongLongAndOverflow(object, &overflow));
  if (overflow != 0 || std::fabs(number) >= kHostIntLimit) return std::nullopt;
  return number;
}

bool IsNumpyFloat(PyObject* object) {
  if (!PyFloat_Check(object) || PyFloat_CheckExact(object)) return false;
  static PyObject* type = nullptr;  // Once there is one.
  if (type == nullptr) {
    const PyRef name = PyRef::Steal(PyUnicode_FromString("numpy"));
    const PyRef numpy =
        PyRef::Steal(name ? PyImport_GetModule(name.get()) : nullptr);
    if (numpy) type = PyObject_GetAttrString(numpy.get(), "float64");
    PyErr_Clear();
  }
  return reinterpret_cast<PyObject*>(Py_TYPE(object)) == type;
}

std::optional<double> ScalarOf(PyObject* object) {
  if (IsNumpyFloat(object)) return PyFloat_AS_DOUBLE(object);
  return NumberOf(object);
}

bool AreNumbers(PyObject* a, PyObject* b) {
  return Py_TYPE(a) == Py_TYPE(b) && NumberOf(a).has_value() &&
         NumberOf(b).has_value();
}

bool DifferInNumbers(PyObject* was, PyObject* now, const std::string& path,
                     std::vector<std::string>* paths) {
  if (was == nullptr || now == nullptr || SameValue(was, now)) return false;
  if (AreNumbers(was, now)) {
    if (paths != nullptr) paths->push_back(path);
    return true;
  }
  if (!PyTuple_Check(was) || Py_TYPE(was) != Py_TYPE(now) ||
      PyTuple_GET_SIZE(was) != PyTuple_GET_SIZE(now)) {
    return false;
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(was); ++i) {
    PyObject* a = PyTuple_GET_ITEM(was, i);
    PyObject* b = PyTuple_GET_ITEM(now, i);
    if (!SameValue(a, b) &&
        !DifferInNumbers(a, b, absl::StrCat(path, "[", i, "]"), paths)) {
      return false;
    }
  }
  return true;
}

namespace {

// As FindNumbers(), but for the lists that were `seen`: what leads to a list a
// second time, as itself may, has no numbers of its own.
void FindOwnNumbers(PyObject* value, const std::string& path,
                    std::vector<PyObject*>* seen,
                    std::vector<std::string>* paths) {
  if (NumberOf(value).has_value()) return paths->push_back(path);
  if (!PyTuple_Check(value) && !PyList_CheckExact(value)) return;
  if (absl::c_linear_search(*seen, value)) return;
  seen->push_back(value);
  if (PySequence_Fast_GET_SIZE(value) > kMaxListedNumbers ||
      Py_EnterRecursiveCall("") != 0) {
    return PyErr_Clear();
  }
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(value); ++i) {
    FindOwnNumbers(PySequence_Fast_GET_ITEM(value, i),
                   absl::StrCat(path, "[", i, "]"), seen, paths);
  }
  Py_LeaveRecursiveCall();
}

}  // namespace

void FindNumbers(PyObject* value, const std::string& path,
                 std::vector<std::string>* paths) {
  std::vector<PyObject*> seen;
  FindOwnNumbers(value, path, &seen, paths);
}

PyRef MakeNumber(PyTypeObject* type, double value) {
  if (type == &PyLong_Type) {
    return PyRef::Steal(PyLong_FromLongLong(static_cast<int64_t>(value)));
  }
  PyRef number = PyRef::Steal(PyFloat_FromDouble(value));
  if (type == &PyFloat_Type || !number) return number;
  return PyRef::Steal(
      PyObject_CallOneArg(reinterpret_cast<PyObject*>(type), number.get()));
}

PyRef NewNumber(PyObject* number) {
  const double value = ScalarOf(number).value_or(0);
  if (PyLong_CheckExact(number)) return NewInt(static_cast<int64_t>(value));
  return MakeNumber(Py_TYPE(number), value);
}

PyRef SharedInt(PyObject* number) {
  const std::optional<double> value = NumberOf(number);
  if (!PyLong_CheckExact(number) || !value.has_value()) return PyRef();
  const PyRef one = MakeNumber(&PyLong_Type, *value);
  const PyRef other = MakeNumber(&PyLong_Type, *value);
  return one.get() == other.get() ? one : PyRef();
}

}  // namespace mica
