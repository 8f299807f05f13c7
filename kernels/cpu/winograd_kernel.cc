// Convolution by Winograd's method, where the fewer multiplications outweigh
// the larger weight.

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/activation_name.h"
#include "kernels/cpu/convolution_call.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/winograd.h"

namespace mica::cpu {
namespace {

using Param = ConvolutionParam;

struct State {
  WinogradConvolution convolution;  // Of one group.
  int64_t groups = 1;
  int64_t columns = 0;  // Of a group.
  // From a group's first element to the next one's.
  int64_t x_step = 0, weight_step = 0, out_step = 0;
  int bias_arg = -1, residual_arg = -1, out_arg = -1;

  int64_t packed_step() const {
    return convolution.packed_bytes() / static_cast<int64_t>(sizeof(float));
  }
};

bool Launch(const void* state, void* const* args, LaunchContext&) {
  const auto& s = *static_cast<const State*>(state);
  const auto pointer = [args](int arg) {
    return arg < 0 ? nullptr : static_cast<float*>(args[arg]);
  };
  WinogradConvolution::Operands operands = {.x = pointer(Param::kX),
                                            .weight = pointer(Param::kWeight),
                                            .bias = pointer(s.bias_arg),
                                            .residual = pointer(s.residual_arg),
                                            .out = pointer(s.out_arg)};
  for (int64_t g = 0; g < s.groups; ++g) {
    s.convolution.Run(operands, pointer(s.out_arg + 1));
    operands.x += s.x_step;
    operands.weight += s.weight_step;
    if (operands.bias != nullptr) operands.bias += s.columns;
    operands.out += s.out_step;
  }
  return true;
}

std::optional<std::string> SetState(const KernelRequest& request, State& s) {
  const Operand& weight = request.operands[Param::kWeight];
  const TensorType& x = request.operands[Param::kX].type;
  if (request.Bool(Param::kTransposed)) return "is transposed";
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
  if (form.out.elements() == 0 || weight.type.rank() != 4) return "is empty";
  // A group is some channels of each image, and as many columns.
  s.groups = request.Int(Param::kGroups);
  s.columns = form.out.c / s.groups;
  // Narrow ones have loops of their own, or tiles that points wouldn't fill.
  if (s.groups > 1 && std::min(form.x.c / s.groups, s.columns) < 16) {
    return "has narrow groups";
  }
  form.x.c /= s.groups;
  form.out.c = s.columns;
  form.weight.dims[0] = s.columns;
  form.weight.strides = weight.type.strides;
  s.x_step = form.x.c * form.x.c_stride;
  s.out_step = s.columns * form.out.c_stride;
  s.weight_step = s.columns * weight.type.EffectiveStrides()[0];
  s.out_arg = static_cast<int>(request.operands.size());
  s.bias_arg = request.OperandIndex(Param::kBias);
  if (s.bias_arg >= 0 && !request.operands[s.bias_arg].type.is_row_major()) {
    return "the bias has gaps";
  }
  if (request.arguments->size() > Param::kActivation) {
    s.residual_arg = request.OperandIndex(Param::kResidual);
    if (s.residual_arg >= 0) {
      if (s.groups > 1) return "adds to groups";
      form.residual = ImageOf(request.operands[s.residual_arg].type);
    }
    const auto activation = ActivationNamed(request.String(Param::kActivation));
    if (!activation.has_value()) return "an unknown activation";
    form.activation = *activation;
  }
  if (auto no = s.convolution.Set(form)) return no;
  if (form.is_packed) s.weight_step = s.packed_step();
  return std::nullopt;
}

// Packs each group's weight; `step` is from one to the next.
void PackGroups(const State& s, int64_t step, const float* weight,
                float* packed) {
  for (int64_t g = 0; g < s.groups; ++g) {
    s.convolution.Pack(weight + g * step, packed + g * s.packed_step());
  }
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
  if (const Operand& weight = request.operands[Param::kWeight];
      weight.is_frozen) {
    const int64_t step = s.columns * weight.type.EffectiveStrides()[0];
    prepared.packs.push_back(
        {.operand = Param::kWeight,
         .bytes = s.convolution.packed_bytes() * s.groups,
         .layout =
             absl::StrCat(s.convolution.packed_layout(), " in ", s.groups),
         .pack = [state, step](const void* from, void* to) {
           PackGroups(*state, step, static_cast<const float*>(from),
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
