// Takes back the objects of its own that a watched run had for numbers.

#ifndef MICA_PYTHON_CAPTURE_VALUES_OWN_NUMBERS_H_
#define MICA_PYTHON_CAPTURE_VALUES_OWN_NUMBERS_H_

#include <functional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "python/interpreter/py_ref.h"

namespace mica {

// While a run is watched, numbers that are followed are objects of their own,
// and tuples that hold them are new. Once it is over, what the program left of
// these gives way to the objects that eager would have left: those that were
// there, and the ints that CPython shares.
class OwnNumbers {
 public:
  // `own` stood for `original`.
  void Add(PyObject* own, PyObject* original);
  bool empty() const { return originals_.empty(); }
  // What `object` stood for; itself if it is none of ours. Borrowed.
  PyObject* OriginalOf(PyObject* object) const;
  // Replaces what is ours in all that `root` leads to: containers, attributes,
  // variables of closures. Keeps a Python error that is set.
  void PutBackIn(PyObject* root);
  // The same, but of an object that was there before the run: in what it holds
  // itself, and in all that what is new of that leads to. Requires: SetIsNew().
  void PutBackInOld(PyObject* object);
  // Tells what the run made: such classes are looked into, too.
  void SetIsNew(std::function<bool(PyObject*)> is_new) {
    is_new_ = std::move(is_new);
  }

 private:
  bool IsOwn(PyObject* object) const { return originals_.contains(object); }
  // Whether what an object holds is looked at.
  bool IsEntered(PyObject* object) const;
  void PutBackAt(PyObject* holder);
  void PutBackInDict(PyObject* dict);
  void PutBackInKeys(PyObject* container);
  void PutBackInSequence(PyObject* sequence);
  void PutBackInTuple(PyObject* tuple);
  void PutBackInType(PyTypeObject* type);
  void PutBackInVariable(PyObject* variable);  // A ContextVar.
  // In the results of a bounded functools.lru_cache, whose dict it is.
  void PutBackInCache(PyObject* dict);
  // In what an object in C, or with __slots__, has in its own memory: which of
  // its words are references is what it shows the garbage collector.
  void PutBackInWords(PyObject* holder);

  absl::flat_hash_map<PyObject*, PyRef> originals_;
  std::vector<PyRef> owns_;  // Addresses stay taken.
  absl::flat_hash_set<PyObject*> seen_;
  std::function<bool(PyObject*)> is_new_;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_VALUES_OWN_NUMBERS_H_
