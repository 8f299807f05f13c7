// Arrays that a run drew from numpy's generators.

#ifndef MICA_PYTHON_CAPTURE_VALUES_DRAWN_ARRAYS_H_
#define MICA_PYTHON_CAPTURE_VALUES_DRAWN_ARRAYS_H_

#include <functional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "python/interpreter/py_ref.h"

namespace mica {

// Which arrays a run drew, and which tensors hold what was made of them: their
// numbers never come again. For one run; single-thread.
class DrawnArrays {
 public:
  // What the `draw`-th draw gave, the `index`-th array that is drawn; `tensor`
  // is in its memory.
  void Add(PyObject* array, PyObject* tensor, int draw, int index) {
    pins_.push_back(PyRef::Share(array));
    pins_.push_back(PyRef::Share(tensor));
    draw_of_[tensor] = draw;
    index_of_[array] = index;
  }
  // The array of `tensor` was made of that of `from`.
  void AddMadeOf(PyObject* tensor, PyObject* from) {
    const auto it = draw_of_.find(from);
    if (it == draw_of_.end()) return;
    const int draw = it->second;
    pins_.push_back(PyRef::Share(tensor));
    draw_of_[tensor] = draw;
  }
  // -1 for an array that wasn't drawn, be it made of one that was.
  int IndexOf(PyObject* array) const {
    const auto it = index_of_.find(array);
    return it == index_of_.end() ? -1 : it->second;
  }
  // Somebody reads the numbers of the array of `tensor`. False if that doesn't
  // hang on a draw; else that one is told of.
  bool Use(PyObject* tensor) const {
    const auto it = draw_of_.find(tensor);
    if (it == draw_of_.end() || !on_use_) return false;
    on_use_(it->second);
    return true;
  }
  void SetOnUse(std::function<void(int draw)> on_use) {
    on_use_ = std::move(on_use);
  }

 private:
  std::vector<PyRef> pins_;
  absl::flat_hash_map<PyObject*, int> draw_of_;   // By tensor.
  absl::flat_hash_map<PyObject*, int> index_of_;  // By array.
  std::function<void(int)> on_use_;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_VALUES_DRAWN_ARRAYS_H_
