#include "framework/ir/program_editor.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

namespace mica {

ProgramEditor::ProgramEditor(Program program) : program_(std::move(program)) {}

absl::Span<ProgramEditor> ProgramEditor::bodies(OpId op) {
  const Bodies& given = program_.body_.ops[op].bodies;
  if (given.empty()) return {};
  std::vector<ProgramEditor>& editors = bodies_[op];
  if (editors.empty()) {
    for (const auto& body : given) editors.emplace_back(*body);
  }
  return absl::MakeSpan(editors);
}

void ProgramEditor::MapTypes(absl::FunctionRef<TensorType(TensorType)> map) {
  const std::shared_ptr<const TypeTable> old = program_.types_;  // Still read.
  program_.types_ = std::make_shared<TypeTable>();
  absl::flat_hash_map<const TensorType*, const TensorType*> mapped;
  for (Value& value : program_.values_) {
    const auto [it, is_new] = mapped.try_emplace(value.type);
    if (is_new) {
      it->second = program_.types_->Intern(InOneForm(map(*value.type)));
    }
    value.type = it->second;
  }
}

absl::Status ProgramEditor::SetConstant(int index, std::vector<uint8_t> bytes) {
  Constant& constant = program_.constants_[index];
  const Value& value = program_.value(constant.value);
  if (value.type->num_bytes() != static_cast<int64_t>(bytes.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("constant %", value.name, ": wants the bytes of ",
                     value.type->ToString(), ", got ", bytes.size(), " bytes"));
  }
  constant.bytes = std::move(bytes);
  return absl::OkStatus();
}

Program ProgramEditor::Freeze() {
  for (auto& [op, editors] : bodies_) {
    Bodies& bodies = program_.body_.ops[op].bodies;
    for (size_t i = 0; i < editors.size(); ++i) {
      bodies[i] = std::make_shared<const Program>(editors[i].Freeze());
    }
  }
  bodies_.clear();
  return std::move(program_);
}

}  // namespace mica
