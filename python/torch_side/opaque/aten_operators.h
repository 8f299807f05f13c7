// ATen's operators by Mica's names.

#ifndef MICA_PYTHON_TORCH_SIDE_OPAQUE_ATEN_OPERATORS_H_
#define MICA_PYTHON_TORCH_SIDE_OPAQUE_ATEN_OPERATORS_H_

#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "framework/op/op_def.h"

namespace mica {

// ATen's operator "aten::add_.Tensor" for "aten.add_.Tensor", whatever form of
// operands (operands_form.h) the name tells of.
std::optional<c10::OperatorHandle> FindAten(absl::string_view name);

// The operator that leaves in its first tensor what `op` gives as its one
// result: "aten::add_.Tensor" for "aten::add.Tensor".
std::optional<c10::OperatorHandle> FindInPlaceForm(
    const c10::OperatorHandle& op);

// Why ATen's operator of the name, of this schema, doesn't stand for one of
// Mica's own; empty if it does: takes the same, gives tensors, and does nothing
// but compute.
std::string WhyNotAtens(const OpDef& def, const c10::FunctionSchema& schema);

}  // namespace mica

#endif  // MICA_PYTHON_TORCH_SIDE_OPAQUE_ATEN_OPERATORS_H_
