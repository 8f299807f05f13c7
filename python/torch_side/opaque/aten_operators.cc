#include "python/torch_side/opaque/aten_operators.h"

#include <ATen/core/jit_type.h>

#include <algorithm>
#include <iterator>

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

// Of Mica's operators those that torch 2.13 calls structured, with the overload
// that writes to given tensors: that and what gives new ones is one function
// there, which takes tensors of any layout. Of others some write wrong numbers:
// aten::reflection_pad2d.out where the operand has its channels last,
// aten::native_batch_norm.out without a weight, aten::binary_cross_entropy.out
// of nothing.
struct Structured {
  absl::string_view name;
  const char* out;
};
constexpr Structured kStructured[] = {
    {"aten._log_softmax", "out"},
    {"aten._log_softmax_backward_data", "out"},
    {"aten._softmax", "out"},
    {"aten._softmax_backward_data", "out"},
    {"aten.adaptive_max_pool2d", "out"},
    {"aten.adaptive_max_pool2d_backward", "grad_input"},
    {"aten.add.Tensor", "out"},
    {"aten.addcdiv", "out"},
    {"aten.addcmul", "out"},
    {"aten.addmm", "out"},
    {"aten.addmv", "out"},
    {"aten.amax", "out"},
    {"aten.amin", "out"},
    {"aten.aminmax", "out"},
    {"aten.argmax", "out"},
    {"aten.argmin", "out"},
    {"aten.atan2", "out"},
    {"aten.avg_pool2d", "out"},
    {"aten.avg_pool2d_backward", "grad_input"},
    {"aten.baddbmm", "out"},
    {"aten.bmm", "out"},
    {"aten.cat", "out"},
    {"aten.clamp", "out"},
    {"aten.clamp.Tensor", "Tensor_out"},
    {"aten.clamp_max", "out"},
    {"aten.clamp_max.Tensor", "Tensor_out"},
    {"aten.clamp_min", "out"},
    {"aten.clamp_min.Tensor", "Tensor_out"},
    {"aten.copysign.Tensor", "out"},
    {"aten.cumprod", "out"},
    {"aten.cumsum", "out"},
    {"aten.div.Tensor", "out"},
    {"aten.div.Tensor_mode", "out_mode"},
    {"aten.elu", "out"},
    {"aten.elu_backward", "grad_input"},
    {"aten.fmax", "out"},
    {"aten.fmin", "out"},
    {"aten.fmod.Tensor", "Tensor_out"},
    {"aten.gather", "out"},
    {"aten.gelu", "out"},
    {"aten.gelu_backward", "grad_input"},
    {"aten.glu", "out"},
    {"aten.hardshrink", "out"},
    {"aten.hardshrink_backward", "grad_input"},
    {"aten.hardsigmoid", "out"},
    {"aten.hardsigmoid_backward", "grad_input"},
    {"aten.hypot", "out"},
    {"aten.index_add", "out"},
    {"aten.index_copy", "out"},
    {"aten.leaky_relu", "out"},
    {"aten.leaky_relu_backward", "grad_input"},
    {"aten.lerp.Scalar", "Scalar_out"},
    {"aten.lerp.Tensor", "Tensor_out"},
    {"aten.linalg_vector_norm", "out"},
    {"aten.logaddexp", "out"},
    {"aten.max.dim", "dim_max"},
    {"aten.max_pool2d_with_indices", "out"},
    {"aten.max_pool2d_with_indices_backward", "grad_input"},
    {"aten.maximum", "out"},
    {"aten.mean.dim", "out"},
    {"aten.min.dim", "dim_min"},
    {"aten.minimum", "out"},
    {"aten.mish", "out"},
    {"aten.mm", "out"},
    {"aten.mul.Tensor", "out"},
    {"aten.nll_loss_backward", "grad_input"},
    {"aten.nll_loss_forward", "output"},
    {"aten.norm.ScalarOpt_dim", "out"},
    {"aten.pow.Scalar", "Scalar_out"},
    {"aten.pow.Tensor_Scalar", "Tensor_Scalar_out"},
    {"aten.pow.Tensor_Tensor", "Tensor_Tensor_out"},
    {"aten.prod.dim_int", "int_out"},
    {"aten.remainder.Tensor", "Tensor_out"},
    {"aten.round.decimals", "decimals_out"},
    {"aten.scatter.src", "src_out"},
    {"aten.scatter.value", "value_out"},
    {"aten.scatter_add", "out"},
    {"aten.scatter_reduce.two", "two_out"},
    {"aten.sigmoid_backward", "grad_input"},
    {"aten.silu", "out"},
    {"aten.silu_backward", "grad_input"},
    {"aten.softplus", "out"},
    {"aten.softplus_backward", "grad_input"},
    {"aten.softshrink", "out"},
    {"aten.softshrink_backward", "grad_input"},
    {"aten.sort.stable", "values_stable"},
    {"aten.sub.Tensor", "out"},
    {"aten.sum.dim_IntList", "IntList_out"},
    {"aten.tanh_backward", "grad_input"},
    {"aten.threshold", "out"},
    {"aten.threshold_backward", "grad_input"},
    {"aten.topk", "values"},
    {"aten.tril", "out"},
    {"aten.triu", "out"},
    {"aten.upsample_bilinear2d", "out"},
    {"aten.upsample_bilinear2d_backward", "grad_input"},
    {"aten.xlogy.Tensor", "OutTensor"},
};

bool IsOutVariantOf(const c10::FunctionSchema& op,
                    const c10::FunctionSchema& out) {
  const size_t num_params = op.arguments().size();
  const size_t num_results = op.returns().size();
  if (out.arguments().size() != num_params + num_results) return false;
  for (size_t i = 0; i < num_params; ++i) {
    const c10::Argument& one = op.arguments()[i];
    const c10::Argument& other = out.arguments()[i];
    if (one.name() != other.name() || *one.type() != *other.type() ||
        other.is_out()) {
      return false;
    }
  }
  for (size_t i = 0; i < num_results; ++i) {
    const c10::Argument& target = out.arguments()[num_params + i];
    if (!target.is_out() ||
        target.type()->kind() != c10::TypeKind::TensorType) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::optional<c10::OperatorHandle> FindAten(absl::string_view name) {
  return c10::Dispatcher::singleton().findSchema(AtenName(name));
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

std::optional<c10::OperatorHandle> FindOutVariant(
    absl::string_view name, const c10::OperatorHandle& op) {
  const auto* entry =
      std::lower_bound(std::begin(kStructured), std::end(kStructured), name,
                       [](const Structured& one, absl::string_view wanted) {
                         return one.name < wanted;
                       });
  if (entry == std::end(kStructured) || entry->name != name) {
    return std::nullopt;
  }
  const auto out = c10::Dispatcher::singleton().findSchema(
      {op.operator_name().name, entry->out});
  if (!out.has_value() || !IsOutVariantOf(op.schema(), out->schema()) ||
      !out->hasComputedKernelForDispatchKey(c10::DispatchKey::CPU)) {
    return std::nullopt;
  }
  return out;
}

}  // namespace mica
