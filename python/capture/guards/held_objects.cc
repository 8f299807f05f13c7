#include "python/capture/guards/held_objects.h"

#include <utility>

#include "python/capture/values/constants.h"

namespace mica {
namespace {

int64_t over = 0;

// Classes and code are few, and what they hold besides is no weight.
bool IsHeldWeakly(PyObject* object) {
  return HeldObjects::kHoldsWeakly && Py_TYPE(object)->tp_weaklistoffset > 0 &&
         !PyType_Check(object) && !PyCode_Check(object) && !IsConstant(object);
}

}  // namespace

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

Kept HeldObjects::Hold(PyObject* object, absl::string_view path) {
  if (object == nullptr) return Kept();
  const auto [it, is_new] = held_.try_emplace(object);
  if (!is_new) return Kept(object);
  PyRef weak;
  if (IsHeldWeakly(object)) {
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
    weak = PyRef::Steal(PyWeakref_NewRef(object, on_death_.get()));
    if (!weak) PyErr_Clear();
  }
  if (weak) pins_.emplace_back(PyRef::Share(object), weak);
  if (weak && !path.empty()) paths_[weak.get()] = std::string(path);
  it->second = weak ? std::move(weak) : PyRef::Share(object);
  return Kept(object);
}

void HeldObjects::EndRecording() {
  std::vector<std::pair<PyRef, PyRef>> pins = std::exchange(pins_, {});
  for (auto& [object, weak] : pins) {
    if (Py_REFCNT(object.get()) > 1) continue;
    paths_.erase(weak.get());
    held_[object.get()] = std::move(object);
  }
}

std::string HeldObjects::gone_path() const {
  if (!any_gone()) return "";
  const auto it = paths_.find(life_->first);
  return it == paths_.end() ? "" : it->second;
}

int64_t HeldObjects::num_over() { return over; }

int HeldObjects::Traverse(visitproc visit, void* arg) const {
  for (const auto& [object, reference] : held_) Py_VISIT(reference.get());
  for (const auto& [object, weak] : pins_) {
    Py_VISIT(object.get());
    Py_VISIT(weak.get());
  }
  Py_VISIT(on_death_.get());
  return 0;
}

}  // namespace mica
