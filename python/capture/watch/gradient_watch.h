// Which gradients of leaves a program changes.

#ifndef MICA_PYTHON_CAPTURE_WATCH_GRADIENT_WATCH_H_
#define MICA_PYTHON_CAPTURE_WATCH_GRADIENT_WATCH_H_

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "python/interpreter/py_ref.h"
#include "python/torch_side/autograd/outer_graphs.h"

namespace mica {

// Notes each leaf's gradient before the program can change it. Single-thread.
class GradientWatch {
 public:
  // Requires: before the program first uses `tensor` in an operator or touches
  // its gradient. Only leaves count that require grad or have a gradient.
  void See(PyObject* tensor);
  // As See(), but of any leaf; the program reads or sets its gradient itself.
  void Touch(PyObject* tensor);
  // The program gives a leaf other data.
  void ReplaceData(PyObject* leaf) {
    Touch(leaf);
    seen_[index_.at(leaf)].has_new_data = true;
  }
  // A backward pass from these tensors may change any leaf's gradient.
  void GoBackFrom(absl::Span<PyObject* const> roots);
  bool all_touched() const { return all_touched_; }

  struct Seen {
    PyRef tensor;
    PyRef before;  // The gradient; null for none.
    bool required_grad = false;
    bool is_touched = false;
    bool has_new_data = false;
  };
  absl::Span<const Seen> seen() const { return seen_; }
  // True for a leaf that was told to Touch().
  bool HasTouched(PyObject* leaf) const {
    const auto it = index_.find(leaf);
    return it != index_.end() && seen_[it->second].is_touched;
  }
  // True for a gradient that was there before the run.
  bool IsOldGradient(PyObject* tensor) const {
    return gradients_.contains(tensor);
  }
  // True if a tensor came in with an autograd graph behind it,
  bool has_outer_graph() const { return !outer_.empty(); }
  // and a backward pass left the program by that.
  bool goes_outside() const { return goes_outside_; }

 private:
  // The leaf's entry in seen_, perhaps a new one.
  size_t Add(PyObject* leaf);

  std::vector<Seen> seen_;
  absl::flat_hash_map<PyObject*, size_t> index_;
  absl::flat_hash_map<PyObject*, size_t> gradients_;
  OuterGraphs outer_;
  bool goes_outside_ = false;
  bool all_touched_ = false;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_WATCH_GRADIENT_WATCH_H_
