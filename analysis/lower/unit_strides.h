// Strides of dims of one element, which a Program's types don't keep.

#ifndef MICA_ANALYSIS_LOWER_UNIT_STRIDES_H_
#define MICA_ANALYSIS_LOWER_UNIT_STRIDES_H_

#include <string>

#include "absl/functional/function_ref.h"
#include "analysis/lower/tape.h"
#include "framework/ir/program.h"
#include "framework/tensor/tensor_type.h"

namespace mica {

// What an opaque operator's name says of its operands, where the call took a
// tensor whose strides are others than those of its value's type:
// "strides.p_1x2.", a word for each tensor in order, p for one that its type
// tells all of. Else "". `type_of` gives the type of a tensor's value.
//
// Such strides lead to no element, but by them ATen tells, for one, whether it
// multiplies by a transposed matrix, and so which of a library's routines runs:
// the weights of a linear layer with a single output, [1,n], are [n,1] with
// strides {1,n} where they are used.
std::string StridesPrefix(const Tape& tape, const TapeCall& call,
                          absl::FunctionRef<TensorType(TapeTensorId)> type_of);

}  // namespace mica

#endif  // MICA_ANALYSIS_LOWER_UNIT_STRIDES_H_
