// What a program computes with numbers of Python's.

#ifndef MICA_PYTHON_CAPTURE_WATCH_NUMBER_WATCH_H_
#define MICA_PYTHON_CAPTURE_WATCH_NUMBER_WATCH_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "python/capture/values/passed_numbers.h"
#include "python/capture/watch/array_watch.h"
#include "python/capture/watch/object_watch.h"
#include "python/capture/watch/watch_part.h"
#include "python/interpreter/stream.h"

namespace mica {

// The Program's operator for what Python's own does with two numbers, or null.
const HostOp* OperatorOf(const std::string& word, PyObject* a, PyObject* b);

// Follows promoted scalars (HostValues::Find() knows them) through operators,
// comparisons and calls; makes constants of those that go anywhere else.
class NumberWatch final : public WatchPart {
 public:
  using Order = StreamListener::Order;

  NumberWatch(WatchGround& ground, ObjectWatch& objects, ArrayWatch& arrays)
      : WatchPart(ground), objects_(objects), arrays_(arrays) {}

  void BeginStep();
  // Another object of the value of `top` may be put there.
  void EndStep(PyObject** top);

  // Operators of Python's; see StreamListener.
  void Binary(const char* op, PyObject* a, PyObject* b);
  void Negate(PyObject* number);
  void Compare(Order order, PyObject* a, PyObject* b);
  void TestTruth(PyObject* object);

  // Puts the object that eager would have met in place of a number that is
  // followed. False if which object that is doesn't follow from its value.
  bool Share(PyObject** number);
  // Puts the tuple there that `tuple`, one of followed numbers, stands for;
  // false if it stands for none.
  bool ShareTuple(PyObject** tuple);
  // The same for all arguments of a call.
  bool ShareAll(absl::Span<PyObject* const> args);

  // The step at hand computes `op` of numbers, one of them known.
  void Compute(const HostOp* op, absl::Span<PyObject* const> operands);

  // It passes a number to an operator. `is_operand`: of an operator in Python
  // (a + b), not of a call.
  void Pass(PyObject* number, bool is_operand = false);
  // `items` is a list or tuple with known numbers among its items.
  void PassItems(PyObject* items);
  // Passes what a tensor is made of: a number, or lists of numbers that the run
  // made, some of which are followed. False if `data` is none such.
  bool PassData(PyObject* data);
  // The arguments of an operator of torch's.
  void PassArguments(absl::Span<PyObject* const> args);

  // `value` is about to be stored in `owner`; null for the globals.
  void Store(PyObject* owner, PyObject* value);
  // The step at hand sets an attribute or an item to `value`: unless that stays
  // there as it is, its numbers are passed to an operator or made exact.
  void StoreAttribute(PyObject* owner, PyObject* name, PyObject* value);
  void StoreItem(PyObject* container, PyObject* value);

  // `key` is an index of `tensor`. False if no number is followed through it:
  // then all of its numbers are to be made exact.
  bool PassPlaces(PyObject* tensor, PyObject* key);
  PyObject* indexed() const { return indexed_.get(); }
  // What that notes of the step at hand.
  absl::Span<const PassedPlace> places() const { return places_; }
  // What torch read of those that are tensors, in order.
  void SetPlacesRead(absl::Span<const TapeHostOperand> numbers);
  // They are where the step's calls begin, in dims of these sizes; else all of
  // them are made exact. Requires: at the step's end.
  void SettlePlaces(bool are_placed, absl::Span<const int64_t> sizes);

  // Known numbers that the step at hand passes to an operator.
  absl::Span<const PassedNumbers> passed() const { return passed_; }
  // True if it passes tensors, any of which torch may take for a number.
  bool passes_tensors() const { return passes_tensors_; }

 private:
  // Appends the numbers of PassData(); false if there is something else.
  bool AddData(PyObject* data, int depth, PassedNumbers* passed);
  // Nothing if what it says can't be followed.
  std::optional<PassedPlace> PlaceOf(PyObject* item) const;
  // -1 for None.
  TapeHostOperand NumberOrConstant(PyObject* number) const;
  // Whether two tuples of numbers, as torch.Size is one, or two lists that the
  // run made are equal. False, with nothing done, if they are something else.
  bool CompareSequences(PyObject* a, PyObject* b);

  ObjectWatch& objects_;
  ArrayWatch& arrays_;
  const HostOp* op_ = nullptr;  // Of the step at hand.
  std::vector<PyRef> operands_;
  std::vector<PassedNumbers> passed_;
  std::vector<PassedPlace> places_;
  PyRef indexed_, index_;  // The tensor and the key that they are of.
  bool passes_tensors_ = false;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_WATCH_NUMBER_WATCH_H_
