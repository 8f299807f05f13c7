// The negative log likelihood of classes, [n, c] and [n] targets.

#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/simd_table.h"

namespace mica::cpu {
namespace {

struct NllState {
  int64_t rows = 0, classes = 0;
  int64_t row_stride = 0, class_stride = 0, target_stride = 0;
  int64_t ignored = 0, reduction = 0;
  int self_arg = -1, target_arg = -1, weight_arg = -1, out_arg = -1;
  int total_arg = -1;  // Of a backward.
  std::string op;

  // The class of row i; -1 where it counts nothing. False if it is none.
  bool Choose(const int64_t* target, int64_t i, LaunchContext& context,
              int64_t& chosen) const {
    chosen = target[i * target_stride];
    if (chosen == ignored) {
      chosen = -1;
      return true;
    }
    if (chosen >= 0 && chosen < classes) return true;
    return context.Fail(absl::InvalidArgumentError(
        absl::StrCat(op, ": Target ", chosen, " is out of bounds.")));
  }
};

// `self` is the parameter of [n, c]; the gradient of a backward is before it.
bool SetState(const KernelRequest& request, int self, NllState& s) {
  const int self_arg = request.OperandIndex(self);
  const int target_arg = request.OperandIndex(self + 1);
  const TensorType& type = request.operands[self_arg].type;
  const TensorType& target = request.operands[target_arg].type;
  if (type.rank() != 2) return false;
  s.rows = type.dims[0];
  s.classes = type.dims[1];
  s.row_stride = type.EffectiveStrides()[0];
  s.class_stride = type.EffectiveStrides()[1];
  s.target_stride = target.EffectiveStrides()[0];
  s.reduction = request.Int(self + 3);
  s.ignored = request.Int(self + 4);
  s.self_arg = self_arg;
  s.target_arg = target_arg;
  s.weight_arg = request.OperandIndex(self + 2);
  s.out_arg = static_cast<int>(request.operands.size());
  s.op = request.def->name();
  return s.weight_arg < 0 || request.operands[s.weight_arg].type.is_row_major();
}

bool LaunchForward(const void* state, void* const* args,
                   LaunchContext& context) {
  const auto& s = *static_cast<const NllState*>(state);
  const auto* self = static_cast<const float*>(args[s.self_arg]);
  const auto* target = static_cast<const int64_t*>(args[s.target_arg]);
  const auto* weight = static_cast<const float*>(
      s.weight_arg < 0 ? nullptr : args[s.weight_arg]);
  auto* out = static_cast<float*>(args[s.out_arg]);
  auto* total = static_cast<float*>(args[s.out_arg + 1]);
  double loss = 0, weights = 0;
  for (int64_t i = 0; i < s.rows; ++i) {
    int64_t chosen = 0;
    if (!s.Choose(target, i, context, chosen)) return false;
    float term = 0;
    if (chosen >= 0) {
      const float w = weight != nullptr ? weight[chosen] : 1.0f;
      term = -w * self[i * s.row_stride + chosen * s.class_stride];
      weights += w;
    }
    loss += term;
    if (s.reduction == 0 && out != nullptr) out[i] = term;
  }
  if (s.reduction == 1) loss /= weights;
  if (s.reduction != 0 && out != nullptr) *out = static_cast<float>(loss);
  if (total != nullptr) {
    *total = s.reduction == 0 ? 0.0f : static_cast<float>(weights);
  }
  return true;
}

Verdict PrepareForward(const KernelRequest& request) {
  auto state = std::make_shared<NllState>();
  if (!SetState(request, 0, *state)) return No{"not [n, c]"};
  if (!request.results[0].type.is_row_major()) return No{"not row-major"};
  Prepared prepared;
  prepared.launch = LaunchForward;
  prepared.state = std::move(state);
  return prepared;
}

bool LaunchBackward(const void* state, void* const* args,
                    LaunchContext& context) {
  const auto& s = *static_cast<const NllState*>(state);
  const auto* grad = static_cast<const float*>(args[0]);
  const auto* target = static_cast<const int64_t*>(args[s.target_arg]);
  const auto* weight = static_cast<const float*>(
      s.weight_arg < 0 ? nullptr : args[s.weight_arg]);
  auto* out = static_cast<float*>(args[s.out_arg]);
  std::memset(out, 0, s.rows * s.classes * sizeof(float));
  float share = -1;
  if (s.reduction != 0) share = -*grad;
  if (s.reduction == 1) share /= *static_cast<const float*>(args[s.total_arg]);
  for (int64_t i = 0; i < s.rows; ++i) {
    int64_t chosen = 0;
    if (!s.Choose(target, i, context, chosen)) return false;
    if (chosen < 0) continue;
    const float g = s.reduction == 0 ? -grad[i] : share;
    out[i * s.classes + chosen] = weight != nullptr ? g * weight[chosen] : g;
  }
  return true;
}

Verdict PrepareBackward(const KernelRequest& request) {
  auto state = std::make_shared<NllState>();
  if (!SetState(request, 1, *state)) return No{"not [n, c]"};
  if (!request.results[0].type.is_row_major() ||
      !request.operands[0].type.is_row_major()) {
    return No{"not row-major"};
  }
  state->total_arg = request.OperandIndex(6);
  Prepared prepared;
  prepared.launch = LaunchBackward;
  prepared.state = std::move(state);
  return prepared;
}

}  // namespace

void RegisterLoss(KernelRegistry& registry) {
  registry.Add({.op = "aten.nll_loss_forward", .dtype = DType::kF32},
               KernelRank::kFast, {"cpu.nll_loss", PrepareForward});
  registry.Add({.op = "aten.nll_loss_backward", .dtype = DType::kF32},
               KernelRank::kFast, {"cpu.nll_loss_backward", PrepareBackward});
}

}  // namespace mica::cpu
