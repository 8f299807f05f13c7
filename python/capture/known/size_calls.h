// What is known of functions in C about the sizes of tensors.

#ifndef MICA_PYTHON_CAPTURE_KNOWN_SIZE_CALLS_H_
#define MICA_PYTHON_CAPTURE_KNOWN_SIZE_CALLS_H_

#include "absl/strings/string_view.h"
#include "python/interpreter/py_ref.h"

namespace mica {

// What len() gives of a tensor, without torch's own method, which is Python
// code: what that returns, len() makes a number of its own of.
PyRef LengthFunction();

// Both by the last part of a function's or a method's name.

// Whether numbers, flags and texts that it gives of tensors follow from no
// size.
bool IsFreeOfSizes(absl::string_view name);
// Whether a function of torch's that is made of several operators passes on the
// numbers that it gets, sizes, and products of these. Others round, or go by
// sizes: what they would do at others isn't known.
bool IsKnownComposite(absl::string_view name);

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_KNOWN_SIZE_CALLS_H_
