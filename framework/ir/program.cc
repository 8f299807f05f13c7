#include "framework/ir/program.h"

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

std::string Describe(const Op& op) {
  const std::string source = op.source.ToString();
  return source.empty() ? op.def->name()
                        : absl::StrCat(op.def->name(), " (", source, ")");
}

}  // namespace mica
