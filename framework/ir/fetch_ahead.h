// For loops over all ops of a large Program, which wait for memory more than
// they work.

#ifndef MICA_FRAMEWORK_IR_FETCH_AHEAD_H_
#define MICA_FRAMEWORK_IR_FETCH_AHEAD_H_

#include <cstddef>

#include "absl/types/span.h"
#include "framework/ir/program.h"

namespace mica {

// Asks for the memory of ops that come soon after the one at `at`, then for the
// lists of integers among the arguments of those that come sooner. Changes
// nothing but the time it takes.
inline void FetchAhead(absl::Span<const Op> ops, size_t at) {
  constexpr size_t kOps = 16, kLists = 8;
  constexpr size_t kLine = 64;  // Bytes.
  if (at + kOps >= ops.size()) return;
  const auto* op = reinterpret_cast<const char*>(&ops[at + kOps]);
  for (size_t line = 0; line < sizeof(Op); line += kLine) {
    __builtin_prefetch(op + line);
  }
  for (const Argument& argument : ops[at + kLists].arguments) {
    const auto* list = std::get_if<std::vector<int64_t>>(&argument);
    if (list != nullptr) __builtin_prefetch(list->data());
  }
}

}  // namespace mica

#endif  // MICA_FRAMEWORK_IR_FETCH_AHEAD_H_
