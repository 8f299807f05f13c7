// What a loop's function has when a round begins.

#ifndef MICA_PYTHON_CAPTURE_WATCH_ROUND_STATE_H_
#define MICA_PYTHON_CAPTURE_WATCH_ROUND_STATE_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "python/capture/values/host_values.h"
#include "python/capture/watch/object_ages.h"
#include "python/interpreter/py_ref.h"
#include "python/torch_side/tensors/tensor_access.h"

namespace mica {

// Lists of the run's own to which each round appends, by their lengths when the
// round began.
using GrownLists = absl::flat_hash_map<PyObject*, Py_ssize_t>;

// All that a program can tell of the values that a function has, and of what
// the run's own lists, tuples, dicts, cells and functions among them hold, but
// for numbers that follow from sizes and the data of tensors that the run made:
// two rounds that begin with equal ones do the same, as long as nothing else
// that was there before them changes. A value; keeps nothing alive but
// constants.
class RoundState {
 public:
  RoundState() = default;
  // Both outlive the calls alone.
  RoundState(const HostValues& values, ObjectAges& ages,
             const GrownLists& grown, absl::Span<PyObject* const> variables,
             absl::Span<PyObject* const> operands);

  // Whether it holds what this container holds.
  bool Covers(PyObject* container) const {
    return seen_.contains(container);
  }
  // Something else that the round did, which has to be the same in the next.
  void Add(int64_t what) { items_.push_back({.what = what}); }
  friend bool operator==(const RoundState& a, const RoundState& b);

 private:
  struct Item {
    int64_t what = 0;               // A form, a count, or an object's address.
    PyRef constant;                 // Or this.
    std::vector<TensorMeta> meta;   // Or such a tensor: one.
  };
  class Describer;

  std::vector<Item> items_;
  absl::flat_hash_map<PyObject*, int64_t> seen_;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_WATCH_ROUND_STATE_H_
