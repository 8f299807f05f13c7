#include "analysis/pipeline/pass_dump.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/environment.h"
#include "framework/base/file.h"
#include "framework/base/fingerprint.h"
#include "framework/text/text.h"

namespace mica {
namespace {

constexpr size_t kDigits = 8;  // Of the fingerprint.
constexpr size_t kLongestName = 80;

// As a part of a file's name.
std::string FileNameOf(absl::string_view name) {
  std::string file_name(name.substr(0, kLongestName));
  std::replace_if(
      file_name.begin(), file_name.end(),
      [](char c) { return !absl::ascii_isalnum(c) && c != '_' && c != '.'; },
      '_');
  return file_name;
}

}  // namespace

PassDump::PassDump(std::string folder) : folder_(std::move(folder)) {}

std::string PassDump::FolderFromEnvironment() {
  return EnvironmentVariable("MICA_DUMP");
}

absl::Status PassDump::Write(const Program& program, int number,
                             absl::string_view pass) {
  std::string text = ToText(program);
  if (number == 0) {
    prefix_ = absl::StrCat(FileNameOf(program.name()), "-",
                           FingerprintOf(text).ToHex().substr(0, kDigits));
    pass = "given";
  } else if (text == last_text_) {
    return absl::OkStatus();
  }
  last_text_ = std::move(text);
  return WriteText(absl::StrFormat("%02d.%s.mica", number, pass), last_text_);
}

absl::Status PassDump::WritePlan(absl::string_view text) {
  return WriteText("plan.txt", text);
}

absl::Status PassDump::WriteText(absl::string_view what,
                                 absl::string_view text) {
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) return ErrnoStatus(error.value(), "can't make folder", folder_);
  return WriteFile(absl::StrCat(folder_, "/", prefix_, ".", what), {text});
}

}  // namespace mica
