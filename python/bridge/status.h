// A Status as the Python exception that the house style's table gives.

#ifndef MICA_PYTHON_BRIDGE_STATUS_H_
#define MICA_PYTHON_BRIDGE_STATUS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace mica {

// Throws what nanobind turns into ValueError, LookupError,
// NotImplementedError, MemoryError or RuntimeError; returns if `status` is OK.
// Only for functions that Python calls: the tree has no exceptions elsewhere.
void ThrowIfError(const absl::Status& status);

template <typename T>
T ValueOrThrow(absl::StatusOr<T> status_or) {
  ThrowIfError(status_or.status());
  return *std::move(status_or);
}

}  // namespace mica

#endif  // MICA_PYTHON_BRIDGE_STATUS_H_
