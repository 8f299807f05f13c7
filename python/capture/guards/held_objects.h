// The objects that guards are about, held so that they may die.

#ifndef MICA_PYTHON_CAPTURE_GUARDS_HELD_OBJECTS_H_
#define MICA_PYTHON_CAPTURE_GUARDS_HELD_OBJECTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "python/capture/values/constants.h"
#include "python/interpreter/py_ref.h"

namespace mica {

// How an object of a HeldObjects is kept from being taken for another.
enum class Held : uint8_t {
  kStrongly,  // It is kept alive.
  kWeakly,    // Python tells when it dies.
  // By its place: whoever wants to follow it finds it first where it was, in an
  // object that is held or was found so. It is alive then. It may be another
  // object at the address of one that died, which is as good if all that is
  // noted of that one holds of it.
  kByPlace,
};

// True for a weak reference that can't be referenced weakly itself. Who keeps
// it alive has its callback called, which its user may have called off.
bool IsBareWeakRef(PyObject* object);

// An object of a HeldObjects; null stands for an absent value.
class Kept {
 public:
  Kept() = default;
  explicit Kept(PyObject* object) : object_(object) {}

  // To be followed if any_gone() is false; if it is held by its place, if it
  // was found there, too.
  PyObject* get() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }
  bool is_by_place() const { return type_ != nullptr; }
  // Of one that is held by its place.
  PyTypeObject* type() const { return type_; }
  // As SameValue(), of an object that may be gone, and of one held by its place
  // that it is of the class that it was of.
  bool Is(PyObject* now) const {
    if (object_ == now) return type_ == nullptr || Py_TYPE(now) == type_;
    return is_constant_ && SameValue(object_, now);
  }

 private:
  friend class HeldObjects;
  PyObject* object_ = nullptr;
  PyTypeObject* type_ = nullptr;  // If it is held by its place; never dies.
  bool is_constant_ = false;
};

// Objects that a record depends on. While it is made all are kept alive; from
// LetGo() on as few as can be, so that a record keeps nothing of the user's
// from dying, nor the memory of weights that were replaced:
//
// Those that can be referenced weakly (modules, functions, classes, sets, most
// instances) are, and Python calls back when the first of them dies, before its
// memory is used again. A record with such an object can serve no call any
// more. Plain dicts, lists, tuples, cells, arrays, tensors and weak references
// are held by their places where they were found in one. (torch swaps no tensor
// that has a weak reference, numpy resizes no array.) All else is kept alive:
// constants, code, and whatever only the run itself had.
//
// Requires the GIL.
class HeldObjects {
 public:
  HeldObjects() = default;
  HeldObjects(HeldObjects&&) = default;
  HeldObjects& operator=(HeldObjects&&) = default;

  // `object` may be null, and may be held already; `path` is for the user.
  Kept Add(PyObject* object, absl::string_view path = "");
  // The same of what is in a place that each check reads before it follows the
  // object, or that can't change. Requires: all that was read of the object is
  // a fact, entered after this.
  Kept AddByPlace(PyObject* object, absl::string_view path = "");
  // The same of an attribute of a class, which is what it was if
  // AttributeParts() are, too.
  Kept AddAttribute(PyTypeObject* type, PyObject* value);
  // How it is held; as constants are if it isn't held at all.
  Held HowHeld(PyObject* object) const;
  // True if `object`, which is alive or null, is held by its place: what is
  // there now is of the class that it was of.
  bool IsInPlace(PyObject* object) const;

  // Whether anybody but a HeldObjects would notice the end of an object that
  // may be referenced weakly: by a weak reference, or by a finalizer.
  static bool IsNoticed(PyObject* object);
  // Those of which that was so when they were added.
  const std::vector<PyObject*>& noticed() const { return noticed_; }
  // Whether an object is kept alive here; before LetGo().
  bool Holds(PyObject* object) const { return held_.contains(object); }

  // From now on objects may die. What isn't seen by the garbage collector and
  // nobody else holds is kept: the run itself may have made it.
  void LetGo();
  // True if one of those that are held weakly is gone.
  bool any_gone() const { return life_ != nullptr && life_->is_over; }
  // The path of the first that died; "" if it has none.
  std::string gone_path() const;
  // How many HeldObjects of this process have lost an object so far.
  static int64_t num_over();
  // For Python's garbage collector.
  int Traverse(visitproc visit, void* arg) const;

 private:
  struct Life {
    bool is_over = false;
    PyObject* first = nullptr;  // The weak reference; for its address only.
  };
  struct Holding {
    Held how = Held::kStrongly;
    PyTypeObject* type = nullptr;  // If it is held by its place.
    PyRef object;                  // Until LetGo(), unless it is kept alive.
    PyRef weak;
  };
  static PyObject* OnDeath(PyObject* life, PyObject* reference);
  // Null if it can't be referenced weakly.
  PyRef RefWeakly(PyObject* object);
  Kept HoldByPlace(PyObject* object);
  Kept KeptOf(PyObject* object, Held how) const;

  absl::flat_hash_map<PyObject*, Holding> held_;
  std::vector<PyObject*> noticed_;
  absl::flat_hash_map<PyObject*, std::string> paths_;  // By weak reference.
  std::shared_ptr<Life> life_;
  PyRef on_death_;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_GUARDS_HELD_OBJECTS_H_
