// What messages call the objects that a run met.

#ifndef MICA_PYTHON_CAPTURE_WATCH_OBJECT_NAMES_H_
#define MICA_PYTHON_CAPTURE_WATCH_OBJECT_NAMES_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "python/interpreter/py_ref.h"

namespace mica {

// Readable expressions for objects, as "self.config". Whoever adds an object
// keeps it alive; modules are kept here. Single-thread.
class ObjectNames {
 public:
  // A name for a tensor or a module, in place of how it was reached.
  void AddName(PyObject* object, std::string name);
  // How an object was reached, unless that is known.
  void AddPath(PyObject* object, std::string path) {
    paths_.try_emplace(object, std::move(path));
  }
  // Gives the tensors of a module, if `object` is one, and of those in it the
  // names that its state_dict() has, below `prefix`.
  void NameModule(PyObject* object, const std::string& prefix, int depth = 0);

  std::string PathOf(PyObject* object) const;
  // Of an item of what is known as `owner`.
  std::string ItemPath(const std::string& owner, PyObject* key) const;
  // Whether this keeps the object alive; and no more from now on.
  bool IsPinned(PyObject* object) const { return pins_.contains(object); }
  void Unpin(PyObject* object) {
    const auto pin = pins_.extract(object);  // Its end may come here.
  }

 private:
  absl::flat_hash_map<PyObject*, std::string> paths_;
  absl::flat_hash_map<PyObject*, std::string> names_;
  absl::flat_hash_set<PyObject*> named_modules_;
  absl::flat_hash_map<PyObject*, PyRef> pins_;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_WATCH_OBJECT_NAMES_H_
