#include "python/capture/guards/held_objects.h"

#include <utility>
#include <vector>

#include "python/capture/guards/state_reading.h"
#include "python/interpreter/lru_cache.h"
#include "python/torch_side/tensors/tensor_access.h"

namespace mica {
namespace {

int64_t over = 0;

bool MayBeWeak(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (!PyType_SUPPORTS_WEAKREFS(type) || PyCode_Check(object)) return false;
  if (PyType_Check(object)) {
    return (AsType(object)->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0;
  }
  return !IsTensor(object) && !IsConstant(object);
}

bool MayBeByPlace(PyObject* object) {
  constexpr Py_ssize_t kMaxTuple = 256;
  if (PyTuple_CheckExact(object)) {
    return PyTuple_GET_SIZE(object) <= kMaxTuple && !IsConstant(object);
  }
  // numpy resizes no array that has a weak reference.
  const bool is_plain_array =
      IsArray(object) && Py_TYPE(object)->tp_base == &PyBaseObject_Type;
  return PyDict_CheckExact(object) || PyList_CheckExact(object) ||
         PyCell_Check(object) || is_plain_array || IsBareWeakRef(object) ||
         LruCachePlace(object) != nullptr ||
         (IsTensor(object) && IsPlainTensor(object));
}

}  // namespace

bool IsBareWeakRef(PyObject* object) {
  return PyWeakref_CheckRef(object) &&
         !PyType_SUPPORTS_WEAKREFS(Py_TYPE(object));
}

PyObject* HeldObjects::OnDeath(PyObject* capsule, PyObject* reference) {
  auto* life = static_cast<std::shared_ptr<Life>*>(
      PyCapsule_GetPointer(capsule, nullptr));
  if (life != nullptr && !(*life)->is_over) {
    (*life)->is_over = true;
    (*life)->first = reference;
    ++over;
  }
  Py_RETURN_NONE;
}

bool HeldObjects::IsNoticed(PyObject* object) {
  if (Py_TYPE(object)->tp_finalize != nullptr) return true;
  if (!PyType_SUPPORTS_WEAKREFS(Py_TYPE(object))) return false;
  auto* reference = *reinterpret_cast<PyWeakReference**>(
      PyObject_GET_WEAKREFS_LISTPTR(object));
  for (; reference != nullptr; reference = reference->wr_next) {
    PyObject* callback = reference->wr_callback;
    const bool is_own = callback != nullptr &&
                        PyCFunction_CheckExact(callback) &&
                        PyCFunction_GET_FUNCTION(callback) == &OnDeath;
    if (!is_own) return true;
  }
  return false;
}

PyRef HeldObjects::RefWeakly(PyObject* object) {
  if (!MayBeWeak(object)) return PyRef();
  if (life_ == nullptr) {
    static PyMethodDef method = {"on_death", &OnDeath, METH_O, nullptr};
    life_ = std::make_shared<Life>();
    const PyRef capsule = PyRef::Steal(PyCapsule_New(
        new std::shared_ptr<Life>(life_), nullptr, [](PyObject* self) {
          delete static_cast<std::shared_ptr<Life>*>(
              PyCapsule_GetPointer(self, nullptr));
        }));
    on_death_ = PyRef::Steal(PyCFunction_New(&method, capsule.get()));
  }
  PyRef weak = PyRef::Steal(PyWeakref_NewRef(object, on_death_.get()));
  if (!weak) PyErr_Clear();
  return weak;
}

Kept HeldObjects::KeptOf(PyObject* object, Held how) const {
  Kept kept(object);
  kept.type_ = how == Held::kByPlace ? Py_TYPE(object) : nullptr;
  kept.is_constant_ = how == Held::kStrongly && IsConstant(object);
  return kept;
}

Kept HeldObjects::Add(PyObject* object, absl::string_view path) {
  if (object == nullptr) return Kept();
  const auto [it, is_new] = held_.try_emplace(object);
  if (!is_new) return KeptOf(object, it->second.how);
  Holding& holding = it->second;
  holding.object = PyRef::Share(object);
  holding.weak = RefWeakly(object);
  if (holding.weak) {
    if (IsNoticed(object)) noticed_.push_back(object);
    holding.how = Held::kWeakly;
    if (!path.empty()) paths_[holding.weak.get()] = std::string(path);
  }
  return KeptOf(object, holding.how);
}

Kept HeldObjects::AddByPlace(PyObject* object, absl::string_view path) {
  if (object == nullptr || !MayBeByPlace(object)) return Add(object, path);
  return HoldByPlace(object);
}

Kept HeldObjects::AddAttribute(PyTypeObject* type, PyObject* value) {
  if (IsWrapper(value) || IsOwnDescriptor(type, value)) {
    return HoldByPlace(value);
  }
  // What is in a tuple isn't noted, nor what is referenced weakly.
  return PyTuple_Check(value) || IsBareWeakRef(value) ? Add(value)
                                                      : AddByPlace(value);
}

Kept HeldObjects::HoldByPlace(PyObject* object) {
  const auto [it, is_new] = held_.try_emplace(object);
  if (is_new) {
    it->second = {.how = Held::kByPlace,
                  .type = Py_TYPE(object),
                  .object = PyRef::Share(object)};
  }
  return KeptOf(object, it->second.how);
}

Held HeldObjects::HowHeld(PyObject* object) const {
  const auto it = held_.find(object);
  return it == held_.end() ? Held::kStrongly : it->second.how;
}

bool HeldObjects::IsInPlace(PyObject* object) const {
  if (object == nullptr) return false;
  const auto it = held_.find(object);
  return it != held_.end() && it->second.how == Held::kByPlace &&
         it->second.type == Py_TYPE(object);
}

void HeldObjects::LetGo() {
  std::vector<PyRef> let_go;  // Code that their ends run may come here.
  for (auto& [object, holding] : held_) {
    if (holding.how == Held::kStrongly) continue;
    if (Py_REFCNT(object) > 1 || PyObject_IS_GC(object)) {
      let_go.push_back(std::move(holding.object));
      continue;
    }
    paths_.erase(holding.weak.get());
    holding.weak = PyRef();
    holding.how = Held::kStrongly;
  }
}

std::string HeldObjects::gone_path() const {
  if (!any_gone()) return "";
  const auto it = paths_.find(life_->first);
  return it == paths_.end() ? "" : it->second;
}

int64_t HeldObjects::num_over() { return over; }

int HeldObjects::Traverse(visitproc visit, void* arg) const {
  // Not the weak references, which lead nowhere: of those that go together with
  // what they refer to the collector calls nobody back, and a finalizer may
  // bring the record back without that.
  for (const auto& [object, holding] : held_) Py_VISIT(holding.object.get());
  return 0;
}

}  // namespace mica
