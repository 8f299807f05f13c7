#include "executor/binding/binding.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"

namespace mica {

absl::Status CheckFed(absl::string_view what, const TensorType& wanted,
                      const TensorType& got) {
  // A host scalar may be fed as a tensor without dims.
  const bool fits =
      wanted.dtype == got.dtype && wanted.dims == got.dims &&
      (got.rank() == 0 ||
       (wanted.is_row_major() ? got.is_row_major()
                              : wanted.strides == got.EffectiveStrides()));
  if (fits) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      what, ": wants ", wanted.ToString(), ", got ", got.ToString()));
}

absl::StatusOr<std::shared_ptr<const Binding>> Binding::Create(
    std::shared_ptr<const Plan> plan, absl::Span<const TensorView> variables) {
  const Program& program = plan->program();
  if (variables.size() != program.variables().size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("wants ", program.variables().size(), " variables, got ",
                     variables.size()));
  }
  std::shared_ptr<Binding> binding(new Binding);
  for (size_t i = 0; i < variables.size(); ++i) {
    const Variable& variable = program.variables()[i];
    MICA_RETURN_IF_ERROR(
        CheckFed(absl::StrCat("variable \"", variable.name, "\""),
                 program.type(variable.value), variables[i].type));
    binding->variables_.push_back(variables[i].data);
  }
  for (const PackedOperand& packed : plan->packed()) {
    MICA_ASSIGN_OR_RETURN(Buffer buffer, Buffer::Allocate(packed.bytes));
    const char* from =
        static_cast<const char*>(binding->variables_[packed.variable]) +
        packed.offset;
    MICA_RETURN_IF_ERROR(packed.pack(from, buffer.data()));
    binding->packed_.push_back(std::move(buffer));
  }
  binding->plan_ = std::move(plan);
  return binding;
}

}  // namespace mica
