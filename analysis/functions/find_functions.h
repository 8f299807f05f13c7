// Finds repeated layers, without being told where they are.

#ifndef MICA_ANALYSIS_FUNCTIONS_FIND_FUNCTIONS_H_
#define MICA_ANALYSIS_FUNCTIONS_FIND_FUNCTIONS_H_

#include "absl/status/statusor.h"
#include "framework/ir/program.h"
#include "framework/op/op_registry.h"

namespace mica {

// A Program of the same meaning in which ops that occur several times, one copy
// behind another, are one function that is called as often. Copies have equal
// operators, arguments, types and wiring; variables, constants and what else
// they read from outside are arguments. What somebody outside reads of any of
// them are results; a view among these is made anew behind the call, so that it
// costs nothing. InlineCalls() undoes it.
//
// What computes the new value of a variable element by element stays outside:
// there it can be computed where the variable is.
absl::StatusOr<Program> FindFunctions(Program program, const OpRegistry& ops);

}  // namespace mica

#endif  // MICA_ANALYSIS_FUNCTIONS_FIND_FUNCTIONS_H_
