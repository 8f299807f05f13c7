// For tests: what inference says of a call given as text.

#ifndef MICA_OPS_INFER_TESTING_H_
#define MICA_OPS_INFER_TESTING_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "framework/base/test_matchers.h"
#include "framework/text/text.h"
#include "gmock/gmock.h"
#include "ops/all.h"

namespace mica {

// The result types of `call`, "aten.mm(%a, %b)", for `operands` as a Program's
// header has them, "%a: f32[2,3], %b: f32[3,4]"; several joined by " ".
inline absl::StatusOr<std::string> ResultTypes(absl::string_view operands,
                                               absl::string_view call) {
  absl::StatusOr<Program> program =
      ParseProgram(absl::StrCat("program @test(", operands, ") {\n  ", call,
                                "\n  return\n}\n"),
                   AllOps());
  if (!program.ok()) return program.status();
  return absl::StrJoin(program->ops()[0].results, " ",
                       [&](std::string* out, ValueId id) {
                         absl::StrAppend(out, program->type(id).ToString());
                       });
}

// The types of a call that must be legal; what is wrong, where it isn't.
inline std::string Types(absl::string_view operands, absl::string_view call) {
  absl::StatusOr<std::string> types = ResultTypes(operands, call);
  return types.ok() ? *types : types.status().ToString();
}

// Fails the test unless the call's error has the code, and `message` in it.
inline void ExpectError(
    absl::string_view operands, absl::string_view call,
    absl::string_view message,
    absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
  EXPECT_THAT(ResultTypes(operands, call),
              StatusIs(code, testing::HasSubstr(std::string(message))))
      << call;
}

}  // namespace mica

#endif  // MICA_OPS_INFER_TESTING_H_
