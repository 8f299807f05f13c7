#include "framework/op/op_registry.h"

#include <algorithm>
#include <utility>

#include "glog/logging.h"

namespace mica {

void OpRegistry::Add(OpDef def) {
  const std::string name = def.name();
  const bool is_new =
      defs_.try_emplace(name, std::make_unique<const OpDef>(std::move(def)))
          .second;
  CHECK(is_new) << name << " is registered twice";
}

const OpDef* OpRegistry::Find(absl::string_view name) const {
  const auto it = defs_.find(name);
  return it == defs_.end() ? nullptr : it->second.get();
}

std::vector<const OpDef*> OpRegistry::All() const {
  std::vector<const OpDef*> all;
  for (const auto& [name, def] : defs_) all.push_back(def.get());
  std::sort(all.begin(), all.end(), [](const OpDef* a, const OpDef* b) {
    return a->name() < b->name();
  });
  return all;
}

}  // namespace mica
