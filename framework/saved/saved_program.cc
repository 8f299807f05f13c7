#include "framework/saved/saved_program.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "framework/base/file.h"
#include "framework/base/status.h"
#include "framework/ir/control_flow.h"
#include "framework/text/text.h"

namespace mica {
namespace {

namespace fs = std::filesystem;

absl::Status SystemError(absl::string_view path, int error) {
  return absl::InternalError(
      absl::StrCat("can't write ", path, ": ", std::strerror(error)));
}

// The variable's value in memory of the Program's own type.
absl::StatusOr<Tensor> InTypeOf(const TensorType& wanted,
                                const Tensor& tensor) {
  if (tensor.type() == wanted) return tensor;
  MICA_ASSIGN_OR_RETURN(Tensor fitted, Tensor::Allocate(wanted));
  CopyElements(tensor.view(), fitted.view());
  return fitted;
}

// OK for a path that a saved Program may take: nothing is there yet, an empty
// folder, or another saved Program.
absl::Status CheckReplaceable(const std::string& folder) {
  std::error_code error;
  const fs::file_status status = fs::status(folder, error);
  if (status.type() == fs::file_type::not_found) return absl::OkStatus();
  if (!fs::is_directory(status)) {
    return Invalid("can't write ", folder, ": it is there, and no folder");
  }
  if (fs::is_empty(folder, error) || fs::exists(ProgramFileOf(folder), error)) {
    return absl::OkStatus();
  }
  return Invalid("can't write ", folder,
                 ": the folder is there, and holds something else than a "
                 "saved Program");
}

// Puts the folder `fresh` in the place of `folder`, and what was there in that
// of `fresh`, in one step where the file system can do that.
absl::Status Swap(const std::string& fresh, const std::string& folder) {
  if (::rename(fresh.c_str(), folder.c_str()) == 0) return absl::OkStatus();
  if (errno != ENOTEMPTY && errno != EEXIST) return SystemError(folder, errno);
  if (::renameat2(AT_FDCWD, fresh.c_str(), AT_FDCWD, folder.c_str(),
                  RENAME_EXCHANGE) == 0) {
    return absl::OkStatus();
  }
  const std::string old = absl::StrCat(fresh, ".old");
  if (::rename(folder.c_str(), old.c_str()) != 0 ||
      ::rename(fresh.c_str(), folder.c_str()) != 0) {
    return SystemError(folder, errno);
  }
  std::error_code error;
  fs::remove_all(old, error);
  return absl::OkStatus();
}

absl::Status WriteParts(const std::string& folder, const SavedProgram& saved) {
  std::vector<NamedTensor> named;
  for (size_t i = 0; i < saved.variables.size(); ++i) {
    named.push_back({.name = saved.program->variables()[i].name,
                     .tensor = saved.variables[i]});
  }
  MICA_RETURN_IF_ERROR(
      WriteFile(ProgramFileOf(folder), {ToText(*saved.program)}));
  MICA_RETURN_IF_ERROR(WriteSafetensors(WeightsFileOf(folder), named,
                                        {{"program", saved.program->name()}}));
  return WriteFile(SignatureFileOf(folder), {saved.signature});
}

absl::Status CheckSavable(const SavedProgram& saved) {
  const Program& program = *saved.program;
  const std::string opaque = DescribeOpaqueOps(program);
  if (!opaque.empty()) {
    return absl::UnimplementedError(
        absl::StrCat("program @", program.name(),
                     " has ops that only ATen can run: ", opaque));
  }
  if (saved.variables.size() != program.variables().size()) {
    return Invalid("program @", program.name(), " has ",
                   program.variables().size(), " variables, got ",
                   saved.variables.size());
  }
  for (size_t i = 0; i < saved.variables.size(); ++i) {
    const Variable& variable = program.variables()[i];
    if (!SameShape(program.type(variable.value), saved.variables[i].type())) {
      return Invalid("variable \"", variable.name, "\": wants ",
                     program.type(variable.value).ToString(), ", got ",
                     saved.variables[i].type().ToString());
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string ProgramFileOf(absl::string_view folder) {
  return absl::StrCat(folder, "/program.mica");
}

std::string WeightsFileOf(absl::string_view folder) {
  return absl::StrCat(folder, "/weights.safetensors");
}

std::string SignatureFileOf(absl::string_view folder) {
  return absl::StrCat(folder, "/signature.json");
}

std::string DescribeOpaqueOps(const Program& program) {
  std::vector<std::string> lines;
  std::set<std::string> seen;
  ForEachOp(program, [&](const Op& op) {
    if (!op.def->is_opaque()) return;
    if (seen.insert(Describe(op)).second) lines.push_back(Describe(op));
  });
  return absl::StrJoin(lines, ", ");
}

absl::StatusOr<std::shared_ptr<const Program>> ReadProgramFile(
    const std::string& path, const OpRegistry& registry) {
  MICA_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  absl::StatusOr<Program> program = ParseProgram(text, registry);
  if (!program.ok()) return Annotate(program.status(), path);
  return std::make_shared<const Program>(*std::move(program));
}

absl::StatusOr<std::vector<Tensor>> FitVariables(
    const Program& program, absl::Span<const NamedTensor> tensors,
    absl::string_view file) {
  std::map<absl::string_view, const Tensor*> by_name;
  for (const NamedTensor& named : tensors) {
    by_name[named.name] = &named.tensor;
  }
  std::vector<Tensor> variables;
  for (const Variable& variable : program.variables()) {
    const TensorType& wanted = program.type(variable.value);
    const auto it = by_name.find(variable.name);
    if (it == by_name.end()) {
      return Invalid(file, ": variable \"", variable.name,
                     "\" is missing: ", "program @", program.name(), " wants ",
                     wanted.ToString());
    }
    if (!SameShape(wanted, it->second->type())) {
      return Invalid(file, ": variable \"", variable.name, "\": program @",
                     program.name(), " wants ", wanted.ToString(), ", got ",
                     it->second->type().ToString());
    }
    MICA_ASSIGN_OR_RETURN(Tensor fitted, InTypeOf(wanted, *it->second));
    variables.push_back(std::move(fitted));
    by_name.erase(it);
  }
  if (!by_name.empty()) {
    const auto& [name, tensor] = *by_name.begin();
    return Invalid(file, ": \"", name, "\", ", tensor->type().ToString(),
                   ", is no variable of program @", program.name());
  }
  return variables;
}

absl::StatusOr<SavedProgram> ReadSavedProgram(const std::string& folder,
                                              const OpRegistry& registry,
                                              FileMemory memory,
                                              std::string weights) {
  SavedProgram saved;
  MICA_ASSIGN_OR_RETURN(saved.program,
                        ReadProgramFile(ProgramFileOf(folder), registry));
  if (weights.empty()) weights = WeightsFileOf(folder);
  MICA_ASSIGN_OR_RETURN(const NamedTensors file,
                        ReadSafetensors(weights, memory));
  MICA_ASSIGN_OR_RETURN(saved.variables,
                        FitVariables(*saved.program, file.tensors, weights));
  absl::StatusOr<std::string> signature = ReadFile(SignatureFileOf(folder));
  if (signature.ok()) {
    saved.signature = *std::move(signature);
  } else if (!absl::IsNotFound(signature.status())) {
    return signature.status();
  }
  return saved;
}

absl::Status WriteSavedProgram(const std::string& folder,
                               const SavedProgram& saved) {
  MICA_RETURN_IF_ERROR(CheckSavable(saved));
  // "a/b/" and "a/b" are one folder; the new one is made beside it.
  std::string path = folder;
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  MICA_RETURN_IF_ERROR(CheckReplaceable(path));
  std::string fresh = absl::StrCat(path, ".XXXXXX");
  if (::mkdtemp(fresh.data()) == nullptr) return SystemError(path, errno);
  const absl::Cleanup remove = [&fresh] {
    std::error_code error;
    fs::remove_all(fresh, error);
  };
  std::error_code error;
  fs::permissions(fresh,
                  fs::perms::owner_all | fs::perms::group_read |
                      fs::perms::group_exec | fs::perms::others_read |
                      fs::perms::others_exec,
                  error);
  MICA_RETURN_IF_ERROR(WriteParts(fresh, saved));
  return Swap(fresh, path);
}

}  // namespace mica
