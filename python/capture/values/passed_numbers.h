// Python's numbers on their way into an operator's call.

#ifndef MICA_PYTHON_CAPTURE_VALUES_PASSED_NUMBERS_H_
#define MICA_PYTHON_CAPTURE_VALUES_PASSED_NUMBERS_H_

#include <vector>

#include "absl/types/span.h"
#include "analysis/lower/tape.h"

namespace mica {

// A number that an operator got, or all floats of a list that it got, as an
// index in the host values and the value of this run. Items of a list without
// an index are constants.
struct PassedNumbers {
  std::vector<TapeHostOperand> items;
  bool is_list = false;
  bool is_int = false;      // It is of Python's int.
  bool is_operand = false;  // It is a or b of the program's a + b.
  bool is_stored = false;   // It is what `tensor[...] = number` stores.
  bool is_data = false;     // A new tensor is made of it.
};

// An item of an index of a tensor: an int, a tensor of one, or a slice from a
// number on that is followed. A number without an index in the host values is a
// constant.
struct PassedPlace {
  TapeHostOperand start;
  TapeHostOperand end;  // Of a slice.
  bool is_slice = false;
  bool is_tensor = false;  // `start` is what torch reads of it.
};

// One step indexed a tensor with `places`, all ints among the items and the
// slices with numbers that are followed, by the calls of `tape` from
// `first_call` on: puts the host values where these begin. `sizes` gets the
// size of each one's dim. False, with nothing changed, if that isn't certain.
bool PlacePlaces(absl::Span<const PassedPlace> places, size_t first_call,
                 Tape& tape, std::vector<int64_t>* sizes);

// One step passed `numbers` to one operator, recorded as call `index` of
// `tape`, and `first_new` was the next tensor before it: puts the host values
// into the call, in place of what they were. False, with nothing changed, if
// that isn't certain: another number of candidates than expected.
// `is_tracked`: autograd keeps the call's Scalars for its backward pass.
bool PlaceNumbers(absl::Span<const PassedNumbers> numbers,
                  TapeTensorId first_new, bool is_tracked, size_t index,
                  Tape& tape);

// One step made a tensor of `data`, the first new one being `first_new`: puts
// the host values into it. False, with nothing changed, if that isn't certain.
bool PlaceData(const PassedNumbers& data, TapeTensorId first_new, Tape& tape);

// One step stored `number` in items of a tensor, by the calls of `tape` from
// `first_call` on: puts the host value where these make a tensor of it. False,
// with nothing changed, if that isn't certain.
bool PlaceStored(const PassedNumbers& number, size_t first_call,
                 TapeTensorId first_new, Tape& tape);

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_VALUES_PASSED_NUMBERS_H_
