// Texts that are made of followed numbers, and arrays in tensors' memory.

#include <utility>

#include "python/capture/values/host_values.h"

namespace mica {

std::vector<HostValues::Id> HostValues::TakeTextUses() {
  notes_text_uses_ = false;
  return std::exchange(text_uses_, {});
}

HostValues::Id HostValues::AddText(PyObject* text, TextRecipe recipe,
                                   absl::Span<const Id> uses) {
  has_texts_ = true;
  Node node;
  node.tape.kind = TapeHostValue::Kind::kOp;
  for (const Id id : uses) {
    node.tape.operands.push_back({.id = id});
    node.is_text_of_sizes |= IsSize(id) || IsTextOfSizes(id);
  }
  node.recipe = std::make_shared<const TextRecipe>(std::move(recipe));
  return Add(text, std::move(node));
}

void HostValues::AddArray(PyObject* array, PyObject* tensor) {
  pins_.push_back(PyRef::Share(array));
  arrays_[array] = PyRef::Share(tensor);
  unread_.insert(array);
}

void HostValues::UseTextOf(PyObject* object) {
  if (unread_.erase(object) > 0) {
    const PyRef tensor = arrays_[object];
    // A list has numbers of its own.
    if (PyList_Check(object)) arrays_.erase(object);
    ReadArray(tensor.get());
  }
  if (const Id id = FindText(object); id >= 0) MarkExactId(id);
  const auto it = size_texts_.find(object);
  if (it == size_texts_.end()) return;
  for (const Id id : it->second) MarkExactId(id);
}

}  // namespace mica
