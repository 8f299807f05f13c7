// What numpy computes of arrays in tensors' memory.

#ifndef MICA_PYTHON_CAPTURE_WATCH_ARRAY_ARITHMETIC_H_
#define MICA_PYTHON_CAPTURE_WATCH_ARRAY_ARITHMETIC_H_

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "python/capture/watch/array_watch.h"
#include "python/capture/watch/number_watch.h"
#include "python/capture/watch/object_watch.h"
#include "python/capture/watch/watch_part.h"

namespace mica {

// Arithmetic and comparisons of arrays that are tensors to the Program, with
// each other, with numbers and with other arrays, are done by torch, too, whose
// result the program gets in place of numpy's:
//
//   self.mean = 0.9 * self.mean + 0.1 * x.mean(0).numpy()
//
// Only what both compute alike, bit for bit, is: one correctly rounded
// operation for each element, in a type that both agree on. In the watched run
// the two results are compared, too. What isn't followed so reads the arrays'
// numbers, as any use of theirs does.
class ArrayArithmetic final : public WatchPart {
 public:
  using Order = StreamListener::Order;

  ArrayArithmetic(WatchGround& ground, ArrayWatch& arrays, ObjectWatch& objects,
                  NumberWatch& numbers)
      : WatchPart(ground),
        arrays_(arrays),
        objects_(objects),
        numbers_(numbers) {}

  // Each is true if the step at hand is followed so; see StreamListener.
  bool Binary(const char* op, PyObject* a, PyObject* b);
  bool Compare(Order order, PyObject* a, PyObject* b);
  bool Negate(PyObject* a);
  // array[places].
  bool UseItem(PyObject* container, PyObject* key);
  // A function or a method of numpy's that does one of these, cuts numbers to
  // bounds, or goes over one dim, where the last digit may differ.
  bool Call(PyObject* callable, absl::Span<PyObject* const> args,
            PyObject* keyword_names);
  // What the step at hand gave.
  void EndStep(PyObject** top);

 private:
  // An operator of torch's, by the name of its function; null for none.
  struct Operator;
  static const Operator* Find(absl::string_view name);
  bool Operate(absl::string_view name, absl::Span<PyObject* const> args);
  bool CallUfunc(PyObject* callable, absl::Span<PyObject* const> args);
  // Of a method's name, with the array as its first argument.
  bool CallMethod(absl::string_view name, absl::Span<PyObject* const> args,
                  PyObject* keyword_names);
  // numpy.where() of a condition and what is picked from, numbers or arrays.
  bool Where(absl::Span<PyObject* const> args);
  bool Clip(PyObject* tensor, absl::Span<PyObject* const> bounds);
  // `dim` is an int.
  bool Reduce(absl::string_view name, PyObject* tensor, PyObject* dim);
  // What torch gets for an operand; null if that isn't known.
  PyRef OperandOf(PyObject* object);
  // An array of the state or of constants.
  PyRef ConstantOf(PyObject* array);
  // A tensor of a number, of the type of another one.
  PyRef ScalarLike(PyObject* tensor, PyObject* number);
  // Whether both compute in the same type, a known one.
  bool AgreeOnType(const Operator& op, absl::Span<PyObject* const> args,
                   absl::Span<const PyRef> operands) const;
  // numpy wrote the first operand: has torch do the same.
  void Write(PyObject* tensor, PyObject* computed);

  ArrayWatch& arrays_;
  ObjectWatch& objects_;
  NumberWatch& numbers_;
  // Of the step at hand: what torch computed, and the operands.
  PyRef computed_;
  std::vector<PyRef> arrays_of_step_;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_WATCH_ARRAY_ARITHMETIC_H_
