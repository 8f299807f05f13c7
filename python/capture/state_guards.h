// Guards over the Python objects that a program reads besides its arguments:
// module attributes, globals, closures, classes, tensors held as state.

#ifndef MICA_PYTHON_CAPTURE_STATE_GUARDS_H_
#define MICA_PYTHON_CAPTURE_STATE_GUARDS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"
#include "python/capture/guard_note.h"
#include "python/capture/places.h"
#include "python/capture/tensor_access.h"
#include "python/interpreter/py_ref.h"

namespace mica {

class VaryingNumbers;

// What a run changed that it had read before: facts about it hold at the
// beginning of a run only.
struct Rewritten {
  absl::flat_hash_set<std::pair<PyObject*, PyObject*>> places;
  absl::flat_hash_set<PyObject*> containers;
};

// A conjunction of facts about objects, all of which it keeps alive. Built
// while a program runs (each fact before the program can change it), checked
// before each later run. A check reads memory and compares: it runs no Python
// code, and costs about a nanosecond for a dict that did not change.
// Single-thread, under the GIL.
class StateGuards {
 public:
  StateGuards() = default;
  StateGuards(StateGuards&&) = default;
  StateGuards& operator=(StateGuards&&) = default;

  // Each notes the object as it is now; what was noted before stays as it was.
  // `key` is a str or an int; the item may be absent.
  void AddItem(PyObject* dict, PyObject* key, const GuardNote& note);
  bool HasItem(PyObject* dict, PyObject* key) const;
  // The same of a number that was there and isn't any more.
  void AddItemAs(PyObject* dict, PyObject* key, PyObject* value,
                 const GuardNote& note);
  // What was noted of an item, or of a cell (for a null key): its value, or
  // Slots::Absent(); null if nothing was. Borrowed.
  PyObject* Noted(PyObject* holder, PyObject* key) const;
  bool HasItems(PyObject* container) const {
    return known_.contains(container);
  }
  // Whether the container, which has been noted, is as it was.
  bool HoldItems(PyObject* container) const;
  bool HasArray(PyObject* array) const { return known_.contains(array); }
  void AddDict(PyObject* dict, const GuardNote& note);  // All items, in order.
  // list, set, frozenset and collections.deque: all items.
  void AddItems(PyObject* container, const GuardNote& note);
  // Its class, and which dict holds its attributes.
  void AddInstance(PyObject* instance, const GuardNote& note);
  // `member` is the slot's descriptor, of a class with __slots__.
  void AddSlot(PyObject* owner, PyObject* member, const GuardNote& note);
  // All attributes of the class and its bases.
  void AddType(PyTypeObject* type, const GuardNote& note);
  // Its code and default arguments.
  void AddFunction(PyObject* function, const GuardNote& note);
  void AddCell(PyObject* cell, const GuardNote& note);
  // Its value in the running context.
  void AddContextVar(PyObject* variable, const GuardNote& note);
  // What it refers to.
  void AddWeakRef(PyObject* reference, const GuardNote& note);
  // That nobody holds the lock, which the run gives back. False if it is held.
  bool AddLock(PyObject* lock, const GuardNote& note);
  // Its metadata; contents are read at each run.
  void AddTensor(PyObject* tensor, const GuardNote& note);
  // A numpy array's contents. False if they are large or hold objects.
  bool AddArray(PyObject* array, const GuardNote& note);

  // Adds the numbers that differ from the noted ones now: items of dicts, and
  // places of which such numbers are all that differs (a tuple, a list, what a
  // cell holds), which had better be slots.
  void FindVarying(VaryingNumbers* varying,
                   std::vector<StatePlace>* slots) const;
  // Adds the lists that hold other items than noted, and as many.
  void FindChangedLists(std::vector<StatePlace>* slots) const;

  // True if every fact holds. Otherwise `miss`, if given, names one that does
  // not.
  bool Check(Miss* miss) { return CheckBut({}, miss); }
  // The same, but for what was changed since.
  bool CheckBut(const Rewritten& rewritten, Miss* miss);

  struct Tensor {
    PyRef tensor;
    TensorMeta meta;
    GuardNote note;
  };
  absl::Span<const Tensor> tensors() const { return tensors_; }
  // For Python's garbage collector: calls visit on each object held.
  int Traverse(visitproc visit, void* arg) const;

  int64_t num_facts() const;
  // "layers.0.training == True (model.py:12)", in the order noted.
  std::vector<std::string> ToText() const;

 private:
  struct Item {
    PyRef key;
    PyRef value;  // Null: absent.
    GuardNote note;
  };
  // All that a check reads of a dict that did not change.
  struct DictTag {
    PyDictObject* dict;
    uint64_t version;
  };
  struct DictFacts {
    PyRef dict;
    std::vector<Item> items;
    absl::flat_hash_map<PyObject*, size_t> index;  // By interned key.
    bool is_whole = false;
    std::vector<std::pair<PyRef, PyRef>> contents;  // If whole, in order.
    GuardNote note;
  };
  struct ItemsFacts {
    PyRef container;
    std::vector<PyRef> items;
    GuardNote note;
  };
  struct InstanceFacts {
    PyRef instance;
    PyRef type;
    PyRef dict;  // Null: has none.
    GuardNote note;
  };
  struct SlotFacts {
    PyRef owner;
    PyRef member;
    PyRef value;
    GuardNote note;
  };
  struct ClassFacts {
    PyRef type;
    PyRef dict;  // A copy.
  };
  struct TypeFacts {
    PyRef type;
    uint32_t version = 0;
    PyRef mro;
    std::vector<size_t> classes;  // In `classes_`.
    GuardNote note;
  };
  struct FunctionFacts {
    PyRef function;
    PyRef code;
    PyRef defaults;
    PyRef kwdefaults;
    GuardNote note;
  };
  struct CellFacts {
    PyRef cell;
    PyRef value;
    GuardNote note;
  };
  struct ArrayFacts {
    PyRef array;
    std::string form;   // Format, shape and strides.
    std::string bytes;  // Dense.
    GuardNote note;
  };

  DictFacts& FactsOf(PyObject* dict, const GuardNote& note);
  void AddValue(PyObject* dict, PyObject* key, PyRef value,
                const GuardNote& note);
  bool CheckDict(const DictFacts& facts, const Rewritten& rewritten,
                 Miss* miss) const;
  bool CheckItems(const ItemsFacts& facts, Miss* miss) const;
  bool CheckInstance(const InstanceFacts& facts, Miss* miss) const;
  bool CheckType(TypeFacts& facts, Miss* miss);
  bool CheckFunction(const FunctionFacts& facts, Miss* miss) const;
  bool CheckArray(const ArrayFacts& facts, Miss* miss) const;
  size_t AddClass(PyTypeObject* type);
  bool IsNew(PyObject* object) { return known_.insert({object, 0}).second; }

  std::vector<DictTag> dict_tags_;
  std::vector<DictFacts> dicts_;
  std::vector<size_t> ordered_dicts_;  // Whose order has no version.
  absl::flat_hash_map<PyObject*, size_t> dict_index_;
  std::vector<ItemsFacts> items_;
  std::vector<InstanceFacts> instances_;
  std::vector<SlotFacts> slots_;
  absl::flat_hash_map<std::pair<PyObject*, PyObject*>, int> known_slots_;
  std::vector<ClassFacts> classes_;
  absl::flat_hash_map<PyTypeObject*, size_t> class_index_;
  std::vector<TypeFacts> types_;
  std::vector<FunctionFacts> functions_;
  std::vector<CellFacts> cells_;
  std::vector<CellFacts> context_vars_;
  std::vector<CellFacts> weak_refs_;
  std::vector<CellFacts> locks_;
  std::vector<ArrayFacts> arrays_;
  std::vector<Tensor> tensors_;
  absl::flat_hash_map<PyObject*, int> known_;  // But for dicts and slots.
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_STATE_GUARDS_H_
