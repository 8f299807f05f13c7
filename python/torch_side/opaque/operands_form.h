// What an opaque operator's name says beside ATen's own name.

#ifndef MICA_PYTHON_TORCH_SIDE_OPAQUE_OPERANDS_FORM_H_
#define MICA_PYTHON_TORCH_SIDE_OPAQUE_OPERANDS_FORM_H_

#include <optional>
#include <vector>

#include "absl/strings/string_view.h"
#include "framework/tensor/tensor_type.h"
#include "python/torch_side/tensors/engine_tensors.h"

namespace mica {

// What a name says of the operator's tensors, in order; empty for nothing.
struct OperandsForm {
  std::vector<LazyBits> lazy;
  std::vector<std::optional<Dims>> strides;  // Where the type doesn't tell.
};

// Takes "torch." from a name, which tells a form that Mica doesn't have from
// the one that it has, and the words after it: "writing." for a form that
// writes what ATen's schema conceals; "lazy.pc." for one whose second tensor is
// lazily conjugated (LazyPrefix() has the letters); "strides.p_1x2." for one
// whose second tensor has strides that its type doesn't tell.
OperandsForm ConsumeForm(absl::string_view* name);

}  // namespace mica

#endif  // MICA_PYTHON_TORCH_SIDE_OPAQUE_OPERANDS_FORM_H_
