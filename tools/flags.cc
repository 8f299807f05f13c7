#include "tools/flags.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <set>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "gflags/gflags.h"

namespace mica {
namespace {

absl::Status SetFlag(const std::string& name, const std::string& value) {
  if (!gflags::SetCommandLineOption(name.c_str(), value.c_str()).empty()) {
    return absl::OkStatus();
  }
  gflags::CommandLineFlagInfo info;
  gflags::GetCommandLineFlagInfo(name.c_str(), &info);
  return absl::InvalidArgumentError(
      absl::StrCat("--", name, ": wants ", info.type, ", got '", value, "'"));
}

}  // namespace

absl::Status ParseFlags(int argc, char** argv, absl::string_view main_file,
                        absl::Span<const absl::string_view> repeatable,
                        std::vector<std::string>* files) {
  std::set<std::string> seen;
  for (int i = 1; i < argc; ++i) {
    absl::string_view argument = argv[i];
    if (files != nullptr && !absl::StartsWith(argument, "-")) {
      files->push_back(argv[i]);
      continue;
    }
    if (!absl::ConsumePrefix(&argument, "--") || argument.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "wants flags such as --name=value, got '", argv[i], "'; see --help"));
    }
    const std::vector<std::string> parts =
        absl::StrSplit(argument, absl::MaxSplits('=', 1));
    std::string name = parts[0];
    if (name == "help") {
      gflags::ShowUsageWithFlagsRestrict(argv[0],
                                         std::string(main_file).c_str());
      std::exit(0);
    }
    gflags::CommandLineFlagInfo info;
    bool is_negated = false;
    if (!gflags::GetCommandLineFlagInfo(name.c_str(), &info)) {
      is_negated = absl::StartsWith(name, "no") && parts.size() == 1;
      if (is_negated) name = name.substr(2);
      if (!is_negated || !gflags::GetCommandLineFlagInfo(name.c_str(), &info) ||
          info.type != "bool") {
        return absl::InvalidArgumentError(
            absl::StrCat("unknown flag '", argv[i], "'; see --help"));
      }
    }
    std::string value = is_negated ? "false" : "true";
    if (parts.size() == 2) {
      value = parts[1];
    } else if (info.type != "bool") {
      if (++i == argc) {
        return absl::InvalidArgumentError(
            absl::StrCat("--", name, ": wants a value"));
      }
      value = argv[i];
    }
    if (!seen.insert(name).second && absl::c_linear_search(repeatable, name)) {
      value = absl::StrCat(info.current_value, ",", value);
    }
    const absl::Status status = SetFlag(name, value);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

void PrintError(absl::string_view name, const absl::Status& status) {
  std::fprintf(stderr, "%s: %s\n", std::string(name).c_str(),
               status.ToString().c_str());
}

absl::StatusOr<std::vector<std::pair<std::string, std::string>>> SplitPairs(
    absl::string_view flag, absl::string_view text) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (absl::string_view entry : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    const size_t equals = entry.find('=');
    if (equals == absl::string_view::npos || equals == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("--", flag, ": wants name=value, got '", entry, "'"));
    }
    const std::string name(entry.substr(0, equals));
    for (const auto& [earlier, value] : pairs) {
      if (earlier != name) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("--", flag, ": '", name, "' is given twice"));
    }
    pairs.emplace_back(name, std::string(entry.substr(equals + 1)));
  }
  return pairs;
}

}  // namespace mica
