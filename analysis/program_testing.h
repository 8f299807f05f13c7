// Programs for tests, from their text.

#ifndef MICA_ANALYSIS_PROGRAM_TESTING_H_
#define MICA_ANALYSIS_PROGRAM_TESTING_H_

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/base/test_matchers.h"
#include "framework/ir/program.h"
#include "framework/text/text.h"
#include "ops/all.h"

namespace mica {

// The Program that the text gives. It has to be one.
inline Program Parse(absl::string_view text) {
  absl::StatusOr<Program> program = ParseProgram(text, AllOps());
  EXPECT_THAT(program, IsOk());
  return *std::move(program);
}

inline std::shared_ptr<const Program> ParseShared(absl::string_view text) {
  return std::make_shared<const Program>(Parse(text));
}

}  // namespace mica

#endif  // MICA_ANALYSIS_PROGRAM_TESTING_H_
