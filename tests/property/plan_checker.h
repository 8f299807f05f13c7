// Proves of one Plan that its memory holds what its steps read.

#ifndef MICA_TESTS_PROPERTY_PLAN_CHECKER_H_
#define MICA_TESTS_PROPERTY_PLAN_CHECKER_H_

#include "absl/status/status.h"
#include "analysis/plan/plan.h"

namespace mica {

// Follows which value owns each byte, step by step. Internal, naming the step
// and the value, if a step reads bytes that hold something else, if a result
// or scratch memory overlaps an operand that its kernel doesn't let it, or if
// an output or an update ends up with another value.
absl::Status CheckMemory(const Plan& plan);

}  // namespace mica

#endif  // MICA_TESTS_PROPERTY_PLAN_CHECKER_H_
