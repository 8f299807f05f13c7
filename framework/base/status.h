// Macros that pass an absl::Status up, and helpers that add context to one.

#ifndef MICA_FRAMEWORK_BASE_STATUS_H_
#define MICA_FRAMEWORK_BASE_STATUS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#define MICA_CONCAT_INNER(a, b) a##b
#define MICA_CONCAT(a, b) MICA_CONCAT_INNER(a, b)

// Returns the Status of `expression` from the enclosing function if it failed.
#define MICA_RETURN_IF_ERROR(expression)         \
  do {                                           \
    absl::Status mica_status_ = (expression);    \
    if (!mica_status_.ok()) return mica_status_; \
  } while (false)

// Evaluates a StatusOr; on success moves its value into `target`, otherwise
// returns its Status from the enclosing function.
#define MICA_ASSIGN_OR_RETURN(target, expression)                      \
  MICA_ASSIGN_OR_RETURN_INNER(MICA_CONCAT(mica_or_, __LINE__), target, \
                              expression)
#define MICA_ASSIGN_OR_RETURN_INNER(status_or, target, expression) \
  auto status_or = (expression);                                   \
  if (!status_or.ok()) return std::move(status_or).status();       \
  target = std::move(status_or).value()

namespace mica {

// The same code with `prefix` and ": " before the message.
inline absl::Status Annotate(const absl::Status& status,
                             absl::string_view prefix) {
  if (status.ok()) return status;
  absl::Status annotated(status.code(),
                         absl::StrCat(prefix, ": ", status.message()));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    annotated.SetPayload(url, payload);
  });
  return annotated;
}

// An InvalidArgument error whose message is the arguments, joined.
template <typename... Args>
absl::Status Invalid(const Args&... args) {
  return absl::InvalidArgumentError(absl::StrCat(args...));
}

}  // namespace mica

#endif  // MICA_FRAMEWORK_BASE_STATUS_H_
