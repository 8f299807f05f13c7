// Which object the program has, where it asks for that.

#include <cmath>

#include "python/capture/values/constants.h"
#include "python/capture/values/held.h"
#include "python/capture/values/numbers.h"
#include "python/capture/watch/state_watch.h"
#include "python/interpreter/interpreter.h"

namespace mica {

void StateWatch::Identify(PyObject* object) {
  if (object == nullptr || IsConstant(object)) return;
  if (PyWeakref_Check(object)) {  // Equal and hashed as what it stands for.
    object = PyWeakref_GET_OBJECT(object);
  }
  // Which tensors are the same is guarded anyway.
  if (inputs_.contains(object) && !IsTensor(object)) {
    identified_.insert(object);
  }
  if (!PyTuple_Check(object)) return;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i) {
    Identify(PyTuple_GET_ITEM(object, i));
  }
}

void StateWatch::IdentifyDeep(PyObject* object) {
  if (inputs_.empty() || IsConstant(object)) return;
  ForEachHeld(object, Through::kCode,
              [this](PyObject* held) { Identify(held); });
}

void StateWatch::IdentifyConstants(PyObject* a, PyObject* b) {
  PyTypeObject* type = Py_TYPE(a);
  const bool is_shared = PyLong_CheckExact(a) && SharedInt(a).get() == a;
  if ((type != &PyFloat_Type && type != &PyLong_Type &&
       type != &PyUnicode_Type && type != &PyBytes_Type &&
       type != &PyComplex_Type && type != &PyTuple_Type) ||
      is_shared || !IsConstant(a) || !SameValue(a, b)) {
    return;
  }
  compared_constants_.emplace_back(PyRef::Share(a), PyRef::Share(b));
}

void StateWatch::LookFor(PyObject* item) {
  if (PyFloat_CheckExact(item) && std::isnan(PyFloat_AS_DOUBLE(item))) {
    Refuse("looks for a NaN, which is found by its identity");
  }
}

void StateWatch::TakeHash(PyObject* object) {
  ForEachHeld(object, Through::kCode, [this](PyObject* held) {
    const bool is_address = Py_TYPE(held)->tp_hash == PyBaseObject_Type.tp_hash;
    if (is_address && (IsFreeInput(held) || !IsOld(held))) TakeAddress(held);
  });
}

absl::flat_hash_set<PyObject*> StateWatch::OthersThan(
    const absl::flat_hash_set<PyObject*>& objects) const {
  absl::flat_hash_set<PyTypeObject*> types;
  for (PyObject* object : objects) types.insert(Py_TYPE(object));
  absl::flat_hash_set<PyObject*> others;
  for (PyObject* object : old_) {
    if (types.contains(Py_TYPE(object))) others.insert(object);
  }
  others.insert(weakly_held_.begin(), weakly_held_.end());
  return others;
}

}  // namespace mica
