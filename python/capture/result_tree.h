// How a call's result is made again.

#ifndef MICA_PYTHON_CAPTURE_RESULT_TREE_H_
#define MICA_PYTHON_CAPTURE_RESULT_TREE_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "python/capture/input_guards.h"
#include "python/capture/py_ref.h"
#include "python/capture/refusal.h"
#include "python/capture/state_watch.h"

namespace mica {

// A recipe for the object that a program returned: which parts are tensors
// that a run computes, which are the caller's own arguments or objects of the
// program's state, returned as themselves, which are constants, and which
// containers hold them. An object that occurred twice occurs twice again.
class ResultTree {
 public:
  // Describes `result` of the run that `watch` and `inputs` saw. Fails with a
  // reason for what can't be made again. `tensors` gets the tensors that the
  // run made, each once; borrowed from `result`.
  static std::pair<ResultTree, Refusal> Build(PyObject* result,
                                              StateWatch& watch,
                                              const InputGuards& inputs,
                                              std::vector<PyObject*>* tensors);
  // The numbers that vary among the result's parts, by HostValues::Id.
  const std::vector<int32_t>& numbers() const { return numbers_; }

  // A new result of these tensors, in the order of Build()'s. Null with a
  // Python error set if there is no memory.
  // `numbers` are as numbers() has them.
  PyObject* Make(absl::Span<PyObject* const> tensors,
                 absl::Span<const double> numbers,
                 const BoundInputs& inputs) const;

  // For Python's garbage collector.
  int Traverse(visitproc visit, void* arg) const;

 private:
  friend class RecordDescriber;
  enum class Kind {
    kTensor,
    kObject,  // A constant, or an object of the state.
    kInput,
    kNumber,
    kSame,
    kTuple,  // And named tuples.
    kList,
    kDict,
    kSet,
    kInstance,
  };
  struct Node {
    Kind kind = Kind::kObject;
    PyRef object;  // kObject; else the class.
    int index = 0;
    std::vector<PyRef> keys;
    std::vector<PyRef> names;
    std::vector<int> children;
  };

  class Builder;
  struct Parts {
    absl::Span<PyObject* const> tensors;
    absl::Span<const double> numbers;
    const BoundInputs& inputs;
  };
  PyObject* MakeNode(int id, const Parts& parts,
                     std::vector<PyObject*>& made) const;

  std::vector<int32_t> numbers_;
  std::vector<Node> nodes_;
  int root_ = 0;
  bool has_same_ = false;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_RESULT_TREE_H_
