// How a call's result is made again.

#ifndef MICA_PYTHON_CAPTURE_EFFECTS_RESULT_TREE_H_
#define MICA_PYTHON_CAPTURE_EFFECTS_RESULT_TREE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "python/capture/guards/input_guards.h"
#include "python/capture/values/loose_ref.h"
#include "python/capture/values/refusal.h"
#include "python/interpreter/keys.h"
#include "python/interpreter/py_ref.h"

namespace mica {

class StateWatch;

// A recipe for the objects that a program returned and left in its state: which
// parts are tensors that a run computes, which are the caller's own arguments
// or objects of the program's state, returned as themselves, which are
// constants, and which containers hold them. An object that occurred twice
// occurs twice again.
class ResultTree {
 public:
  // Describes `result` of the run that `watch` and `inputs` saw, and what it
  // left behind, of which null is skipped. Fails with a reason for what can't
  // be made again. `tensors` gets the tensors that the run made, each once;
  // borrowed from `result` and `left`.
  static std::pair<ResultTree, Refusal> Build(PyObject* result,
                                              absl::Span<PyObject* const> left,
                                              StateWatch& watch,
                                              const InputGuards& inputs,
                                              std::vector<PyObject*>* tensors);
  // The promoted scalars among the result's parts, by HostValues::Id.
  const std::vector<int32_t>& numbers() const { return numbers_; }

  // A new result of these tensors, in the order of Build()'s, and in `left`
  // what is to be left behind. Null with a Python error set if there is no
  // memory. `numbers` are as numbers() has them.
  PyObject* Make(absl::Span<PyObject* const> tensors,
                 absl::Span<const double> numbers, const BoundInputs& inputs,
                 std::vector<PyRef>* left) const;

  // Calls `let_go` on the objects of the state, and on classes.
  void LetGo(absl::FunctionRef<void(LooseRef*)> let_go);
  // For Python's garbage collector.
  int Traverse(visitproc visit, void* arg) const;

 private:
  friend class RecordDescriber;
  enum class Kind {
    kTensor,
    kObject,  // A constant, or an object of the state.
    kInput,
    kDrawn,  // An array that the call drew: BoundInputs::drawn.
    kNumber,
    kNaN,    // That the program made: a new one at each hit.
    kText,   // That it made of numbers.
    kPlace,  // What a place of the state held before the run.
    kSame,
    kTuple,  // And named tuples, and slices.
    kList,
    kDeque,
    kDict,
    kSet,
    kInstance,
    kMethod,      // In Python, of an object.
    kBuiltin,     // In C, of an object.
    kAttributes,  // The dict of an object's attributes.
  };
  // The last child is the `__dict__`.
  static constexpr int kHasDict = 1;
  struct Node {
    Kind kind = Kind::kObject;
    LooseRef object;  // kObject, kPlace as recorded; else the class, or
                      // kText: what gives it of the children,
    LooseRef holder;  // kPlace: a dict and its key, or a cell.
    LooseRef key;
    int index = 0;            // kInstance: kHasDict, or nothing;
                              // kDeque: its bound, -1 for none.
    std::vector<PyRef> keys;  // kText: the last children's, as one tuple.
    std::vector<PyRef> names;
    std::vector<int> children;
    PyMethodDef* method = nullptr;            // kBuiltin.
    std::shared_ptr<const SetForm> set_form;  // kSet.
  };

  class Builder;
  class Maker;

  std::vector<int32_t> numbers_;
  std::vector<Node> nodes_;
  int root_ = 0;
  std::vector<int> left_roots_;
  bool has_same_ = false;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_EFFECTS_RESULT_TREE_H_
