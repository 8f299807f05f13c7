// Finds repeated layers, without being told where they are.

#ifndef MICA_ANALYSIS_FUNCTIONS_FIND_FUNCTIONS_H_
#define MICA_ANALYSIS_FUNCTIONS_FIND_FUNCTIONS_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "framework/ir/program.h"
#include "framework/op/op_registry.h"

namespace mica {

// What is worth a function.
struct FindOptions {
  int32_t fewest_ops = 8;
  // Ops of all copies but one.
  int64_t least_saved = 32;
  // Ops of the Program given are their own origins (SourceLine::origin).
  bool sets_origins = false;
};

// A Program of the same meaning in which ops that occur several times, one copy
// behind another, are one function that is called as often. Copies have equal
// operators, arguments, types and wiring; variables, constants and what else
// they read from outside are arguments. What somebody outside reads of any of
// them are results; a view among these is made anew behind the call, so that it
// costs nothing. Copies begin where the fewest values are handed from one to
// the next, and where elementwise ops don't become one across that.
// InlineCalls() undoes it.
absl::StatusOr<Program> FindFunctions(Program program, const OpRegistry& ops,
                                      const FindOptions& options = {});
// The same; nothing if that would be the Program given.
absl::StatusOr<std::optional<Program>> FindFunctionsOf(
    const Program& program, const OpRegistry& ops, const FindOptions& options);

}  // namespace mica

#endif  // MICA_ANALYSIS_FUNCTIONS_FIND_FUNCTIONS_H_
