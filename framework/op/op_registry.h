// All operators that a process knows, by name.

#ifndef MICA_FRAMEWORK_OP_OP_REGISTRY_H_
#define MICA_FRAMEWORK_OP_OP_REGISTRY_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "framework/op/op_def.h"

namespace mica {

// Filled at start-up, read-only afterwards; then thread-safe. Must outlive the
// Programs whose ops point into it.
class OpRegistry {
 public:
  // CHECK-fails if the name is taken.
  void Add(OpDef def);

  // Null if there is none.
  const OpDef* Find(absl::string_view name) const;

  // Sorted by name.
  std::vector<const OpDef*> All() const;

 private:
  absl::flat_hash_map<std::string, std::unique_ptr<const OpDef>> defs_;
};

}  // namespace mica

#endif  // MICA_FRAMEWORK_OP_OP_REGISTRY_H_
