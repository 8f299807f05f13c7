// Batch norm out of training: folding it into a convolution, and what it scales
// channels by.

#include <cmath>
#include <memory>

#include "kernels/cpu/families.h"

namespace mica::cpu {
namespace {

// Where the norm's numbers are among a launch's arguments; -1 if absent.
struct NormArgs {
  int gamma = -1, beta = -1, mean = -1, variance = -1;
  double eps = 0;

  static double At(void* const* args, int arg, int64_t i, double otherwise) {
    return arg < 0 ? otherwise : static_cast<const float*>(args[arg])[i];
  }
  double Scale(void* const* args, int64_t i) const {
    return At(args, gamma, i, 1) / std::sqrt(At(args, variance, i, 0) + eps);
  }
  // Of x + bias.
  double Shift(void* const* args, int64_t i, double bias) const {
    return (bias - At(args, mean, i, 0)) * Scale(args, i) +
           At(args, beta, i, 0);
  }
};

// gamma, beta, mean, variance and eps are the parameters from `first` on.
NormArgs NormOf(const KernelRequest& request, int first) {
  return {.gamma = request.OperandIndex(first),
          .beta = request.OperandIndex(first + 1),
          .mean = request.OperandIndex(first + 2),
          .variance = request.OperandIndex(first + 3),
          .eps = request.Number(first + 4)};
}

bool AreRowMajor(const KernelRequest& request) {
  for (const Operand& operand : request.operands) {
    if (!operand.type.is_row_major()) return false;
  }
  for (const Operand& result : request.results) {
    if (!result.type.is_row_major()) return false;
  }
  return true;
}

struct FoldState {
  NormArgs norm;
  int bias = -1, out = 0;
  int64_t channels = 0, each = 0;  // Weights of a channel.
};

bool LaunchFold(const void* state, void* const* args, LaunchContext&) {
  const auto& s = *static_cast<const FoldState*>(state);
  const auto* weight = static_cast<const float*>(args[0]);
  auto* out = static_cast<float*>(args[s.out]);
  auto* out_bias = static_cast<float*>(args[s.out + 1]);
  for (int64_t c = 0; c < s.channels; ++c) {
    if (out != nullptr) {
      const auto scale = static_cast<float>(s.norm.Scale(args, c));
      const float* from = weight + c * s.each;
      float* to = out + c * s.each;
      for (int64_t i = 0; i < s.each; ++i) to[i] = from[i] * scale;
    }
    if (out_bias != nullptr) {
      out_bias[c] = static_cast<float>(
          s.norm.Shift(args, c, NormArgs::At(args, s.bias, c, 0)));
    }
  }
  return true;
}

Verdict PrepareFold(const KernelRequest& request) {
  if (!AreRowMajor(request)) return No{"operands aren't row-major"};
  const TensorType& weight = request.operands[0].type;
  if (weight.num_elements() == 0) return No{"is empty"};
  Prepared prepared;
  prepared.launch = LaunchFold;
  prepared.state = std::make_shared<const FoldState>(
      FoldState{.norm = NormOf(request, 2),
                .bias = request.OperandIndex(1),
                .out = static_cast<int>(request.operands.size()),
                .channels = weight.dims[0],
                .each = weight.num_elements() / weight.dims[0]});
  return prepared;
}

bool LaunchScale(const void* state, void* const* args, LaunchContext&) {
  const auto& s = *static_cast<const FoldState*>(state);
  auto* scale = static_cast<float*>(args[s.out]);
  auto* shift = static_cast<float*>(args[s.out + 1]);
  for (int64_t c = 0; c < s.channels; ++c) {
    if (scale != nullptr) {
      scale[c] = static_cast<float>(s.norm.Scale(args, c));
    }
    if (shift != nullptr) {
      shift[c] = static_cast<float>(s.norm.Shift(args, c, 0));
    }
  }
  return true;
}

Verdict PrepareScale(const KernelRequest& request) {
  if (!AreRowMajor(request)) return No{"operands aren't row-major"};
  Prepared prepared;
  prepared.launch = LaunchScale;
  prepared.state = std::make_shared<const FoldState>(
      FoldState{.norm = NormOf(request, 0),
                .out = static_cast<int>(request.operands.size()),
                .channels = request.results[0].type.dims[0]});
  return prepared;
}

}  // namespace

void RegisterBatchNorm(KernelRegistry& registry) {
  constexpr DType kFloat[] = {DType::kF32};
  registry.Add("mica.fold_batch_norm", kFloat, KernelRank::kFast,
               {"cpu.fold_batch_norm", PrepareFold});
  registry.Add("mica.batch_norm_scale", kFloat, KernelRank::kFast,
               {"cpu.batch_norm_scale", PrepareScale});
}

}  // namespace mica::cpu
