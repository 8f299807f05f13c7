// Which objects a run found, and which it made.

#ifndef MICA_PYTHON_CAPTURE_WATCH_OBJECT_AGES_H_
#define MICA_PYTHON_CAPTURE_WATCH_OBJECT_AGES_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "python/capture/watch/object_names.h"
#include "python/interpreter/interpreter.h"
#include "python/interpreter/py_ref.h"

namespace mica {

// Tells the objects that were there before a run, those that came in as its
// arguments and those that it made. What was there is kept alive, so that an
// address names one object. Single-thread.
class ObjectAges {
 public:
  // `names` outlives this.
  explicit ObjectAges(ObjectNames* names) : names_(*names) {}

  // An object whose contents the input guards cover.
  void AddInput(PyObject* object) { inputs_.insert(object); }
  // An object that the run just made.
  void AddYoung(PyObject* object) { young_.insert(object); }
  // The same; it is kept alive.
  void PinYoung(PyObject* object) {
    if (young_.insert(object).second) Pin(object);
  }
  // An object that was there before, reached as `path` says.
  void MarkOld(PyObject* object, const std::string& path);
  // The same of all that an older container holds.
  void MarkContents(PyObject* container);

  // True if `object` was there before the run and isn't part of an argument.
  bool IsOld(PyObject* object);
  // The same, but false where nothing tells: of an object that the collector
  // doesn't track and that nothing older led to.
  bool IsKnownOld(PyObject* object) {
    return IsOld(object) && old_.contains(object);
  }
  // True if it was found to be old before.
  bool IsNotedOld(PyObject* object) const { return old_.contains(object); }
  bool IsInput(PyObject* object) const { return inputs_.contains(object); }
  // The same, but false if the program found it in its state, too: that holds
  // the same object at each run.
  bool IsFreeInput(PyObject* object) const {
    return IsInput(object) && !state_inputs_.contains(object);
  }
  bool has_inputs() const { return !inputs_.empty(); }
  // Arguments that the program also found in its state.
  const absl::flat_hash_set<PyObject*>& state_inputs() const {
    return state_inputs_;
  }
  // All tensors that the program found in its state, used or not.
  const std::vector<PyRef>& state_tensors() const { return state_tensors_; }
  // What the run reached that was there before it.
  std::vector<PyObject*> OldObjects() const {
    return {old_.begin(), old_.end()};
  }
  // Lists, dicts, sets and objects of Python's classes that are older than the
  // run and were reached otherwise than as arguments.
  absl::flat_hash_set<PyObject*> OldContainers() const;
  // Objects older than the run that one of `objects` might be in another call:
  // those of its class. Those that only weak references led to may be gone.
  absl::flat_hash_set<PyObject*> OthersThan(
      const absl::flat_hash_set<PyObject*>& objects) const;

  // Whether this keeps the object alive; and no more from now on, in a run that
  // is refused: its address then names nothing.
  bool IsPinned(PyObject* object) const { return pins_.contains(object); }
  void Unpin(PyObject* object) {
    old_.erase(object);
    young_.erase(object);
    const auto pin = pins_.extract(object);  // Its end may come here.
  }

  // True the first time that `key` of `object` comes by: facts noted before
  // need no second look. Both stay alive.
  bool IsFirst(PyObject* object, PyObject* key);
  using Seen = absl::flat_hash_set<std::pair<PyObject*, PyObject*>>;
  // Exchanges what has come by for what IsFirst() goes by.
  void SwapSeen(Seen* seen) { std::swap(seen_, *seen); }
  // True if what is old and what is new could no longer be told.
  bool is_disturbed() const { return age_.IsDisturbed(); }

 private:
  void Pin(PyObject* object) {
    PyRef& pin = pins_[object];
    if (!pin) pin = PyRef::Share(object);
  }

  ObjectNames& names_;
  AgeMark age_;
  absl::flat_hash_set<PyObject*> inputs_;
  absl::flat_hash_set<PyObject*> state_inputs_;
  // What weak references of the state stand for; not dereferenced.
  absl::flat_hash_set<PyObject*> weakly_held_;
  std::vector<PyRef> state_tensors_;
  absl::flat_hash_set<PyObject*> old_;
  absl::flat_hash_set<PyObject*> young_;
  Seen seen_;
  // Addresses in `old_` stay taken.
  absl::flat_hash_map<PyObject*, PyRef> pins_;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_WATCH_OBJECT_AGES_H_
