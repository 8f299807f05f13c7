#include "python/capture/guards/dynamic_sizes.h"

#include "absl/container/flat_hash_map.h"

namespace mica {
namespace {

absl::flat_hash_map<const void*, std::set<int>>& Marks() {
  static auto& marks = *new absl::flat_hash_map<const void*, std::set<int>>;
  return marks;
}

}  // namespace

void MarkDynamic(PyObject* tensor, int dim) { Marks()[tensor].insert(dim); }

void DropDynamic(const void* tensor) { Marks().erase(tensor); }

std::set<int> DynamicDims(PyObject* tensor) {
  const auto it = Marks().find(tensor);
  return it == Marks().end() ? std::set<int>() : it->second;
}

}  // namespace mica
