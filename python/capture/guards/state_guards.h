// Guards over the Python objects that a program reads besides its arguments:
// module attributes, globals, closures, classes, tensors held as state.

#ifndef MICA_PYTHON_CAPTURE_GUARDS_STATE_GUARDS_H_
#define MICA_PYTHON_CAPTURE_GUARDS_STATE_GUARDS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "framework/base/prefetch.h"
#include "python/capture/guards/held_objects.h"
#include "python/capture/guards/noted_words.h"
#include "python/capture/values/guard_note.h"
#include "python/capture/values/places.h"
#include "python/interpreter/py_ref.h"
#include "python/torch_side/tensors/tensor_access.h"
#include "python/torch_side/tensors/tensor_life.h"

namespace mica {

class PromotedScalars;

// What a run changed that it had read before: facts about it hold at the
// beginning of a run only.
struct Rewritten {
  absl::flat_hash_set<std::pair<PyObject*, PyObject*>> places;
  absl::flat_hash_set<PyObject*> containers;
};

// A conjunction of facts about objects, which it holds as HeldObjects does:
// once one of them is gone no fact holds any more. Built while a program runs
// (each fact before the program can change it), checked before each later run.
// A check runs no Python code.
//
// Facts are checked in the order in which they were noted, so that what leads
// to an object comes before what is known of it. An object that is held by its
// place is one that an earlier fact found there.
//
// Each fact is kept twice: as words of memory that can't but change with it
// (NotedWords: versions, pointers), which is all that a check reads of what did
// not change; and whole, to see what has become of it if such a word differs,
// and to tell. Facts without such words (a set's items, an array's contents)
// are checked whole each time.
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
  // Which keys it has, in order, without what it holds: `keys`, where the run
  // has added others since it began.
  void AddKeys(PyObject* dict, const std::vector<PyRef>& keys,
               const GuardNote& note);
  // Whether all items of it have been noted, or all keys.
  bool HasDict(PyObject* dict) const;
  bool HasKeys(PyObject* dict) const;
  // list, set, frozenset and collections.deque: all items; that it has none.
  void AddItems(PyObject* container, const GuardNote& note);
  void AddNoItems(PyObject* container, const GuardNote& note);
  // Its class, and which dict holds its attributes.
  void AddInstance(PyObject* instance, const GuardNote& note);
  // Its class alone, if that can be assigned.
  void AddClassOf(PyObject* object, const GuardNote& note);
  // What a function in C gives when it is asked again; `argument` may be null.
  // `place`, if given, is a word of the argument's that the answer is made of.
  void AddAnswer(PyObject* function, PyObject* argument, PyObject* value,
                 const GuardNote& note, const void* place = nullptr);
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
  // The memory of such an array.
  struct ArrayMemory {
    std::string path;
    const char* low = nullptr;
    const char* high = nullptr;
  };
  std::vector<ArrayMemory> ArrayMemories() const;

  // The program asked which object `constant` is: from now on facts about it
  // demand that very object, not an equal one.
  void DemandSame(PyObject* constant) { same_.insert(constant); }
  // The program asked for a class's `__init__` or `__setstate__`: from now on
  // facts about classes demand those they had, though no run called them.
  void DemandConstructors() { demands_constructors_ = true; }
  // Where constants were found that are objects of their own (floats, texts,
  // large ints), by object: items of dicts, and cells.
  absl::flat_hash_map<PyObject*, std::pair<Kept, Kept>> PlacesOfConstants()
      const;

  // Whether `constant` itself is in a place that a fact tells of, in a tuple
  // that is, or in a function's code.
  bool HasConstant(PyObject* constant) const;

  // Adds the numbers that differ now, as far as what holds them is alive: items
  // of dicts, and places of which such numbers are all that differs (a tuple, a
  // list or deque, what a cell holds), which had better be slots.
  void FindPromoted(PromotedScalars* promoted,
                    std::vector<StatePlace>* slots) const;
  // Adds containers of Python's classes that hold other items than noted.
  void FindChangedInstances(std::vector<PyRef>* containers) const;
  // Adds lists and deques that had better be slots; places of an object, of the
  // array with `data` in its memory, and its path, or of arrays that changed.
  std::string FindArrays(const void* data, std::vector<StatePlace>*) const;
  void FindPlacesOf(PyObject* object, std::vector<StatePlace>* slots) const;
  void FindChangedSequences(std::vector<StatePlace>* slots) const;

  // Holds an object of the record's that no fact may be about. Wherever all
  // facts hold it is alive.
  Kept Hold(PyObject* object) { return held_.Add(object); }
  // The same of an argument that has to be the recorded one, which is found in
  // its place before any fact is checked. Requires: before facts about it.
  // numpy resizes no array that has a weak reference.
  void HoldPinned(PyObject* object) {
    if (IsArray(object)) held_.AddByPlace(object);
  }
  bool IsHeld(PyObject* object) const { return held_.Holds(object); }
  // As HeldObjects::noticed().
  const std::vector<PyObject*>& noticed() const { return held_.noticed(); }
  // As HeldObjects::LetGo(). Requires: the run's own objects are gone.
  void LetGo() { held_.LetGo(); }
  // True if an object is gone for which no check has to look.
  bool any_gone() const { return held_.any_gone(); }
  // True if an object is gone; `path`, if given, tells which. Looks at all
  // tensors.
  bool IsGone(std::string* path) const;
  // What users call an object that a fact is about.
  std::string PathOf(PyObject* object) const;

  // Which of the objects are alive, whatever facts hold.
  class Alive {
   public:
    // Of objects that are held; null is.
    bool Has(PyObject* object) const;
    // A reference, or null.
    PyRef Share(PyObject* object) const {
      return PyRef::Share(Has(object) ? object : nullptr);
    }

   private:
    friend class StateGuards;
    explicit Alive(const StateGuards& guards) : guards_(guards) {}
    const StateGuards& guards_;
    absl::flat_hash_set<PyObject*> found_;  // In their places.
  };
  Alive FindAlive() const;

  // True if every fact holds. Otherwise `miss`, if given, names one that does
  // not.
  bool Check(Miss* miss) { return CheckBut({}, miss); }
  // The same, but for what was changed since.
  bool CheckBut(const Rewritten& rewritten, Miss* miss);

  // Asks for what a check reads. As NotedWords::Prefetch().
  void Prefetch() const {
    PrefetchItems(wordless_);
    words_.Prefetch();
  }

  struct Tensor {
    Kept tensor;
    PyTypeObject* type = nullptr;
    TensorMeta meta;
    std::shared_ptr<const TensorLife> life;  // If it is held by its place.
    GuardNote note;
  };
  absl::Span<const Tensor> tensors() const { return tensors_; }
  // For Python's garbage collector: calls visit on each object held.
  int Traverse(visitproc visit, void* arg) const;

  int64_t num_facts() const;
  // "layers.0.training == True (model.py:12)", in the order noted. Requires:
  // nothing is gone.
  std::vector<std::string> ToText() const;

 private:
  struct Item {
    Kept key;
    Kept value;  // Null: absent.
    GuardNote note;
  };
  struct DictFacts {
    Kept dict;
    std::vector<Item> items;
    absl::flat_hash_map<PyObject*, size_t> index;  // By interned key.
    uint32_t fact = 0;                             // In `facts_`.
    bool is_whole = false;
    std::vector<std::pair<Kept, Kept>> contents;  // If whole, in order.
    bool has_keys = false;
    std::vector<Kept> keys;  // If it has them, in order.
    GuardNote note;
  };
  struct ItemsFacts {
    Kept container;
    std::vector<Kept> items;
    GuardNote note;
    bool is_of_tuple = false;  // That is held by its place.
  };
  struct InstanceFacts {
    Kept instance;
    Kept type;
    Kept dict;  // Null: has none.
    GuardNote note;
  };
  struct ClassOfFacts {
    Kept object;
    PyTypeObject* type = nullptr;
    GuardNote note;
  };
  struct AnswerFacts {
    Kept function;
    Kept argument;
    Kept value;
    GuardNote note;
    const void* place = nullptr;
  };
  struct SlotFacts {
    Kept owner;
    Kept member;
    Kept value;
    GuardNote note;
  };
  struct ClassFacts {
    Kept type;
    PyRef index;  // A dict of the attributes' numbers, by name.
    struct Attribute {
      Kept value;
      std::vector<Kept> parts;  // As AttributeParts() has them.
    };
    std::vector<Attribute> attributes;
  };
  struct TypeFacts {
    Kept type;
    uint32_t version = 0;
    std::vector<Kept> mro;
    std::vector<size_t> classes;  // In `classes_`.
    GuardNote note;
  };
  struct FunctionFacts {
    Kept function;
    Kept code;
    Kept defaults;
    Kept kwdefaults;
    GuardNote note;
  };
  struct CellFacts {
    Kept cell;
    Kept value;
    GuardNote note;
  };
  struct ArrayFacts {
    Kept array;
    std::string form;   // Format, shape and strides.
    std::string bytes;  // Dense.
    GuardNote note;
  };

  enum class Kind : uint8_t {
    kDict,
    kInstance,
    kClassOf,
    kType,
    kFunction,
    kCell,
    kContextVar,
    kWeakRef,
    kLock,
    kItems,
    kSlot,
    kTensor,
    kArray,
    kAnswer,
  };
  // A fact's kind and its number in that kind's own list.
  struct Fact {
    Kind kind;
    uint32_t index;
  };

  DictFacts& FactsOf(PyObject* dict, const GuardNote& note);
  // Enters the last fact of a kind, of which there are `count`, into the lists
  // that a check goes by; returns its number in `facts_`.
  uint32_t Enter(Kind kind, size_t count);
  // Adds the words that tell of a fact as it is now; none if no words do.
  void NoteWords(uint32_t number, NotedWords* words) const;
  void AddValue(PyObject* dict, PyObject* key, PyObject* value,
                const GuardNote& note);
  // Holds what a place holds that words tell of, by that place if it can be.
  Kept HoldInPlace(PyObject* value, const GuardNote& note);
  // What stays as it is as long as the object lives, of one that is held by its
  // place: a tuple's items, what a weak reference refers to.
  void AddWhatItHas(PyObject* object, const GuardNote& note);
  // The object that a fact is about.
  PyObject* SubjectOf(Fact fact) const;
  // Calls `visit` on what is in the places that a fact tells of now, which may
  // be null.
  void ForEachPlace(Fact fact, absl::FunctionRef<void(PyObject*)> visit) const;
  // As DescribeValue(), of what may be gone.
  std::string Describe(const Kept& kept) const;
  // Whether a fact holds, whatever its words say.
  bool CheckFact(Fact fact, const Rewritten& rewritten, Miss* miss);
  bool CheckDict(const DictFacts& facts, const Rewritten& rewritten,
                 Miss* miss) const;
  bool CheckKeys(const DictFacts& facts, const Rewritten& rewritten,
                 Miss* miss) const;
  bool CheckItems(const ItemsFacts& facts, Miss* miss) const;
  bool CheckInstance(const InstanceFacts& facts, Miss* miss) const;
  bool CheckType(TypeFacts& facts, Miss* miss);
  // Compares a class's attributes with those noted. Bookkeeping of the
  // interpreter's own doesn't count.
  bool CheckClass(const ClassFacts& facts, const UserLine& at,
                  Miss* miss) const;
  // Whether another attribute of a class is nothing that the run would see:
  // what makes objects, of which it made none.
  bool IsOfNoConcern(PyObject* name, const Kept& was, PyObject* now) const;
  // Whether an attribute of the class is what it was; null if it is absent.
  bool IsAttribute(const ClassFacts& facts, const ClassFacts::Attribute& was,
                   PyObject* now) const;
  bool CheckFunction(const FunctionFacts& facts, Miss* miss) const;
  bool CheckTensor(const Tensor& facts, Miss* miss) const;
  bool CheckClassOf(const ClassOfFacts& facts, Miss* miss) const;
  bool CheckArray(const ArrayFacts& facts, Miss* miss) const;
  size_t AddClass(PyTypeObject* type);
  // Whether `now` may stand where `was` was noted.
  bool IsSame(const Kept& was, PyObject* now) const;
  bool IsNew(PyObject* object) { return known_.insert({object, 0}).second; }

  HeldObjects held_;
  NotedWords words_;
  std::vector<Fact> facts_;     // In the order noted; a word's fact is in here.
  std::vector<Fact> wordless_;  // To be checked whole each time.
  std::vector<DictFacts> dicts_;
  absl::flat_hash_map<PyObject*, size_t> dict_index_;
  std::vector<ItemsFacts> items_;
  std::vector<InstanceFacts> instances_;
  std::vector<ClassOfFacts> classes_of_;
  absl::flat_hash_set<PyObject*> known_instances_;
  absl::flat_hash_set<PyObject*> known_classes_of_;
  std::vector<AnswerFacts> answers_;
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
  bool demands_constructors_ = false;
  absl::flat_hash_set<PyObject*> same_;  // By DemandSame().
};

// "__init__" and "__setstate__".
bool IsConstructorName(PyObject* name);

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_GUARDS_STATE_GUARDS_H_
