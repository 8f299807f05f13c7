// Values by name.

#ifndef MICA_FRAMEWORK_IR_NAME_INDEX_H_
#define MICA_FRAMEWORK_IR_NAME_INDEX_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "framework/ir/argument.h"

namespace mica {

// Most values have a number for a name, given in turn: these are found by it,
// the others by a hash of their name.
class NameIndex {
 public:
  // kNoValue if no value has this name.
  ValueId Find(absl::string_view name) const;
  // False if the name is taken.
  bool Insert(absl::string_view name, ValueId value);
  void Reserve(size_t num_names) { by_number_.reserve(num_names + 1); }

 private:
  // Whether some of by_name_ are numbers: then, and only then, one has to be
  // looked for there.
  bool HasFarNumbers() const;

  // Behind a first one that tells that; kNoValue where there is none.
  std::vector<ValueId> by_number_;
  absl::flat_hash_map<std::string, ValueId> by_name_;
};

}  // namespace mica

#endif  // MICA_FRAMEWORK_IR_NAME_INDEX_H_
