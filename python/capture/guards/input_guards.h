// Guards over what a call passes in.

#ifndef MICA_PYTHON_CAPTURE_GUARDS_INPUT_GUARDS_H_
#define MICA_PYTHON_CAPTURE_GUARDS_INPUT_GUARDS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "framework/base/prefetch.h"
#include "python/capture/values/guard_note.h"
#include "python/capture/values/loose_ref.h"
#include "python/capture/values/refusal.h"
#include "python/interpreter/py_ref.h"
#include "python/torch_side/tensors/tensor_access.h"

namespace mica {

class HostValues;

// A call's arguments as the vectorcall protocol passes them.
struct CallArgs {
  PyObject* const* args = nullptr;
  Py_ssize_t num_positional = 0;
  PyObject* keyword_names = nullptr;  // A tuple, or null.
  // What the program's slots hold, which is read as arguments are.
  PyObject* const* slots = nullptr;
  size_t num_slots = 0;

  Py_ssize_t num_keywords() const {
    return keyword_names == nullptr ? 0 : PyTuple_GET_SIZE(keyword_names);
  }
  Py_ssize_t size() const { return num_positional + num_keywords(); }
};

// The objects that a call passed, by node; borrowed from the call.
struct BoundInputs {
  std::vector<PyObject*> objects;  // By node.
  std::vector<PyObject*> tensors;  // The different ones, by number.
  std::vector<PyRef> of_arrays;    // Those of them in numpy arrays' memory.
  std::vector<PyRef> drawn;        // Arrays that the call draws, in order.
};

// Which instances that are arguments are taken apart.
struct ApartTypes {
  absl::flat_hash_set<PyTypeObject*> structural;  // Those of these classes,
  absl::flat_hash_set<PyTypeObject*> whole;  // and none of FindPlainInstances()
                                             // that is of one of these.
};

// A tree over the arguments: their structure, the types and values of what
// isn't a tensor, the metadata of tensors, and which of them are one object.
//
// Containers, dataclasses and their like are taken apart, so that a call may
// bring new ones; other objects (modules, functions) have to be the recorded
// ones, and are kept alive until LetGo(). Tensors and containers are not.
// Single-thread.
class InputGuards {
 public:
  // Describes `args` as they are now. `structural` names classes whose
  // instances are to be taken apart too. Fails with a reason for what can't be
  // guarded. `names` are those of the positional parameters, as known, and
  // `slots` of the slots; `promoted` has the paths of numbers whose value
  // isn't to be guarded.
  static std::pair<InputGuards, Refusal> Build(
      const CallArgs& args, absl::Span<const std::string> names,
      absl::Span<const std::string> slots, const ApartTypes& apart,
      const absl::flat_hash_set<std::string>& promoted);

  // Asks for what Match() reads.
  void Prefetch() const {
    PrefetchItems(nodes_);
    PrefetchItems(roots_);
    PrefetchItems(tensors_);
  }
  // True if `args` are like those recorded; `bound` then has their parts.
  // Otherwise `miss`, if given, says what differs.
  bool Match(const CallArgs& args, BoundInputs* bound, Miss* miss) const {
    return Match(args, bound, miss, nullptr);
  }
  // The same but for the sizes of tensors, and for the ints of these paths.
  bool MatchButSizes(const CallArgs& args,
                     const absl::flat_hash_set<std::string>& numbers,
                     BoundInputs* bound) const {
    return Match(args, bound, nullptr, &numbers);
  }
  // The node of an int of this path; -1 if there is none.
  int FindInt(absl::string_view path) const;
  // Has these sizes of a tensor vary; whoever binds it checks them.
  void OpenSizes(int tensor, std::vector<int> dims) {
    tensors_[tensor].open = std::move(dims);
  }

  // The class of an object that had to be the recorded one and wasn't, though
  // it is of the same class; by the last failed Match(). Null if that failed
  // for another reason.
  PyTypeObject* misplaced_type() const { return misplaced_type_; }

  // The same for these arguments, if the recorded object of one may be gone.
  PyTypeObject* FindMisplaced(const CallArgs& args);

  // The paths of numbers that differed where the last Match() failed; none if
  // that failed for another reason.
  absl::Span<const std::string> promoted_paths() const {
    return promoted_paths_;
  }
  // The number arguments whose value isn't guarded, by node.
  absl::Span<const int> numbers() const { return numbers_; }
  PyObject* recorded_number(int node) const { return nodes_[node].value.get(); }
  // What it stood in the place of; while recording.
  PyObject* original_number(int node) const {
    return nodes_[node].original.get();
  }
  // If the `index`-th argument (or slot, after all arguments) is one, or a
  // tuple of such: what the run has to get in its place, an object of its own.
  // Else null.
  PyObject* InPlaceOf(size_t index) const {
    const Node& node = nodes_[roots_[index]];
    return node.original ? node.value.get() : nullptr;
  }
  // Calls visit(own, original) for each such object, in containers too; while
  // recording.
  void ForEachOwn(absl::FunctionRef<void(PyObject*, PyObject*)> visit) const {
    for (const Node& node : nodes_) {
      if (node.original) visit(node.value.get(), node.original.get());
    }
  }
  // An item or attribute of an argument, in which such a one was put.
  struct LentItem {
    PyRef holder;          // A list or deque; or a dict,
    PyRef key;             // by this key.
    Py_ssize_t index = 0;  // Of a list or deque.
    PyRef own;
    PyRef original;
    // Replaces `from`; false if that isn't there.
    bool Replace(const PyRef& from, const PyRef& to) const;
  };
  // Puts the originals back wherever such objects still are where they were
  // put; while recording. TakeBack() undoes that but for what was set since.
  std::vector<LentItem> LendOriginals() const;
  static void TakeBack(absl::Span<const LentItem> lent);
  const std::string& path(int node) const { return nodes_[node].path; }
  // Guards such a number's value after all.
  void GuardNumber(int node) { nodes_[node].kind = Kind::kConstant; }

  // Demands that the argument be the recorded `object` again, which is kept
  // alive: the program reached it by its state too.
  void Pin(PyObject* object);
  // The same of arguments that are a number or text, whose value alone is
  // guarded else, and of constant tuples with it.
  void PinConstant(PyObject* object);
  // Demands of two such, which are equal, that they be two objects, wherever
  // each comes from; of constant tuples with them, that they be the recorded
  // ones. Neither is dereferenced later.
  void KeepConstantsApart(PyObject* a, PyObject* b);
  // True if such an object is a key of an argument or the name of its
  // attribute, or what an argument is called by (`f(**{name: x})`).
  bool IsKey(PyObject* object) const;
  // Demands that such keys be that very object.
  void PinKey(PyObject* object) { pinned_keys_.insert(object); }
  // Demands that no argument be one of these tensors: the program reached them
  // by its state, not as arguments.
  void Forbid(absl::Span<const PyRef> tensors);

  // Calls visit(array, tensor) for each numpy array that is a tensor to the
  // Program; while recording.
  void ForEachArray(absl::FunctionRef<void(PyObject*, PyObject*)> visit) const;

  // Node of a recorded object, or -1.
  int FindNode(PyObject* object) const;
  // The recorded objects whose contents are guarded here; valid while the
  // recorded call lasts.
  absl::Span<PyObject* const> covered() const { return covered_; }
  absl::Span<const PyRef> pinned() const { return pinned_; }
  absl::Span<const std::string> pinned_paths() const { return pinned_paths_; }

  struct Tensor {
    PyObject* recorded = nullptr;  // Borrowed; not for use after the run.
    TensorMeta meta;
    std::string path;
    std::vector<int> open;  // Dims, by OpenSizes().
  };
  absl::Span<const Tensor> tensors() const { return tensors_; }
  // The number of a tensor of the recorded call; -1 if it isn't one of them.
  int FindTensor(PyObject* recorded) const {
    for (size_t i = 0; i < tensors_.size(); ++i) {
      if (tensors_[i].recorded == recorded) return static_cast<int>(i);
    }
    return -1;
  }
  // Equal for calls that differ in nothing but sizes in `dynamic` (path and
  // dim); "" if none of these occurs.
  std::string Family(
      const absl::flat_hash_set<std::pair<std::string, int>>& dynamic) const;
  // Adds the sizes, by path and dim, in which `other` differs, which expects
  // arguments of the same structure.
  void FindOtherSizes(
      const InputGuards& other,
      absl::flat_hash_set<std::pair<std::string, int>>* found) const;

  // The recorded call's own objects.
  BoundInputs Recorded() const;
  // Containers that hold something else than when they were described. Fails
  // with a reason for what can't be done again. Of the recorded call, after it.
  struct Change {
    int node = 0;
    std::string path;
    // To be done in this order, to items and to attributes. Items of a list or
    // deque are set as a whole, without keys.
    struct Keyed {
      std::vector<PyRef> removed;
      std::vector<PyRef> set;
      std::vector<PyObject*> values;  // Borrowed, of what is set.
    };
    Keyed items;
    Keyed attributes;
  };
  // The classes of arguments that are taken apart though nobody said so.
  const absl::flat_hash_set<PyTypeObject*>& plain_types() const {
    return plain_types_;
  }
  // Whether a list has got longer, by what is no instance of a Python class.
  bool AddsResults(const Change& change) const;
  // A number in `values` counts as another than a constant.
  std::pair<std::vector<Change>, Refusal> FindChanges(
      const HostValues& values) const;
  // Demands that each mutable container be another object, and none of these,
  // nor have its attributes in one of these: something is written that it
  // would show.
  void KeepApart(const absl::flat_hash_set<PyObject*>& others);
  // The same of the recorded `objects`, of which the program asked which object
  // they are.
  void Distinguish(const absl::flat_hash_set<PyObject*>& objects,
                   const absl::flat_hash_set<PyObject*>& others);
  bool has_mutable_containers() const;

  // Forgets what it knew of the recorded objects, but for those kept alive.
  void EndRecording();
  // Calls `let_go` on those, but for constants: who has it let go of them holds
  // them in another way, and knows that they are alive before Match() is asked.
  void LetGo(absl::FunctionRef<void(LooseRef*)> let_go);

  // For Python's garbage collector.
  int Traverse(visitproc visit, void* arg) const;
  // "x is f32[8,64]", one a line of the list.
  std::vector<std::string> ToText() const;

 private:
  friend class RecordDescriber;
  friend class ChangeFinder;
  enum class Kind {
    kTensor,
    kConstant,
    kNumber,  // A float or an int of any value; `value` is the recorded one.
    kTuple,   // And subclasses without attributes: named tuples.
    kList,
    kDeque,     // Of this bound, `index`.
    kDict,      // OrderedDict and defaultdict, too.
    kSet,       // Of constants, `keys`, in the order of their iteration.
    kInstance,  // A class made in Python: attributes, and items if a dict.
    kArray,     // Of numpy's: a tensor in its memory.
    kPinned,
    kSame,  // The object of an earlier node.
  };
  struct Node {
    Kind kind = Kind::kConstant;
    LooseRef type;         // Of the object.
    LooseRef value;        // kConstant, kPinned, kNumber.
    LooseRef original;     // kNumber, kTuple: what `value` stands in the
                           // place of, while recording.
    int index = 0;         // kTensor, kArray: number; kSame: node.
                           // kDeque: -1 if it has no bound.
    LooseRef same_object;  // Pinned, though its contents are guarded too.
    std::vector<PyObject*> others;  // It is none of them. Not dereferenced.
    std::vector<PyRef> keys;        // kDict, kInstance: of items.
    std::vector<PyRef> names;       // kInstance: of attributes.
    std::vector<int> children;      // Items, then attributes.
    std::string path;
    PyObject* recorded = nullptr;  // Borrowed; while recording.
  };

  class Builder;
  // `any_sizes` as for MatchButSizes(); null for Match().
  bool Match(const CallArgs& args, BoundInputs* bound, Miss* miss,
             const absl::flat_hash_set<std::string>* any_sizes) const;
  static bool IsInt(const Node& node);
  bool MatchNode(int id, PyObject* object, BoundInputs* bound,
                 Miss* miss) const;
  bool MatchesMeta(const Tensor& tensor, PyObject* object) const;
  bool MatchArray(const Node& node, PyObject* object, BoundInputs* bound) const;
  // Of a constant that another one is given for: if they differ in numbers
  // alone, notes these and goes on, though the arguments aren't alike.
  bool MatchNumbers(const Node& node, PyObject* object, Miss* miss) const;
  // Of a container of the recorded class.
  bool MatchContainer(const Node& node, PyObject* object, BoundInputs* bound,
                      Miss* miss) const;
  bool MatchSequence(const Node& node, PyObject* object, BoundInputs* bound,
                     Miss* miss) const;
  bool MatchDeque(const Node& node, PyObject* deque, BoundInputs* bound,
                  Miss* miss) const;
  bool MatchItems(const Node& node, PyObject* object, BoundInputs* bound,
                  Miss* miss) const;
  bool MatchAttributes(const Node& node, PyObject* object, BoundInputs* bound,
                       Miss* miss) const;
  // Of a dict with as many items as `keys`; `child` is the first's number among
  // the node's children.
  bool MatchDict(const Node& node, PyObject* dict, absl::Span<const PyRef> keys,
                 size_t child, BoundInputs* bound, Miss* miss) const;
  bool MatchTensors(const BoundInputs& bound, Miss* miss) const;
  static bool IsMutable(Kind kind);
  static bool HasNoAttributes(PyObject* object);
  bool MatchApart(const BoundInputs& bound, Miss* miss) const;
  // Nodes of a constant. Pins tuples that it is in.
  std::vector<int> FindConstant(PyObject* object);
  void KeepNodesApart(std::vector<int> nodes,
                      const absl::flat_hash_set<PyObject*>& others);
  // Whether `now` may stand where `was` is a node's key.
  bool IsSameKey(PyObject* was, PyObject* now) const;
  bool Differ(const Node& node, PyObject* got, Miss* miss) const;
  std::string Describe(const Node& node) const;

  std::vector<Node> nodes_;
  absl::flat_hash_set<PyTypeObject*> plain_types_;
  std::vector<int> roots_;
  Py_ssize_t num_positional_ = 0;
  PyRef keyword_names_;
  std::vector<int> numbers_;
  mutable std::vector<std::string> promoted_paths_;
  std::vector<Tensor> tensors_;
  std::vector<PyRef> of_arrays_;  // Of `tensors_`, while recording.
  std::vector<PyRef> pinned_;
  std::vector<std::string> pinned_paths_;
  absl::flat_hash_map<PyObject*, int> node_of_;
  std::vector<PyObject*> covered_;
  absl::flat_hash_map<PyObject*, LooseRef> forbidden_;  // To itself.
  absl::flat_hash_set<PyObject*> pinned_keys_;
  std::vector<std::pair<int, int>> constants_apart_;  // Nodes.
  std::vector<int> apart_;                            // Containers' nodes.
  absl::flat_hash_set<PyObject*> apart_from_;         // Not dereferenced.
  mutable PyTypeObject* misplaced_type_ = nullptr;
  mutable const absl::flat_hash_set<std::string>* any_sizes_ =
      nullptr;  // In the Match() under way.
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_GUARDS_INPUT_GUARDS_H_
