#ifndef MICA_ANALYSIS_LOWER_CONSTANT_ARGUMENT_H_
#define MICA_ANALYSIS_LOWER_CONSTANT_ARGUMENT_H_

#include "absl/status/statusor.h"
#include "analysis/lower/tape.h"
#include "framework/ir/argument.h"

namespace mica {

// A recorded argument without tensors or numbers that vary, as ops take it.
// Unimplemented for a kind that has no form.
absl::StatusOr<Argument> ConstantArgument(const TapeValue& value);

}  // namespace mica

#endif  // MICA_ANALYSIS_LOWER_CONSTANT_ARGUMENT_H_
