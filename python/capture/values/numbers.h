// Python's numbers as a Program holds them: as float64.

#ifndef MICA_PYTHON_CAPTURE_VALUES_NUMBERS_H_
#define MICA_PYTHON_CAPTURE_VALUES_NUMBERS_H_

#include <optional>
#include <string>
#include <vector>

#include "python/interpreter/py_ref.h"

namespace mica {

// Lists of more items aren't followed item by item.
inline constexpr Py_ssize_t kMaxListedNumbers = 64;

// True for a float or an int of any value; not for bools and subclasses.
inline bool IsNumber(PyObject* object) {
  return PyFloat_CheckExact(object) || PyLong_CheckExact(object);
}

// The value of a float, or of an int that is the same number as a float64 and
// less than 2**53; none for anything else, bools and subclasses included.
std::optional<double> NumberOf(PyObject* object);

// A float64 of numpy's, whose class is one of float's. It is followed where the
// run computes it, but is no number of a state or an argument.
bool IsNumpyFloat(PyObject* object);
// As IsNumber(), and of that.
inline bool IsScalar(PyObject* object) {
  return IsNumber(object) || IsNumpyFloat(object);
}
// As NumberOf(), and the value of that.
std::optional<double> ScalarOf(PyObject* object);

// True if NumberOf() knows both, and they are of one type.
bool AreNumbers(PyObject* a, PyObject* b);

// True if two values are the same but for numbers, which are of one type each:
// numbers, or tuples of such. `paths`, if given, gets where these are:
// `path` itself, or "path[0]".
bool DifferInNumbers(PyObject* was, PyObject* now, const std::string& path,
                     std::vector<std::string>* paths);

// Adds the places of the numbers in `value`: `path` itself, or the items of a
// tuple or list of few.
void FindNumbers(PyObject* value, const std::string& path,
                 std::vector<std::string>* paths);

// A number of that type (float, int or numpy's) and value; null without memory.
// An int has a whole value.
PyRef MakeNumber(PyTypeObject* type, double value);

// The same as `number`, of which ScalarOf() knows the value, in an object that
// is in no other place; null without memory.
PyRef NewNumber(PyObject* number);

// The object that the interpreter shares for all such ints; null if there is
// none, as for large ones, or `number` is no int.
PyRef SharedInt(PyObject* number);

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_VALUES_NUMBERS_H_
