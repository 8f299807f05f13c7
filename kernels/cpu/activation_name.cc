#include "kernels/cpu/activation_name.h"

namespace mica::cpu {

std::optional<Activation> ActivationNamed(absl::string_view name) {
  if (name == "none") return Activation::kNone;
  if (name == "relu") return Activation::kRelu;
  if (name == "relu6") return Activation::kRelu6;
  if (name == "hardswish") return Activation::kHardswish;
  if (name == "gelu") return Activation::kGeluErf;
  if (name == "gelu_tanh") return Activation::kGeluTanh;
  if (name == "tanh") return Activation::kTanh;
  if (name == "sigmoid") return Activation::kSigmoid;
  if (name == "silu") return Activation::kSilu;
  return std::nullopt;
}

}  // namespace mica::cpu
