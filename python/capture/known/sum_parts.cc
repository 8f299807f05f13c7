#include "python/capture/known/sum_parts.h"

#include <cmath>

namespace mica {
namespace {

// A long of C's, or nothing.
bool IsLong(PyObject* item, long* value) {
  if (!PyLong_CheckExact(item)) return false;
  int overflow = 0;
  *value = PyLong_AsLongAndOverflow(item, &overflow);
  return overflow == 0;
}

}  // namespace

PyRef SumParts(PyObject* items) {
  const PyRef list =
      PyRef::Steal(PySequence_Fast(items, "sum_parts: wants a list"));
  if (!list) return PyRef();
  PyObject* const* item = PySequence_Fast_ITEMS(list.get());
  PyObject* const* end = item + PySequence_Fast_GET_SIZE(list.get());
  long whole = 0, value = 0;
  for (; item != end && IsLong(*item, &value); ++item) {
    if (__builtin_add_overflow(whole, value, &whole)) {
      return PyRef::Share(Py_None);
    }
  }
  if (item == end) return PyRef::Steal(Py_BuildValue("(ld)", whole, 0.0));
  if (!PyFloat_CheckExact(*item)) return PyRef::Share(Py_None);
  // The first float is added as any number is.
  const PyRef begin = PyRef::Steal(PyLong_FromLong(whole));
  const PyRef first =
      PyRef::Steal(begin ? PyNumber_Add(begin.get(), *item) : nullptr);
  if (!first) return PyRef();
  double sum = PyFloat_AS_DOUBLE(first.get()), lost = 0;
  for (++item; item != end; ++item) {
    if (PyFloat_CheckExact(*item)) {
      // Neumaier (1974): what the smaller of the two loses.
      const double added = PyFloat_AS_DOUBLE(*item), both = sum + added;
      lost += std::fabs(sum) >= std::fabs(added) ? (sum - both) + added
                                                 : (added - both) + sum;
      sum = both;
    } else if (IsLong(*item, &value)) {
      sum += static_cast<double>(value);
    } else {
      return PyRef::Share(Py_None);
    }
  }
  return PyRef::Steal(Py_BuildValue("(dd)", sum, lost));
}

}  // namespace mica
