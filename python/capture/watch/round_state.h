// What a function has when a round of its loop begins, or when ways meet.

#ifndef MICA_PYTHON_CAPTURE_WATCH_ROUND_STATE_H_
#define MICA_PYTHON_CAPTURE_WATCH_ROUND_STATE_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "analysis/lower/tape.h"
#include "analysis/ways/way_run.h"
#include "python/capture/values/host_values.h"
#include "python/capture/watch/object_ages.h"
#include "python/capture/watch/watch_part.h"
#include "python/interpreter/py_ref.h"
#include "python/torch_side/tensors/tensor_access.h"

namespace mica {

// Lists of the run's own to which each round appends, or in front of which it
// puts something.
struct GrownList {
  Py_ssize_t size = 0;  // When the round began.
  bool at_front = false;
};
using GrownLists = absl::flat_hash_map<PyObject*, GrownList>;

// All that a program can tell of the values that a function has, and of what
// the run's own lists, tuples, dicts, cells and functions among them hold, but
// for the values of numbers that follow from sizes and the data of tensors that
// the run made: of those, which they are, by when the run made them. Two rounds
// that begin with equal ones do the same, each with what the one before it
// made, as long as nothing else that was there before them changes. A value;
// keeps nothing alive but constants.
class RoundState {
 public:
  // What a tensor is called on the tape.
  using NameOf = std::function<TapeTensorId(PyObject* tensor)>;

  RoundState() = default;
  // All outlive the call alone. `given`: what the loop went through in the
  // round before.
  RoundState(const HostValues& values, ObjectAges& ages,
             const RecorderHooks& recorder, const GrownLists& grown,
             absl::Span<const PyRef> given,
             absl::Span<PyObject* const> variables,
             absl::Span<PyObject* const> operands);

  // The same of a moment at which ways of the program may meet, to be compared
  // with one of another run: tensors of the run and of its arguments count by
  // metadata alone, and are put into `tensors` by their names, in order. Own
  // are those that only the variables and operands themselves have.
  RoundState(const HostValues& values, ObjectAges& ages,
             const RecorderHooks& recorder, const NameOf& name_of,
             absl::Span<PyObject* const> variables,
             absl::Span<PyObject* const> operands,
             std::vector<WayEvent::Tensor>* tensors);

  // Whether it holds what this container holds.
  bool Covers(PyObject* container) const { return seen_.contains(container); }
  // Something else that the round did, which has to be the same in the next.
  void Add(int64_t what) { items_.push_back({.what = what}); }
  friend bool operator==(const RoundState& a, const RoundState& b);

 private:
  struct Item {
    int64_t what = 0;   // A form, a count, or an object's address.
    int64_t since = 0;  // How much the run has made since it made that.
    // What the loop went through last, if not -1: whatever else that is.
    int64_t given = -1;
    int32_t output = 0, item = 0;  // Of the call that made it.
    PyRef constant;                // Or this.
    std::vector<TensorMeta> meta;  // Or such a tensor: one.
  };
  class Describer;

  std::vector<Item> items_;
  absl::flat_hash_map<PyObject*, int64_t> seen_;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_WATCH_ROUND_STATE_H_
