// What the mains do before and after their work.

#ifndef MICA_TOOLS_FLAGS_H_
#define MICA_TOOLS_FLAGS_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace mica {

// Exit statuses of our binaries.
inline constexpr int kExitFailed = 1;  // The work failed: file, Program, run.
inline constexpr int kExitUsage = 2;   // The command line was wrong.

// Sets gflags by "--name=value", "--name value", "--name" and "--noname"; of
// those in `repeatable`, values that are given one by one are joined with
// commas. `files` gets the arguments that are no flags. InvalidArgument for an
// unknown flag, a value that doesn't fit, or, where `files` is null, an
// argument that is no flag: gflags' own parser would end the process. "--help"
// prints the flags of main file `main_file` and exits.
absl::Status ParseFlags(int argc, char** argv, absl::string_view main_file,
                        absl::Span<const absl::string_view> repeatable = {},
                        std::vector<std::string>* files = nullptr);

// Prints "name: code: message" to stderr.
void PrintError(absl::string_view name, const absl::Status& status);

// Splits "a=1,b=2"; InvalidArgument for an entry without "=", with an empty
// name, or with the name of an earlier one.
absl::StatusOr<std::vector<std::pair<std::string, std::string>>> SplitPairs(
    absl::string_view flag, absl::string_view text);

}  // namespace mica

#endif  // MICA_TOOLS_FLAGS_H_
