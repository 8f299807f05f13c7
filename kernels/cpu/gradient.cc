// Gradients of activations, element by element.

#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/pointwise.h"
#include "kernels/cpu/simd_table.h"

namespace mica::cpu {
namespace {

// The loop finds its function here: PointwiseLoop has no room for it.
template <Gradient kGradient>
void GradientRow(const PointwiseLoop& loop, const void* const* in, void* out,
                 int64_t n) {
  float low, high;
  std::memcpy(&low, loop.low.bytes, sizeof(low));
  std::memcpy(&high, loop.high.bytes, sizeof(high));
  Simd().training.gradient[static_cast<int>(kGradient)](
      static_cast<const float*>(in[0]), static_cast<const float*>(in[1]),
      static_cast<float*>(out), n, low, high);
}

// The number given for `param`, 0 without one; nothing for a value.
std::optional<float> Number(const KernelRequest& request, int param) {
  if (param < 0) return 0.0f;
  if (request.OperandIndex(param) >= 0) return std::nullopt;
  return static_cast<float>(request.Number(param));
}

// The constants are parameters `low` and `high`; -1 for none.
template <Gradient kGradient>
void Add(KernelRegistry& registry, absl::string_view name, int low = -1,
         int high = -1) {
  auto prepare = [=](const KernelRequest& request) -> Verdict {
    const auto grad = SourceOf(request, 0), x = SourceOf(request, 1);
    const auto lo = Number(request, low), hi = Number(request, high);
    if (request.results[0].type.dtype != DType::kF32 || grad->type == nullptr ||
        x->type == nullptr) {
      return No{"not float32"};
    }
    if (!lo.has_value() || !hi.has_value()) return No{"a limit varies"};
    auto loop = std::make_shared<PointwiseLoop>();
    loop->row = GradientRow<kGradient>;
    loop->low = MakeConstant(Elem::kF32, static_cast<double>(*lo));
    loop->high = MakeConstant(Elem::kF32, static_cast<double>(*hi));
    const Source sources[] = {*grad, *x};
    constexpr bool kKeeps[] = {false, false};
    if (auto why = LayOut(request, sources, Elem::kF32, kKeeps, *loop)) {
      return No{*why};
    }
    for (int i = 0; i < 2; ++i) {
      PointwiseLoop::Input& input = loop->inputs[i];
      if (!input.is_single) continue;
      input.is_single = false;  // The loop wants two arrays.
      if (loop->inner > 1) input.is_gathered = true;
    }
    return Finish(request, sources, std::move(loop));
  };
  registry.Add(
      {.op = absl::StrCat("aten.", name, "_backward"), .dtype = DType::kF32},
      KernelRank::kFast,
      {absl::StrCat("cpu.", name, "_backward"), std::move(prepare)});
}

}  // namespace

void RegisterGradients(KernelRegistry& registry) {
  Add<Gradient::kThreshold>(registry, "threshold", 2);
  Add<Gradient::kHardtanh>(registry, "hardtanh", 2, 3);
  Add<Gradient::kLeakyRelu>(registry, "leaky_relu", 2);
  Add<Gradient::kHardswish>(registry, "hardswish");
  Add<Gradient::kHardsigmoid>(registry, "hardsigmoid");
  Add<Gradient::kSilu>(registry, "silu");
  Add<Gradient::kSigmoid>(registry, "sigmoid");
  Add<Gradient::kTanh>(registry, "tanh");
}

}  // namespace mica::cpu
