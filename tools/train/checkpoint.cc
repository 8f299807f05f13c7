#include "tools/train/checkpoint.h"

#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/file.h"
#include "framework/base/status.h"
#include "framework/saved/saved_program.h"
#include "framework/tensor/safetensors.h"

namespace mica {
namespace {

constexpr char kFormat[] = "mica_train 1";

using Metadata = std::map<std::string, std::string>;

absl::StatusOr<std::string> Find(const Metadata& metadata,
                                 const std::string& key) {
  const auto it = metadata.find(key);
  if (it == metadata.end()) return Invalid("lacks '", key, "'");
  return it->second;
}

absl::Status ParseNatural(const Metadata& metadata, const std::string& key,
                          int64_t* value) {
  MICA_ASSIGN_OR_RETURN(const std::string text, Find(metadata, key));
  if (absl::SimpleAtoi(text, value) && *value >= 0) return absl::OkStatus();
  return Invalid("'", key, "': wants 0 or more, got '", text, "'");
}

absl::StatusOr<Progress> ParseProgress(const Metadata& metadata) {
  Progress progress;
  MICA_RETURN_IF_ERROR(ParseNatural(metadata, "epoch", &progress.epoch));
  MICA_RETURN_IF_ERROR(
      ParseNatural(metadata, "step_in_epoch", &progress.step_in_epoch));
  MICA_RETURN_IF_ERROR(ParseNatural(metadata, "step", &progress.step));
  MICA_RETURN_IF_ERROR(
      ParseNatural(metadata, "log_bytes", &progress.log_bytes));
  MICA_ASSIGN_OR_RETURN(const std::string sum, Find(metadata, "loss_sum"));
  if (!absl::SimpleAtod(sum, &progress.loss_sum)) {
    return Invalid("'loss_sum': wants a number, got '", sum, "'");
  }
  return progress;
}

absl::Status CheckIdentity(const Metadata& metadata,
                           const RunIdentity& identity) {
  for (const auto& [key, wanted] : identity) {
    MICA_ASSIGN_OR_RETURN(const std::string got, Find(metadata, key));
    if (got == wanted) continue;
    return Invalid("is of another run: its ", key, " is '", got,
                   "', this run's '", wanted,
                   "'; take another file for this run, or remove it");
  }
  return absl::OkStatus();
}

absl::StatusOr<Progress> ParseMetadata(const Metadata& metadata,
                                       const RunIdentity& identity) {
  const auto format = Find(metadata, "format");
  if (!format.ok() || *format != kFormat) {
    return Invalid("is no checkpoint of mica_train");
  }
  MICA_RETURN_IF_ERROR(CheckIdentity(metadata, identity));
  return ParseProgress(metadata);
}

}  // namespace

absl::Status WriteCheckpoint(const std::string& path, const Program& program,
                             const std::vector<Tensor>& variables,
                             const Progress& progress,
                             const RunIdentity& identity) {
  std::vector<NamedTensor> named;
  for (size_t i = 0; i < variables.size(); ++i) {
    named.push_back(
        {.name = program.variables()[i].name, .tensor = variables[i]});
  }
  Metadata metadata(identity.begin(), identity.end());
  metadata["format"] = kFormat;
  metadata["epoch"] = absl::StrCat(progress.epoch);
  metadata["step_in_epoch"] = absl::StrCat(progress.step_in_epoch);
  metadata["step"] = absl::StrCat(progress.step);
  metadata["log_bytes"] = absl::StrCat(progress.log_bytes);
  metadata["loss_sum"] = absl::StrFormat("%.17g", progress.loss_sum);
  return WriteSafetensors(path, named, metadata);
}

absl::StatusOr<std::optional<Progress>> ReadCheckpoint(
    const std::string& path, const Program& program,
    const std::vector<Tensor>& variables, const RunIdentity& identity) {
  absl::StatusOr<NamedTensors> file = ReadSafetensors(path);
  if (absl::IsNotFound(file.status())) return std::optional<Progress>();
  if (!file.ok()) return file.status();
  absl::StatusOr<Progress> progress = ParseMetadata(file->metadata, identity);
  if (!progress.ok()) return Annotate(progress.status(), path);
  MICA_ASSIGN_OR_RETURN(const std::vector<Tensor> values,
                        FitVariables(program, file->tensors, path));
  for (size_t i = 0; i < values.size(); ++i) {
    CopyElements(values[i].view(), variables[i].view());
  }
  return std::optional<Progress>(*progress);
}

void RemoveUnfinished(const std::string& path) {
  namespace fs = std::filesystem;
  // As WriteFile() names them: ".XXXXXX.tmp".
  constexpr size_t kSuffixBytes = 7 + kTemporarySuffix.size();
  const fs::path full(path);
  const std::string name = full.filename().string();
  std::error_code error;
  const fs::path folder = full.has_parent_path() ? full.parent_path() : ".";
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string other = entry.path().filename().string();
    if (other.size() == name.size() + kSuffixBytes &&
        absl::StartsWith(other, absl::StrCat(name, ".")) &&
        absl::EndsWith(other, kTemporarySuffix)) {
      fs::remove(entry.path(), error);
    }
  }
}

}  // namespace mica
