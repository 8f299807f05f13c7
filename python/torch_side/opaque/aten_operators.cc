#include "python/torch_side/opaque/aten_operators.h"

#include <ATen/core/jit_type.h>

#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
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

// Of Mica's operators those that torch 2.13 calls structured: what gives new
// tensors and what writes to given ones is one function there, which takes
// those of any layout. Of others some write wrong numbers:
// aten::reflection_pad2d.out where the operand has its channels last,
// aten::native_batch_norm.out without a weight, aten::binary_cross_entropy.out
// of nothing.
constexpr absl::string_view kStructured[] = {
    "aten._log_softmax",
    "aten._log_softmax_backward_data",
    "aten._softmax",
    "aten._softmax_backward_data",
    "aten.adaptive_max_pool2d",
    "aten.adaptive_max_pool2d_backward",
    "aten.add.Tensor",
    "aten.addcdiv",
    "aten.addcmul",
    "aten.addmm",
    "aten.addmv",
    "aten.amax",
    "aten.amin",
    "aten.aminmax",
    "aten.argmax",
    "aten.argmin",
    "aten.atan2",
    "aten.avg_pool2d",
    "aten.avg_pool2d_backward",
    "aten.baddbmm",
    "aten.bmm",
    "aten.cat",
    "aten.clamp",
    "aten.clamp.Tensor",
    "aten.clamp_max",
    "aten.clamp_max.Tensor",
    "aten.clamp_min",
    "aten.clamp_min.Tensor",
    "aten.copysign.Tensor",
    "aten.cumprod",
    "aten.cumsum",
    "aten.div.Tensor",
    "aten.div.Tensor_mode",
    "aten.elu",
    "aten.elu_backward",
    "aten.fmax",
    "aten.fmin",
    "aten.fmod.Tensor",
    "aten.gather",
    "aten.gelu",
    "aten.gelu_backward",
    "aten.glu",
    "aten.hardshrink",
    "aten.hardshrink_backward",
    "aten.hardsigmoid",
    "aten.hardsigmoid_backward",
    "aten.hypot",
    "aten.index_add",
    "aten.index_copy",
    "aten.leaky_relu",
    "aten.leaky_relu_backward",
    "aten.lerp.Scalar",
    "aten.lerp.Tensor",
    "aten.linalg_vector_norm",
    "aten.logaddexp",
    "aten.max.dim",
    "aten.max_pool2d_with_indices",
    "aten.max_pool2d_with_indices_backward",
    "aten.maximum",
    "aten.mean.dim",
    "aten.min.dim",
    "aten.minimum",
    "aten.mish",
    "aten.mm",
    "aten.mul.Tensor",
    "aten.nll_loss_backward",
    "aten.nll_loss_forward",
    "aten.norm.ScalarOpt_dim",
    "aten.pow.Scalar",
    "aten.pow.Tensor_Scalar",
    "aten.pow.Tensor_Tensor",
    "aten.prod.dim_int",
    "aten.remainder.Tensor",
    "aten.round.decimals",
    "aten.scatter.src",
    "aten.scatter.value",
    "aten.scatter_add",
    "aten.scatter_reduce.two",
    "aten.sigmoid_backward",
    "aten.silu",
    "aten.silu_backward",
    "aten.softplus",
    "aten.softplus_backward",
    "aten.softshrink",
    "aten.softshrink_backward",
    "aten.sort.stable",
    "aten.sub.Tensor",
    "aten.sum.dim_IntList",
    "aten.tanh_backward",
    "aten.threshold",
    "aten.threshold_backward",
    "aten.topk",
    "aten.tril",
    "aten.triu",
    "aten.upsample_bilinear2d",
    "aten.upsample_bilinear2d_backward",
    "aten.xlogy.Tensor",
};

using Overloads = absl::flat_hash_map<std::string, std::vector<std::string>>;

// By an operator's name.
const Overloads& AllOverloads() {
  static const Overloads& overloads = *[] {
    auto* found = new Overloads;
    for (const c10::OperatorName& name :
         c10::Dispatcher::singleton().getAllOpNames()) {
      (*found)[name.name].push_back(name.overload_name);
    }
    return found;
  }();
  return overloads;
}

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

std::string WhyNotAtens(const OpDef& def) {
  if (def.has_effect() || def.is_view() || def.is_bounded()) {
    return "it does more than to compute";
  }
  // aten.empty.memory_format, aten.new_empty, aten.empty_like and so on.
  if (absl::StrContains(def.name(), "empty")) return "it computes nothing";
  const auto op = FindAten(def.name());
  if (!op.has_value()) return "torch has no such operator";
  for (const c10::Argument& result : op->schema().returns()) {
    if (result.type()->kind() != c10::TypeKind::TensorType) {
      return "torch's gives something else than tensors";
    }
  }
  const std::vector<Param>& params = def.schema().params;
  const std::vector<c10::Argument>& aten = op->schema().arguments();
  if (params.size() != aten.size()) return "torch's has other parameters";
  for (size_t i = 0; i < params.size(); ++i) {
    if (params[i].name != aten[i].name()) return "torch's has other parameters";
  }
  if (def.num_results() != static_cast<int>(op->schema().returns().size())) {
    return "torch's has other results";
  }
  return "";
}

std::optional<c10::OperatorHandle> FindOutVariant(
    absl::string_view name, const c10::OperatorHandle& op) {
  if (!absl::c_binary_search(kStructured, name)) return std::nullopt;
  const auto it = AllOverloads().find(op.operator_name().name);
  if (it == AllOverloads().end()) return std::nullopt;
  for (const std::string& overload : it->second) {
    const auto out =
        c10::Dispatcher::singleton().findSchema({it->first, overload});
    if (out.has_value() && IsOutVariantOf(op.schema(), out->schema()) &&
        out->hasComputedKernelForDispatchKey(c10::DispatchKey::CPU)) {
      return out;
    }
  }
  return std::nullopt;
}

}  // namespace mica
