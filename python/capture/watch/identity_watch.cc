#include "python/capture/watch/identity_watch.h"

#include <cmath>
#include <vector>

#include "python/capture/values/constants.h"
#include "python/capture/values/held.h"
#include "python/capture/values/numbers.h"
#include "python/interpreter/interpreter.h"
#include "python/torch_side/tensors/tensor_access.h"

namespace mica {

void IdentityWatch::Identify(PyObject* object) {
  // Tuples of one tuple twice, and so on, have few of them and many ways there.
  std::vector<PyObject*> pending = {object};
  absl::flat_hash_set<PyObject*> seen;
  while (!pending.empty()) {
    object = pending.back();
    pending.pop_back();
    if (object == nullptr || IsConstant(object)) continue;
    if (PyWeakref_Check(object)) {  // Equal and hashed as what it stands for.
      object = PyWeakref_GET_OBJECT(object);
    }
    // Which tensors are the same is guarded anyway.
    if (IsInput(object) && !IsTensor(object)) identified_.insert(object);
    if (!PyTuple_Check(object) || !seen.insert(object).second) continue;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i) {
      pending.push_back(PyTuple_GET_ITEM(object, i));
    }
  }
}

void IdentityWatch::IdentifyDeep(PyObject* object) {
  if (!ages_.has_inputs() || IsConstant(object)) return;
  ForEachHeld(object, Through::kCode,
              [this](PyObject* held) { Identify(held); });
}

void IdentityWatch::IdentifyConstants(PyObject* a, PyObject* b) {
  const bool is_shared = PyLong_CheckExact(a) && SharedInt(a).get() == a;
  if (a == Py_None || PyBool_Check(a) || is_shared || !IsConstant(a) ||
      !SameValue(a, b) || !compared_.insert({a, b}).second) {
    return;
  }
  compared_constants_.emplace_back(PyRef::Share(a), PyRef::Share(b));
}

void IdentityWatch::LookFor(PyObject* item) {
  if (PyFloat_CheckExact(item) && std::isnan(PyFloat_AS_DOUBLE(item))) {
    return Refuse("looks for a NaN, which is found by its identity");
  }
  if (!PyTuple_CheckExact(item)) return;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(item) && !refusal(); ++i) {
    LookFor(PyTuple_GET_ITEM(item, i));
  }
}

void IdentityWatch::TakeHash(PyObject* object) {
  ForEachHeld(object, Through::kCode, [this](PyObject* held) {
    const bool is_address = Py_TYPE(held)->tp_hash == PyBaseObject_Type.tp_hash;
    if (is_address && (ages_.IsFreeInput(held) || !IsOld(held)))
      TakeAddress(held);
  });
}

void IdentityWatch::TakeAddress(PyObject* object) {
  Identify(object);
  step_.gives_address = true;
  constexpr size_t kMaxSites = 32;
  if (address_at_.line == 0) address_at_ = CurrentUserLine();
  if (refusals_.looks_on() && address_sites_.size() < kMaxSites) {
    address_sites_.push_back(SitesBelow(caller()));
  }
}

void IdentityWatch::CheckAddresses() {
  if (!values_.uses_address()) return;
  if (address_at_.line == 0) return Refuse("uses the number of a hook");
  Refuse("uses id() of an object that differs from run to run");
  refusal().at = address_at_;
  refusal().places = address_sites_;
}

bool IdentityWatch::IsOwnKey(PyObject* container, PyObject* key) {
  if (!values_.IsAddress(key)) return false;
  const bool is_hook = PyODict_CheckExact(container) && handles_.IsId(key);
  return (is_hook || PyDict_CheckExact(container) ||
          Py_IS_TYPE(container, &PySet_Type)) &&
         !IsInput(container) && !IsOld(container);
}

}  // namespace mica
