// Gradients of convolution, and what our own tiles leave: transposed ones and
// volumes. By oneDNN, in the layouts that it likes, but for the gradients of
// weights that weight_gradient.h takes, and those of x that winograd.h does.

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "framework/base/status.h"
#include "framework/tensor/tensor.h"
#include "kernels/cpu/convolution_call.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/onednn_chain.h"
#include "kernels/cpu/onednn_convolution.h"
#include "kernels/cpu/simd_table.h"
#include "kernels/cpu/weight_gradient.h"
#include "kernels/cpu/winograd.h"

namespace mica::cpu {
namespace {

using BufferId = OneDnnChain::BufferId;
using Param = ConvolutionBackwardParam;

// What Jobs share: a chain, and what is left to do after it.
struct State {
  OneDnnChain chain;
  bool has_chain = true;
  int scratch_arg = -1;
  // Of a forward: adds bias[c], an argument, to [n, c, ...], row-major.
  int added_bias_arg = -1;
  int out_arg = -1;
  int64_t images = 0, channels = 0, pixels = 0;
  // Of a backward: the gradient of the weight by our own tiles, which the chain
  // then lacks, and that of the bias by itself, sums of grad.
  std::optional<WeightGradient> weight;
  // That of x by Winograd's method, which the chain then lacks, too.
  std::optional<WinogradConvolution> data;
  int64_t own_scratch = 0;  // Of those two, one after the other.
  bool sums_bias = false;
  TensorType grad;
  int grad_bias_arg = -1;
};

struct Instance : KernelInstance {
  const State* state = nullptr;
  std::unique_ptr<OneDnnChain::Instance> run;
  absl::Status status;  // Why there is no `run`.
};

void AddBias(const State& s, const float* bias, float* out) {
  for (int64_t i = 0; i < s.images; ++i) {
    for (int64_t c = 0; c < s.channels; ++c, out += s.pixels) {
      for (int64_t p = 0; p < s.pixels; ++p) out[p] += bias[c];
    }
  }
}

// Sums the gradient over all but its channels.
void SumBias(const State& s, const float* grad, float* bias) {
  const Dims strides = s.grad.EffectiveStrides();
  const Dims& dims = s.grad.dims;
  const int last = s.grad.rank() - 1;
  for (int64_t c = 0; c < dims[1]; ++c) {
    double sum = 0;
    Dims index(dims.size(), 0);
    int64_t offset = c * strides[1];
    int axis = last;
    while (axis >= 0) {
      for (int64_t i = 0; i < dims[last]; ++i) {
        sum += grad[offset + i * strides[last]];
      }
      for (axis = last - 1; axis >= 0; --axis) {
        if (axis == 1) continue;
        offset += strides[axis];
        if (++index[axis] < dims[axis]) break;
        offset -= dims[axis] * strides[axis];
        index[axis] = 0;
      }
    }
    bias[c] = static_cast<float>(sum);
  }
}

bool Launch(const void* instance, void* const* args, LaunchContext& context) {
  const auto& self = *static_cast<const Instance*>(instance);
  const State& s = *self.state;
  if (!self.status.ok()) return context.Fail(self.status);
  if (s.has_chain) {
    absl::Status status = self.run->Run(args);
    if (!status.ok()) return context.Fail(std::move(status));
  }
  if (s.weight.has_value() || s.data.has_value()) {
    const auto* grad = static_cast<const float*>(args[Param::kGrad]);
    auto* scratch = reinterpret_cast<float*>(
        static_cast<char*>(args[s.scratch_arg]) + s.own_scratch);
    const int result = s.grad_bias_arg - Param::kGradBias;
    if (s.data.has_value()) {
      s.data->Run(
          {.x = grad,
           .weight = static_cast<const float*>(args[Param::kWeight]),
           .out = static_cast<float*>(args[result + Param::kGradInput])},
          scratch);
    }
    if (s.weight.has_value()) {
      s.weight->Run(grad, static_cast<const float*>(args[Param::kInput]),
                    static_cast<float*>(args[result + Param::kGradWeight]),
                    scratch);
    }
  }
  if (s.added_bias_arg >= 0) {
    AddBias(s, static_cast<const float*>(args[s.added_bias_arg]),
            static_cast<float*>(args[s.out_arg]));
  }
  if (s.sums_bias) {
    SumBias(s, static_cast<const float*>(args[0]),
            static_cast<float*>(args[s.grad_bias_arg]));
  }
  return true;
}

Prepared Finish(const KernelRequest& request, std::shared_ptr<State> state) {
  Prepared prepared;
  prepared.scratch_bytes = state->chain.scratch_bytes();
  if (state->weight.has_value() || state->data.has_value()) {
    state->own_scratch = AlignUp(prepared.scratch_bytes);
    prepared.scratch_bytes =
        state->own_scratch +
        std::max(state->weight ? state->weight->scratch_bytes() : 0,
                 state->data ? state->data->scratch_bytes() : 0);
  }
  state->scratch_arg =
      static_cast<int>(request.operands.size() + request.results.size());
  prepared.launch = Launch;
  prepared.make_instance = [state = state.get()]() {
    auto instance = std::make_unique<Instance>();
    instance->state = state;
    if (state->has_chain) {
      auto run =
          OneDnnChain::Instance::Create(state->chain, state->scratch_arg);
      instance->status = run.status();
      if (run.ok()) instance->run = *std::move(run);
    }
    return instance;
  };
  prepared.state = std::move(state);
  return prepared;
}

absl::Status BuildForward(const KernelRequest& request, int bias_arg,
                          State& s) {
  const TensorType& out = request.results[0].type;
  const bool is_transposed = request.Bool(6);
  MICA_RETURN_IF_ERROR(s.chain.Init());
  OneDnnConvolution conv;
  MICA_RETURN_IF_ERROR(conv.Set(request, request.operands[0].type,
                                request.operands[1].type, out, 3));
  DnnlDesc bias, lies;
  const bool passes_bias = bias_arg >= 0 && !is_transposed;
  if (passes_bias) {
    MICA_RETURN_IF_ERROR(DnnlDescOf(request.operands[bias_arg].type, bias));
  }
  DnnlPrimitiveDesc desc;
  MICA_RETURN_IF_ERROR(is_transposed
                           ? conv.MakeBackwardData(s.chain, desc)
                           : conv.MakeForward(s.chain, dnnl_forward_inference,
                                              bias.get(), desc));
  const auto from_query =
      is_transposed ? dnnl_query_diff_dst_md : dnnl_query_src_md;
  const auto to_query =
      is_transposed ? dnnl_query_diff_src_md : dnnl_query_dst_md;
  BufferId x = 0, weight = 0;
  MICA_RETURN_IF_ERROR(s.chain.AddArgument(
      0, is_transposed ? conv.dst.get() : conv.src.get(), &x));
  MICA_RETURN_IF_ERROR(s.chain.AddArgument(1, conv.weight.get(), &weight));
  MICA_RETURN_IF_ERROR(s.chain.AddInput(x, Query(desc, from_query), &x));
  MICA_RETURN_IF_ERROR(
      s.chain.AddInput(weight, Query(desc, dnnl_query_weights_md), &weight));
  std::vector<std::pair<int, BufferId>> buffers = {
      {is_transposed ? DNNL_ARG_DIFF_DST : DNNL_ARG_SRC, x},
      {DNNL_ARG_WEIGHTS, weight}};
  if (passes_bias) {
    BufferId buffer = 0;
    MICA_RETURN_IF_ERROR(s.chain.AddArgument(bias_arg, bias.get(), &buffer));
    buffers.push_back({DNNL_ARG_BIAS, buffer});
  }
  MICA_RETURN_IF_ERROR(DnnlDescOf(out, lies));
  return AddWriting(
      s.chain, desc, is_transposed ? DNNL_ARG_DIFF_SRC : DNNL_ARG_DST,
      Query(desc, to_query), static_cast<int>(request.operands.size()),
      lies.get(), std::move(buffers));
}

// Each group has fewer columns than a tile of ours, and loops of our own for
// groups of a few channels don't take it.
bool HasNarrowGroups(const KernelRequest& request) {
  constexpr int kGroupsOfForward = 8;
  const int64_t groups = request.Int(kGroupsOfForward);
  const int64_t width = request.operands[0].type.dims[1] / groups;
  const int64_t columns = request.results[0].type.dims[1] / groups;
  const bool has_loops = width == columns && (width & (width - 1)) == 0 &&
                         width <= Simd().most_group_channels;
  return groups > 1 && !has_loops && columns < Simd().gemm_cols;
}

// Of volumes, where the library computes each channel by a product of its own.
bool IsDepthwiseOfVolumes(const KernelRequest& request) {
  const TensorType& x = request.operands[0].type;
  return !request.Bool(6) && x.rank() == 5 && request.Int(8) > 1 &&
         request.Int(8) == x.dims[1];
}

// Transposed ones of volumes that the library takes longer for than a product
// of the channels, whose columns are then added up: it fills channels up to its
// blocks, and gains nothing where each element of the result has one tap.
bool IsThinTransposedOfVolumes(const KernelRequest& request) {
  const TensorType& x = request.operands[0].type;
  const TensorType& weight = request.operands[1].type;
  if (!request.Bool(6) || x.rank() != 5) return false;
  const int64_t groups = request.Int(8);
  const int64_t channels = weight.dims[0] / groups, columns = weight.dims[1];
  constexpr int64_t kThin = 64, kFewChannels = 4;
  if (groups > 1) {
    const bool is_by_pixel = x.EffectiveStrides()[1] == 1;
    return is_by_pixel && channels < kFewChannels &&
           channels * columns <= kThin;
  }
  bool is_one_tap = true;
  const auto steps = request.Ints(3);
  for (int i = 0; i < 3; ++i) {
    const int64_t step = steps.size() == 1 ? steps[0] : steps[i];
    is_one_tap = is_one_tap && weight.dims[2 + i] <= step;
  }
  return is_one_tap || channels * columns <= kThin;
}

Verdict PrepareForward(const KernelRequest& request) {
  const TensorType& out = request.results[0].type;
  const bool is_transposed = request.Bool(6);
  const int bias_arg = request.OperandIndex(2);
  if (!is_transposed && request.operands[0].type.rank() <= 4 &&
      !HasNarrowGroups(request)) {
    return No{"our own tiles do it"};
  }
  if (auto no = WhyNotDnnl(request, 0, bias_arg >= 0 ? 3 : 2)) return No{*no};
  // Some of the library's kernels read it as if it had none.
  if (bias_arg >= 0 && !request.operands[bias_arg].type.is_row_major()) {
    return No{"the bias has gaps"};
  }
  auto state = std::make_shared<State>();
  state->out_arg = static_cast<int>(request.operands.size());
  if (is_transposed && bias_arg >= 0) {
    if (!out.is_row_major()) {
      return No{"a transposed one with bias has gaps"};
    }
    state->added_bias_arg = bias_arg;
    state->images = out.dims[0];
    state->channels = out.dims[1];
    state->pixels = out.num_elements() / (out.dims[0] * out.dims[1]);
  }
  const absl::Status status = BuildForward(request, bias_arg, *state);
  if (!status.ok()) return No{std::string(status.message())};
  return Finish(request, std::move(state));
}

Verdict PrepareFastForward(const KernelRequest& request) {
  if (IsDepthwiseOfVolumes(request)) return No{"each channel is a product"};
  if (IsThinTransposedOfVolumes(request)) return No{"channels are few"};
  return PrepareForward(request);
}

struct Backward {
  OneDnnChain& chain;
  const KernelRequest& request;
  OneDnnConvolution conv;
  BufferId src = 0, weight = 0, dst = 0;
  bool is_transposed = false;

  bool is_half() const { return request.operands[0].type.dtype != DType::kF32; }
  int ArgOf(int result) const {
    return static_cast<int>(request.operands.size()) + result;
  }
};

// Of a transposed convolution this is the plain one.
absl::Status AddGradInput(Backward& b) {
  DnnlPrimitiveDesc desc;
  DnnlDesc lies;
  MICA_RETURN_IF_ERROR(
      DnnlDescOf(b.request.results[Param::kGradInput].type, lies));
  BufferId from = b.is_transposed ? b.src : b.dst;
  BufferId weight = b.weight;
  MICA_RETURN_IF_ERROR(
      b.is_transposed
          ? b.conv.MakeForward(b.chain, dnnl_forward_inference, nullptr, desc)
          : b.conv.MakeBackwardData(b.chain, desc));
  if (b.is_half()) MICA_RETURN_IF_ERROR(CheckFast(desc.get()));
  MICA_RETURN_IF_ERROR(b.chain.AddInput(
      from,
      Query(desc, b.is_transposed ? dnnl_query_src_md : dnnl_query_diff_dst_md),
      &from));
  MICA_RETURN_IF_ERROR(
      b.chain.AddInput(weight, Query(desc, dnnl_query_weights_md), &weight));
  return AddWriting(
      b.chain, desc, b.is_transposed ? DNNL_ARG_DST : DNNL_ARG_DIFF_SRC,
      Query(desc, b.is_transposed ? dnnl_query_dst_md : dnnl_query_diff_src_md),
      b.ArgOf(Param::kGradInput), lies.get(),
      {{b.is_transposed ? DNNL_ARG_SRC : DNNL_ARG_DIFF_DST, from},
       {DNNL_ARG_WEIGHTS, weight}});
}

// With the gradient of the bias if `adds_bias`.
absl::Status AddGradWeight(Backward& b, bool adds_bias) {
  DnnlDesc lies, bias;
  if (adds_bias) {
    MICA_RETURN_IF_ERROR(
        DnnlDescOf(b.request.results[Param::kGradBias].type, bias));
  }
  MICA_RETURN_IF_ERROR(
      DnnlWeightDescOf(b.request.results[Param::kGradWeight].type,
                       b.request.Int(Param::kGroups), lies));
  DnnlPrimitiveDesc desc;
  MICA_RETURN_IF_ERROR(b.conv.MakeBackwardWeights(b.chain, bias.get(), desc));
  if (b.is_half()) MICA_RETURN_IF_ERROR(CheckFast(desc.get()));
  BufferId src = b.src, dst = b.dst;
  MICA_RETURN_IF_ERROR(
      b.chain.AddInput(src, Query(desc, dnnl_query_src_md), &src));
  MICA_RETURN_IF_ERROR(
      b.chain.AddInput(dst, Query(desc, dnnl_query_diff_dst_md), &dst));
  std::vector<std::pair<int, BufferId>> buffers = {{DNNL_ARG_SRC, src},
                                                   {DNNL_ARG_DIFF_DST, dst}};
  if (adds_bias) {
    BufferId buffer = 0;
    MICA_RETURN_IF_ERROR(
        b.chain.AddArgument(b.ArgOf(Param::kGradBias), bias.get(), &buffer));
    buffers.push_back({DNNL_ARG_DIFF_BIAS, buffer});
  }
  return AddWriting(b.chain, desc, DNNL_ARG_DIFF_WEIGHTS,
                    Query(desc, dnnl_query_diff_weights_md),
                    b.ArgOf(Param::kGradWeight), lies.get(),
                    std::move(buffers));
}

absl::Status BuildBackward(const KernelRequest& request, const bool (&wants)[3],
                           State& s) {
  MICA_RETURN_IF_ERROR(s.chain.Init());
  Backward b = {.chain = s.chain,
                .request = request,
                .is_transposed = request.Bool(Param::kTransposed)};
  MICA_RETURN_IF_ERROR(b.conv.Set(request, request.operands[Param::kInput].type,
                                  request.operands[Param::kWeight].type,
                                  request.operands[Param::kGrad].type,
                                  Param::kWindow));
  const int src = b.is_transposed ? Param::kGrad : Param::kInput;
  const int dst = b.is_transposed ? Param::kInput : Param::kGrad;
  MICA_RETURN_IF_ERROR(s.chain.AddArgument(src, b.conv.src.get(), &b.src));
  MICA_RETURN_IF_ERROR(s.chain.AddArgument(dst, b.conv.dst.get(), &b.dst));
  MICA_RETURN_IF_ERROR(
      s.chain.AddArgument(Param::kWeight, b.conv.weight.get(), &b.weight));
  if (wants[Param::kGradInput]) MICA_RETURN_IF_ERROR(AddGradInput(b));
  if (wants[Param::kGradWeight]) {
    MICA_RETURN_IF_ERROR(
        AddGradWeight(b, wants[Param::kGradBias] && !s.sums_bias));
  }
  return absl::OkStatus();
}

// Which results somebody reads.
void FindWants(const KernelRequest& request, bool (&wants)[3]) {
  const auto& mask =
      std::get<std::vector<bool>>((*request.arguments)[Param::kMask]);
  for (int i = 0; i < 3; ++i) {
    wants[i] = mask[i] && request.results[i].is_used;
  }
}

// The gradient of x by Winograd's method, if it takes it and is faster.
std::optional<WinogradConvolution> MakeDataGradient(
    const KernelRequest& request) {
  const TensorType& x = request.operands[Param::kInput].type;
  if (request.Bool(Param::kTransposed) || request.Int(Param::kGroups) != 1 ||
      x.rank() != 4 || !IsAll(request.Ints(Param::kStride), 1) ||
      !IsAll(request.Ints(Param::kDilation), 1)) {
    return std::nullopt;
  }
  constexpr int64_t kReach = 2;  // Of three taps, beyond the first.
  if (Entry(request.Ints(Param::kPadding), 0) > kReach ||
      Entry(request.Ints(Param::kPadding), 1) > kReach) {
    return std::nullopt;
  }
  WinogradConvolution made;
  const auto no =
      made.Set({.x = ImageOf(request.operands[Param::kGrad].type),
                .out = ImageOf(request.results[Param::kGradInput].type),
                .weight = request.operands[Param::kWeight].type,
                .row_padding = kReach - Entry(request.Ints(Param::kPadding), 0),
                .col_padding = kReach - Entry(request.Ints(Param::kPadding), 1),
                .is_turned = true,
                .num_threads = request.num_threads});
  if (no.has_value()) return std::nullopt;
  return made;
}

Verdict PrepareBackward(const KernelRequest& request) {
  if (auto no = WhyNotDnnl(request, 0, 3)) return No{*no};
  bool wants[3];
  FindWants(request, wants);
  auto state = std::make_shared<State>();
  state->grad = request.operands[Param::kGrad].type;
  state->grad_bias_arg =
      static_cast<int>(request.operands.size()) + Param::kGradBias;
  if (wants[Param::kGradWeight]) state->weight = WeightGradient::Make(request);
  if (state->weight.has_value()) wants[Param::kGradWeight] = false;
  if (wants[Param::kGradInput]) state->data = MakeDataGradient(request);
  if (state->data.has_value()) wants[Param::kGradInput] = false;
  state->sums_bias =
      wants[Param::kGradBias] &&
      (!wants[Param::kGradWeight] || request.Bool(Param::kTransposed));
  state->has_chain = wants[Param::kGradInput] || wants[Param::kGradWeight];
  if (state->has_chain) {
    const absl::Status status = BuildBackward(request, wants, *state);
    if (!status.ok()) return No{std::string(status.message())};
  }
  return Finish(request, std::move(state));
}

// In 16 bits all is the library's.
Verdict PrepareHalfBackward(const KernelRequest& request) {
  const DType dtype = request.operands[Param::kGrad].type.dtype;
  if (auto no = WhyNotDnnl(request, 0, 3, dtype)) return No{*no};
  if (request.Bool(Param::kTransposed)) return No{"it is transposed"};
  bool wants[3];
  FindWants(request, wants);
  if (!wants[Param::kGradWeight] &&
      (wants[Param::kGradBias] || !wants[Param::kGradInput])) {
    return No{"no weight is asked for"};
  }
  auto state = std::make_shared<State>();
  const absl::Status status = BuildBackward(request, wants, *state);
  if (!status.ok()) return No{std::string(status.message())};
  return Finish(request, std::move(state));
}

}  // namespace

void RegisterOneDnnConvolution(KernelRegistry& registry) {
  registry.Add({.op = "aten.convolution", .dtype = DType::kF32},
               KernelRank::kFast,
               {"cpu.onednn_convolution", PrepareFastForward});
  registry.Add({.op = "aten.convolution", .dtype = DType::kF32},
               KernelRank::kPlain, {"cpu.onednn_convolution", PrepareForward});
  registry.Add({.op = "aten.convolution_backward", .dtype = DType::kF32},
               KernelRank::kFast,
               {"cpu.onednn_convolution_backward", PrepareBackward});
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    registry.Add({.op = "aten.convolution_backward", .dtype = dtype},
                 KernelRank::kFast,
                 {"onednn.convolution_backward", PrepareHalfBackward});
  }
}

}  // namespace mica::cpu
