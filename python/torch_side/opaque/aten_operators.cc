#include "python/torch_side/opaque/aten_operators.h"

#include <ATen/core/jit_type.h>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "analysis/lower/fixed_values.h"
#include "python/torch_side/opaque/operands_form.h"

namespace mica {
namespace {

// "aten.add_.Tensor", its form aside, as ATen's {"aten::add_", "Tensor"}.
c10::OperatorName AtenName(absl::string_view name) {
  ConsumeForm(&name);
  const std::string op(name);
  const size_t first = op.find('.');
  const size_t second = op.find('.', first + 1);
  const std::string base =
      op.substr(first + 1, second == std::string::npos ? std::string::npos
                                                       : second - first - 1);
  return {absl::StrCat(op.substr(0, first), "::", base),
          second == std::string::npos ? "" : op.substr(second + 1)};
}

}  // namespace

std::optional<c10::OperatorHandle> FindAten(absl::string_view name) {
  return c10::Dispatcher::singleton().findSchema(AtenName(name));
}

std::optional<c10::OperatorHandle> FindInPlaceForm(
    const c10::OperatorHandle& op) {
  c10::OperatorName name = op.operator_name();
  name.name += "_";
  std::optional<c10::OperatorHandle> form =
      c10::Dispatcher::singleton().findSchema(name);
  if (!form.has_value()) return std::nullopt;
  const auto& own = op.schema();
  const auto& other = form->schema();
  const auto is_same = [](const c10::Argument& a, const c10::Argument& b) {
    return a.name() == b.name() && *a.type() == *b.type();
  };
  const auto writes = [](const c10::Argument& argument) {
    return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
  };
  // A view's form in place changes what the tensor is, not what it holds.
  const auto is_fresh = [](const c10::Argument& argument) {
    return argument.alias_info() == nullptr;
  };
  const bool fits =
      own.returns().size() == 1 && other.returns().size() == 1 &&
      !own.arguments().empty() && !own.is_mutable() &&
      own.arguments()[0].type()->kind() == c10::TypeKind::TensorType &&
      absl::c_all_of(own.returns(), is_fresh) &&
      absl::c_equal(own.arguments(), other.arguments(), is_same) &&
      absl::c_count_if(other.arguments(), writes) == 1 &&
      writes(other.arguments()[0]);
  return fits ? form : std::nullopt;
}

std::string WhyNotAtens(const OpDef& def, const c10::FunctionSchema& schema) {
  if (def.has_effect() || def.is_view() || def.is_bounded()) {
    return "it does more than to compute";
  }
  if (IsUninitialised(def)) return "it computes nothing";
  for (const c10::Argument& result : schema.returns()) {
    if (result.type()->kind() != c10::TypeKind::TensorType) {
      return "torch's gives something else than tensors";
    }
  }
  const auto has_name = [](const Param& param, const c10::Argument& aten) {
    return param.name == aten.name();
  };
  if (!absl::c_equal(def.schema().params, schema.arguments(), has_name)) {
    return "torch's has other parameters";
  }
  if (def.num_results() != static_cast<int>(schema.returns().size())) {
    return "torch's has other results";
  }
  return "";
}

}  // namespace mica
