// Numbers that Python computed and nobody used.

#ifndef MICA_ANALYSIS_LOWER_RAISING_NUMBERS_H_
#define MICA_ANALYSIS_LOWER_RAISING_NUMBERS_H_

#include <vector>

#include "absl/strings/string_view.h"
#include "framework/ir/program.h"

namespace mica {

// Whether making a number by this op raises for some operands: x / 0.
bool MayRaise(absl::string_view op);

// The results of ops that may raise and that no output, update or effect of
// the Program depends on: left out, they would raise no more. Requires: a
// Program without bodies.
std::vector<ValueId> UnusedThatMayRaise(const Program& program);

}  // namespace mica

#endif  // MICA_ANALYSIS_LOWER_RAISING_NUMBERS_H_
