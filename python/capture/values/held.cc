#include "python/capture/values/held.h"

#include <vector>

#include "absl/container/flat_hash_set.h"
#include "python/interpreter/interpreter.h"
#include "python/torch_side/tensors/tensor_access.h"

namespace mica {
namespace {

// What a class adds to a base in C isn't for code in C to see.
traverseproc TraverseOf(PyObject* object, Through through) {
  PyTypeObject* type = Py_TYPE(object);
  return through == Through::kAttributes ? type->tp_traverse
                                         : SolidBase(type)->tp_traverse;
}

bool IsEntered(PyObject* object, Through through) {
  return PyObject_IS_GC(object) && TraverseOf(object, through) != nullptr &&
         !PyType_Check(object) && !PyModule_Check(object) &&
         !PyFunction_Check(object) && !PyCFunction_Check(object) &&
         (through == Through::kAttributes ||
          (!PyMethod_Check(object) && !PyAnySet_Check(object))) &&
         !PyFrame_Check(object) && !IsGenerator(object) && !IsTensor(object);
}

}  // namespace

int AppendVisited(PyObject* object, void* to) {
  static_cast<std::vector<PyObject*>*>(to)->push_back(object);
  return 0;
}

void ForEachHeld(PyObject* object, Through through,
                 absl::FunctionRef<void(PyObject*)> visit) {
  std::vector<PyObject*> pending = {object};
  absl::flat_hash_set<PyObject*> seen;
  while (!pending.empty()) {
    object = pending.back();
    pending.pop_back();
    const bool is_entered = IsEntered(object, through);
    if (is_entered && !seen.insert(object).second) continue;
    visit(object);
    if (is_entered)
      TraverseOf(object, through)(object, AppendVisited, &pending);
  }
}

}  // namespace mica
