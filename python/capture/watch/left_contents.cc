#include "python/capture/watch/left_contents.h"

#include "absl/algorithm/container.h"
#include "python/capture/watch/object_kinds.h"
#include "python/torch_side/tensors/tensor_access.h"

namespace mica {

void LeftContents::AddPlace(const StatePlace& place, IsOwn is_own) {
  places_.push_back({place, PyRef::Share(place.Find())});
  if (PyObject* value = places_.back().value.get()) {
    AddValue(value, place.note.path, is_own);
  }
}

void LeftContents::AddValue(PyObject* value, const std::string& path,
                            IsOwn is_own) {
  std::vector<PyObject*> open = {value};
  while (!open.empty()) {
    PyObject* object = open.back();
    open.pop_back();
    // A tensor is a hit's own when the call finds it.
    if (IsTensor(object) || PyType_Check(object) || !PyObject_IS_GC(object) ||
        !is_own(object) || !seen_.insert(object).second) {
      continue;
    }
    contents_.push_back({PyRef::Share(object), HeldBy(object), path});
    for (const PyRef& held : contents_.back().held) open.push_back(held.get());
  }
}

std::string LeftContents::FindChanged() const {
  for (const Place& place : places_) {
    if (place.place.Find() != place.value.get()) return place.place.note.path;
  }
  const auto is_same = [](const PyRef& a, const PyRef& b) {
    return a.get() == b.get();
  };
  for (const Contents& contents : contents_) {
    if (!absl::c_equal(contents.held, HeldBy(contents.object.get()), is_same)) {
      return contents.path;
    }
  }
  return "";
}

}  // namespace mica
