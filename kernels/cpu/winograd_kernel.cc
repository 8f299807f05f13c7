// Convolution by Winograd's method, where the fewer multiplications outweigh
// the larger weight.

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "kernels/cpu/activation_name.h"
#include "kernels/cpu/convolution_call.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/winograd.h"

namespace mica::cpu {
namespace {

using Param = ConvolutionParam;

struct State {
  WinogradConvolution convolution;
  int bias_arg = -1, residual_arg = -1, out_arg = -1;
};

bool Launch(const void* state, void* const* args, LaunchContext&) {
  const auto& s = *static_cast<const State*>(state);
  const auto pointer = [args](int arg) {
    return arg < 0 ? nullptr : static_cast<float*>(args[arg]);
  };
  s.convolution.Run({.x = pointer(Param::kX),
                     .weight = pointer(Param::kWeight),
                     .bias = pointer(s.bias_arg),
                     .residual = pointer(s.residual_arg),
                     .out = pointer(s.out_arg)},
                    pointer(s.out_arg + 1));
  return true;
}

std::optional<std::string> SetState(const KernelRequest& request, State& s) {
  const Operand& weight = request.operands[Param::kWeight];
  const TensorType& x = request.operands[Param::kX].type;
  if (request.Bool(Param::kTransposed)) return "is transposed";
  if (request.Int(Param::kGroups) != 1) return "has groups";
  if (x.rank() != 4) return "has no two axes";
  if (!IsAll(request.Ints(Param::kStride), 1)) return "steps over pixels";
  if (!IsAll(request.Ints(Param::kDilation), 1)) return "is dilated";
  WinogradConvolution::Form form = {
      .x = ImageOf(x),
      .out = ImageOf(request.results[0].type),
      .weight = weight.type,
      .row_padding = Entry(request.Ints(Param::kPadding), 0),
      .col_padding = Entry(request.Ints(Param::kPadding), 1),
      .is_packed = weight.is_frozen,
      .num_threads = request.num_threads};
  s.out_arg = static_cast<int>(request.operands.size());
  s.bias_arg = request.OperandIndex(Param::kBias);
  if (s.bias_arg >= 0 && !request.operands[s.bias_arg].type.is_row_major()) {
    return "the bias has gaps";
  }
  if (request.arguments->size() > Param::kActivation) {
    s.residual_arg = request.OperandIndex(Param::kResidual);
    if (s.residual_arg >= 0) {
      form.residual = ImageOf(request.operands[s.residual_arg].type);
    }
    const auto activation = ActivationNamed(request.String(Param::kActivation));
    if (!activation.has_value()) return "an unknown activation";
    form.activation = *activation;
  }
  return s.convolution.Set(form);
}

Verdict PrepareWinograd(const KernelRequest& request) {
  auto state = std::make_shared<State>();
  State& s = *state;
  if (auto no = SetState(request, s)) return No{*no};
  Prepared prepared;
  prepared.launch = Launch;
  prepared.scratch_bytes = s.convolution.scratch_bytes();
  // A patch's residual is read before its result is written.
  if (s.residual_arg >= 0 && !s.convolution.stages_out()) {
    prepared.inplace_operands = 1u << s.residual_arg;
  }
  if (request.operands[Param::kWeight].is_frozen) {
    prepared.packs.push_back({.operand = Param::kWeight,
                              .bytes = s.convolution.packed_bytes(),
                              .layout = s.convolution.packed_layout(),
                              .pack = [state](const void* from, void* to) {
                                state->convolution.Pack(
                                    static_cast<const float*>(from),
                                    static_cast<float*>(to));
                                return absl::OkStatus();
                              }});
  }
  prepared.state = std::move(state);
  return prepared;
}

}  // namespace

void RegisterWinograd(KernelRegistry& registry) {
  for (absl::string_view op : {"aten.convolution", "mica.convolution"}) {
    registry.Add({.op = std::string(op), .dtype = DType::kF32},
                 KernelRank::kFast, {"cpu.winograd", PrepareWinograd});
  }
}

}  // namespace mica::cpu
