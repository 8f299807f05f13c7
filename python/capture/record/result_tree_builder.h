// How a ResultTree is made of what a run left.

#ifndef MICA_PYTHON_CAPTURE_RECORD_RESULT_TREE_BUILDER_H_
#define MICA_PYTHON_CAPTURE_RECORD_RESULT_TREE_BUILDER_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "python/capture/effects/result_tree.h"
#include "python/capture/guards/input_guards.h"
#include "python/capture/values/host_values.h"
#include "python/capture/values/refusal.h"
#include "python/capture/watch/state_watch.h"

namespace mica {

// Adds nodes to one tree. All that it is given outlives it.
class ResultTree::Builder {
 public:
  Builder(ResultTree* tree, StateWatch& watch, const InputGuards& inputs,
          std::vector<PyObject*>* tensors)
      : tree_(*tree), watch_(watch), inputs_(inputs), tensors_(*tensors) {}

  int Add(PyObject* object, int depth);
  const Refusal& refusal() const { return refusal_; }

 private:
  int NewNode(Kind kind, PyObject* object) {
    tree_.nodes_.push_back({.kind = kind, .object = PyRef::Share(object)});
    return static_cast<int>(tree_.nodes_.size()) - 1;
  }
  int NewContainer(Kind kind, PyObject* object) {
    const int id = NewNode(kind, reinterpret_cast<PyObject*>(Py_TYPE(object)));
    node_of_[object] = id;
    return id;
  }
  int Refuse(std::string reason, std::string mend = "") {
    if (!refusal_) {
      refusal_ = {.reason = std::move(reason), .mend = std::move(mend)};
    }
    return 0;
  }
  // The same object again.
  int AddSame(int node) {
    const int id = NewNode(Kind::kSame, nullptr);
    tree_.nodes_[id].index = node;
    tree_.has_same_ = true;
    return id;
  }
  int AddInput(int node) {
    const int id = NewNode(Kind::kInput, nullptr);
    tree_.nodes_[id].index = node;
    return id;
  }
  int AddPlace(PyObject* object, PyObject* holder, PyObject* key) {
    const int id = NewNode(Kind::kPlace, object);
    tree_.nodes_[id].holder = PyRef::Share(holder);
    tree_.nodes_[id].key = PyRef::Share(key);
    return id;
  }
  // Of an nn.Parameter a hit makes one again.
  int AddTensor(PyObject* tensor);
  // Node `id` is a tensor that the Program gives.
  int AddOutput(int id, PyObject* tensor);
  // A tensor of constants, to the Program: if it is in the memory of an array
  // that the state has, who writes the one is to change the other. Refuses
  // that; the array had better be read as arguments are.
  bool IsOfStateArray(PyObject* tensor);
  int AddConstant(PyObject* constant, int depth);
  // Whether a hit finds it, or what it holds, in a place or among the
  // arguments, or makes it anew.
  bool IsObjectOfHit(PyObject* constant) const;
  // Whether the program made it, a NaN: sets and comparisons of lists tell one
  // NaN from another.
  bool IsNewNaN(PyObject* constant) const;
  // A promoted scalar: if nothing was computed of it, the very object that a
  // hit finds in its place.
  int AddPromoted(HostValues::Id number, PyObject* object);
  // One of which another number is one; -1 for one that doesn't vary.
  int AddPicked(HostValues::Id number);
  int AddText(HostValues::Id text, int depth);
  // What shares the memory of a tensor.
  int AddArray(PyObject* array, PyObject* tensor, int depth);
  int AddNew(PyObject* object, int depth);
  int AddTuple(PyObject* tuple, int depth);
  int AddSlice(PyObject* object, int depth);
  int AddDeque(PyObject* deque, int depth);
  int AddSet(PyObject* set, int depth);
  // A method in C, bound to an object.
  int AddBuiltin(PyObject* object, int depth);
  void AddChild(int id, PyObject* object, int depth);
  void AddItems(int id, PyObject* sequence, int depth);
  void AddDict(int id, PyObject* dict, int depth);
  void AddAttributes(int id, PyObject* object, int depth);
  // The object, an argument or one in the tree, whose attributes a dict is;
  // null if there is none.
  PyObject* OwnerOf(PyObject* dict);

  ResultTree& tree_;
  StateWatch& watch_;
  const InputGuards& inputs_;
  std::vector<PyObject*>& tensors_;
  absl::flat_hash_map<PyObject*, int> node_of_;
  absl::flat_hash_map<HostValues::Id, int> node_of_number_;
  // Constants that are objects of their own: where a hit finds them.
  std::optional<absl::flat_hash_map<PyObject*, std::pair<Kept, Kept>>> places_;
  std::vector<PyObject*> arguments_;
  absl::flat_hash_map<PyObject*, PyObject*> owners_;  // By their attributes.
  bool knows_owners_ = false;            // Those among the arguments.
  absl::flat_hash_map<int, bool> open_;  // Tuples under construction.
  Refusal refusal_;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_RECORD_RESULT_TREE_BUILDER_H_
