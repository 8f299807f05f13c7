// GoogleTest matchers for absl::Status and absl::StatusOr.

#ifndef MICA_FRAMEWORK_BASE_TEST_MATCHERS_H_
#define MICA_FRAMEWORK_BASE_TEST_MATCHERS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "framework/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mica {

// What most bad input gives.
inline constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

namespace testing_internal {

inline const absl::Status& ToStatus(const absl::Status& status) {
  return status;
}
template <typename T>
const absl::Status& ToStatus(const absl::StatusOr<T>& status_or) {
  return status_or.status();
}

}  // namespace testing_internal

MATCHER(IsOk, "is OK") {
  *result_listener << testing_internal::ToStatus(arg).ToString();
  return testing_internal::ToStatus(arg).ok();
}

MATCHER_P2(StatusIs, code, message_matcher, "has the code and the message") {
  const absl::Status& status = testing_internal::ToStatus(arg);
  *result_listener << status.ToString();
  return testing::ExplainMatchResult(code, status.code(), result_listener) &&
         testing::ExplainMatchResult(
             message_matcher, std::string(status.message()), result_listener);
}

}  // namespace mica

#define MICA_ASSERT_OK(expression) ASSERT_THAT(expression, ::mica::IsOk())
#define MICA_EXPECT_OK(expression) EXPECT_THAT(expression, ::mica::IsOk())
#define MICA_ASSERT_OK_AND_ASSIGN(target, expression)                      \
  MICA_ASSERT_OK_AND_ASSIGN_INNER(MICA_CONCAT(mica_or_, __LINE__), target, \
                                  expression)
#define MICA_ASSERT_OK_AND_ASSIGN_INNER(status_or, target, expression) \
  auto status_or = (expression);                                       \
  ASSERT_THAT(status_or, ::mica::IsOk());                              \
  target = std::move(status_or).value()

#endif  // MICA_FRAMEWORK_BASE_TEST_MATCHERS_H_
