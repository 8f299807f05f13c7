#include "tests/golden/golden.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "framework/base/file.h"
#include "framework/base/test_matchers.h"

namespace mica {

bool update_golden = false;

std::vector<std::string> FindFiles(absl::string_view folder,
                                   absl::string_view suffix) {
  std::vector<std::string> paths;
  std::error_code error;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(
           std::string(folder), error)) {
    const std::string path = entry.path().string();
    if (absl::EndsWith(path, suffix)) paths.push_back(path);
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

void ExpectGolden(const std::string& path, absl::string_view text) {
  if (update_golden) {
    MICA_EXPECT_OK(WriteFile(path, {text}));
    return;
  }
  MICA_ASSERT_OK_AND_ASSIGN(const std::string want, ReadFile(path));
  EXPECT_EQ(want, std::string(text))
      << path << ": to accept the change, run with --update_golden and read "
      << "the diff";
}

}  // namespace mica
