#include "python/capture/guards/plain_instances.h"

#include "python/capture/values/constants.h"
#include "python/capture/values/held.h"
#include "python/interpreter/interpreter.h"
#include "python/torch_side/tensors/tensor_access.h"

namespace mica {
namespace {

constexpr int kMostHeld = 2048;

}  // namespace

bool IsPlainInstance(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  return IsPythonClass(type) && SolidBase(type) == &PyBaseObject_Type &&
         type->tp_call == nullptr && !HasSlots(type) &&
         InstanceDict(object) != nullptr;
}

absl::flat_hash_set<PyObject*> FindPlainInstances(PyObject* argument) {
  absl::flat_hash_set<PyObject*> instances, dicts;
  if (!IsPlainInstance(argument)) return instances;
  bool is_plain = true, keeps_state = false;
  int count = 0;
  ForEachHeld(argument, Through::kAttributes, [&](PyObject* held) {
    is_plain &= ++count <= kMostHeld;
    if (!is_plain || IsConstant(held) || PyType_Check(held)) return;
    if (IsPlainInstance(held)) {
      instances.insert(held);
      dicts.insert(InstanceDict(held));
    } else if (IsTensor(held)) {
      keeps_state = true;
      is_plain = IsPlainTensor(held) && !RequiresGrad(held);
    } else if (PyList_CheckExact(held) || PyDict_CheckExact(held)) {
      keeps_state |= !dicts.contains(held);
    } else {
      is_plain = PyTuple_CheckExact(held);
    }
  });
  if (!is_plain || !keeps_state) instances.clear();
  return instances;
}

}  // namespace mica
