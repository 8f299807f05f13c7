#include "framework/ir/program.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace mica {

std::string SourceLine::ToString() const {
  return file == nullptr ? "" : absl::StrCat(*file, ":", line);
}

ValueId Program::FindValue(absl::string_view name) const {
  return values_by_name_.Find(name);
}

std::vector<const OpDef*> Program::OpaqueDefs() const {
  std::vector<const OpDef*> defs;
  for (const auto& def : opaque_defs_) defs.push_back(def.get());
  return defs;
}

bool Program::is_static() const {
  for (const Value& value : values_) {
    if (!value.type.is_static()) return false;
  }
  for (const Op& op : body_.ops) {
    for (const Argument& argument : op.arguments) {
      const auto* ints = std::get_if<std::vector<int64_t>>(&argument);
      if (ints != nullptr && std::any_of(ints->begin(), ints->end(), IsSymbol))
        return false;
    }
    for (const auto& body : op.bodies) {
      if (!body->is_static()) return false;
    }
  }
  return true;
}

std::string Describe(const Op& op) {
  const std::string source = op.source.ToString();
  return source.empty() ? op.def->name()
                        : absl::StrCat(op.def->name(), " (", source, ")");
}

}  // namespace mica
