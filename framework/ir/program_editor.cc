#include "framework/ir/program_editor.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/ir/control_flow.h"

namespace mica {

ProgramEditor::ProgramEditor(Program program)
    : program_(std::move(program)),
      own_functions_(std::make_unique<Functions>()),
      functions_(own_functions_.get()) {}

ProgramEditor::ProgramEditor(Program program, Functions* functions)
    : program_(std::move(program)), functions_(functions) {}

absl::Span<ProgramEditor> ProgramEditor::bodies(OpId op) {
  const Bodies& given = program_.body_.ops[op].bodies;
  if (given.empty()) return {};
  if (ControlKindOf(*program_.body_.ops[op].def) == ControlKind::kCall) {
    std::unique_ptr<Function>& function = (*functions_)[given[0].get()];
    if (function == nullptr) {
      function = std::make_unique<Function>();
      function->was = given[0];
      function->editor.push_back(ProgramEditor(*given[0], functions_));
    }
    return absl::MakeSpan(function->editor);
  }
  std::vector<ProgramEditor>& editors = bodies_[op];
  if (editors.empty()) {
    for (const auto& body : given) {
      editors.push_back(ProgramEditor(*body, functions_));
    }
  }
  return absl::MakeSpan(editors);
}

void ProgramEditor::ForEachOp(
    absl::FunctionRef<void(ProgramEditor& block, OpId op)> visit) {
  absl::flat_hash_set<const ProgramEditor*> seen;
  ForEachOp(visit, seen);
}

void ProgramEditor::ForEachOp(
    absl::FunctionRef<void(ProgramEditor& block, OpId op)> visit,
    absl::flat_hash_set<const ProgramEditor*>& seen) {
  for (OpId op = 0; op < num_ops(); ++op) {
    visit(*this, op);
    for (ProgramEditor& body : bodies(op)) {
      if (seen.insert(&body).second) body.ForEachOp(visit, seen);
    }
  }
}

void ProgramEditor::ForEachBlock(
    absl::FunctionRef<void(ProgramEditor& block)> visit) {
  absl::flat_hash_set<const ProgramEditor*> seen = {this};
  visit(*this);
  ForEachOp([&](ProgramEditor& block, OpId op) {
    for (ProgramEditor& body : block.bodies(op)) {
      if (seen.insert(&body).second) visit(body);
    }
  });
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
  for (OpId op = 0; program_.depth() > 0 && op < num_ops(); ++op) {
    Bodies& bodies = program_.body_.ops[op].bodies;
    if (bodies.empty()) continue;
    if (ControlKindOf(*program_.body_.ops[op].def) == ControlKind::kCall) {
      const auto it = functions_->find(bodies[0].get());
      if (it == functions_->end()) continue;
      Function& function = *it->second;
      if (function.is == nullptr) {
        function.is =
            std::make_shared<const Program>(function.editor[0].Freeze());
      }
      bodies[0] = function.is;
      continue;
    }
    const auto it = bodies_.find(op);
    if (it == bodies_.end()) continue;
    for (size_t i = 0; i < bodies.size(); ++i) {
      bodies[i] = std::make_shared<const Program>(it->second[i].Freeze());
    }
  }
  bodies_.clear();
  return std::move(program_);
}

}  // namespace mica
