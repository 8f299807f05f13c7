// The objects that guards are about, held so that they may die.

#ifndef MICA_PYTHON_CAPTURE_GUARDS_HELD_OBJECTS_H_
#define MICA_PYTHON_CAPTURE_GUARDS_HELD_OBJECTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "python/interpreter/py_ref.h"

namespace mica {

// An object of a HeldObjects. Not to be followed once one of those is gone.
class Kept {
 public:
  Kept() = default;
  explicit Kept(PyObject* object) : object_(object) {}
  PyObject* get() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_ = nullptr;
};

// Objects that a record depends on. All of them are kept alive (kHoldsWeakly).
// The other way: Python frees those that can be referenced weakly (modules,
// functions, sets, most instances; not tensors, as torch swaps none that is) as
// if there were no record; a record whose object is gone can serve no call any
// more, and is dropped. Others (dicts, lists, cells, classes) are kept alive
// until then.
//
// Python calls back when the first of them dies, before its memory is used
// again, so that an address stands for one object as long as any_gone() is
// false. Requires the GIL.
class HeldObjects {
 public:
  // Off: a training step's own temporaries, and what it replaces at each run,
  // would take its record with them.
  static constexpr bool kHoldsWeakly = false;

  HeldObjects() = default;
  HeldObjects(HeldObjects&&) = default;
  HeldObjects& operator=(HeldObjects&&) = default;

  // `object` may be null; `path` is for the user. It stays alive until
  // EndRecording().
  Kept Hold(PyObject* object, absl::string_view path = "");
  // From now on objects may die. What nobody else holds (what the run itself
  // made and left to this alone) is kept, as nobody can change it.
  void EndRecording();
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
  static PyObject* OnDeath(PyObject* life, PyObject* reference);

  absl::flat_hash_map<PyObject*, PyRef> held_;  // References, or weak ones.
  std::vector<std::pair<PyRef, PyRef>> pins_;   // With their weak ones.
  absl::flat_hash_map<PyObject*, std::string> paths_;  // By weak reference.
  std::shared_ptr<Life> life_;
  PyRef on_death_;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_GUARDS_HELD_OBJECTS_H_
