#include "python/capture/numbers.h"

#include <cmath>
#include <cstdint>

#include "kernels/reference/host_arithmetic.h"
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

bool AreNumbers(PyObject* a, PyObject* b) {
  return Py_TYPE(a) == Py_TYPE(b) && NumberOf(a).has_value() &&
         NumberOf(b).has_value();
}

PyRef MakeNumber(PyTypeObject* type, double value) {
  return PyRef::Steal(type == &PyLong_Type
                          ? PyLong_FromLongLong(static_cast<int64_t>(value))
                          : PyFloat_FromDouble(value));
}

PyRef NewNumber(PyObject* number) {
  const double value = NumberOf(number).value_or(0);
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
