// Gradients of a convolution by oneDNN, in the layouts that it likes.

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "framework/base/status.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/onednn_chain.h"

namespace mica::cpu {
namespace {

using BufferId = OneDnnChain::BufferId;

// Positions of the parameters, and of the results.
enum { kGrad, kInput, kWeight, kStride = 4, kPadding, kDilation };
enum { kTransposed = 7, kGroups = 9, kMask = 10 };
enum { kGradInput, kGradWeight, kGradBias };

int64_t Entry(absl::Span<const int64_t> list, int i) {
  return list.size() == 1 ? list[0] : list[i];
}

absl::Status MakeDesc(absl::Span<const int64_t> dims,
                      absl::Span<const int64_t> strides, DnnlDesc& desc) {
  return CheckDnnl(dnnl_memory_desc_create_with_strides(
                       desc.put(), static_cast<int>(dims.size()), dims.data(),
                       dnnl_f32, strides.data()),
                   "memory_desc_create_with_strides");
}

absl::Status DescOf(const TensorType& type, DnnlDesc& desc) {
  return MakeDesc(type.dims, type.EffectiveStrides(), desc);
}

// weight[o, i/groups, ...] as the library has it: [groups, o/groups, ...].
absl::Status WeightDescOf(const TensorType& type, int64_t groups,
                          DnnlDesc& desc) {
  if (groups == 1) return DescOf(type, desc);
  Dims dims = type.dims, strides = type.EffectiveStrides();
  dims[0] /= groups;
  strides.insert(strides.begin(), strides[0] * dims[0]);
  dims.insert(dims.begin(), groups);
  return MakeDesc(dims, strides, desc);
}

// The same dims in any layout.
absl::Status AnyLayout(const_dnnl_memory_desc_t like, DnnlDesc& desc) {
  int rank = 0;
  dnnl_dims_t* dims = nullptr;
  dnnl_memory_desc_query(like, dnnl_query_ndims_s32, &rank);
  dnnl_memory_desc_query(like, dnnl_query_dims, &dims);
  return CheckDnnl(dnnl_memory_desc_create_with_tag(
                       desc.put(), rank, *dims, dnnl_f32, dnnl_format_tag_any),
                   "memory_desc_create_with_tag");
}

const_dnnl_memory_desc_t Query(const DnnlPrimitiveDesc& desc,
                               dnnl_query_t what) {
  return dnnl_primitive_desc_query_md(desc.get(), what, 0);
}

// A convolution of `src` to `dst`: of a transposed one the adjoint, whose
// gradients are what the other's are with the roles of the two swapped.
struct Problem {
  DnnlDesc src, weight, dst;  // As the tensors lie.
  DnnlDesc any_src, any_weight, any_dst;
  Dims stride, dilation, padding;
};

absl::Status MakeProblem(const KernelRequest& request, Problem& problem) {
  const TensorType& grad = request.operands[kGrad].type;
  const TensorType& input = request.operands[kInput].type;
  const bool is_transposed = request.Bool(kTransposed);
  MICA_RETURN_IF_ERROR(DescOf(is_transposed ? grad : input, problem.src));
  MICA_RETURN_IF_ERROR(DescOf(is_transposed ? input : grad, problem.dst));
  MICA_RETURN_IF_ERROR(WeightDescOf(request.operands[kWeight].type,
                                    request.Int(kGroups), problem.weight));
  MICA_RETURN_IF_ERROR(AnyLayout(problem.src.get(), problem.any_src));
  MICA_RETURN_IF_ERROR(AnyLayout(problem.weight.get(), problem.any_weight));
  MICA_RETURN_IF_ERROR(AnyLayout(problem.dst.get(), problem.any_dst));
  for (int i = 0; i + 2 < input.rank(); ++i) {
    problem.stride.push_back(Entry(request.Ints(kStride), i));
    problem.padding.push_back(Entry(request.Ints(kPadding), i));
    problem.dilation.push_back(Entry(request.Ints(kDilation), i) - 1);
  }
  return absl::OkStatus();
}

absl::Status MakeForward(const OneDnnChain& chain, const Problem& p,
                         dnnl_prop_kind_t kind, DnnlPrimitiveDesc& desc) {
  return CheckDnnl(
      dnnl_convolution_forward_primitive_desc_create(
          desc.put(), chain.engine(), kind, dnnl_convolution_direct,
          p.any_src.get(), p.any_weight.get(), nullptr, p.any_dst.get(),
          p.stride.data(), p.dilation.data(), p.padding.data(),
          p.padding.data(), chain.attributes()),
      "convolution_forward_primitive_desc_create");
}

// What is built while preparing.
struct Build {
  OneDnnChain& chain;
  const KernelRequest& request;
  Problem problem;
  DnnlPrimitiveDesc forward;  // The hint that the library asks for.
  BufferId grad = 0, input = 0, weight = 0;

  bool is_transposed() const { return request.Bool(kTransposed); }
  BufferId src() const { return is_transposed() ? grad : input; }
  BufferId dst() const { return is_transposed() ? input : grad; }
  absl::Status AddResult(int result, const_dnnl_memory_desc_t lies,
                         BufferId* buffer) {
    return chain.AddArgument(static_cast<int>(request.operands.size()) + result,
                             lies, buffer);
  }
};

// Runs `desc`, whose result `result` it writes as argument `written`.
absl::Status AddWriting(Build& build, const DnnlPrimitiveDesc& desc, int result,
                        const_dnnl_memory_desc_t lies, int written,
                        const_dnnl_memory_desc_t made,
                        std::vector<std::pair<int, BufferId>> buffers) {
  BufferId to = 0, staged = 0;
  MICA_RETURN_IF_ERROR(build.AddResult(result, lies, &to));
  MICA_RETURN_IF_ERROR(build.chain.StageOutput(to, made, &staged));
  buffers.push_back({written, staged});
  MICA_RETURN_IF_ERROR(
      build.chain.AddPrimitive(desc.get(), std::move(buffers)));
  return build.chain.AddOutput(staged, to);
}

absl::Status AddGradInput(Build& build) {
  const Problem& p = build.problem;
  DnnlPrimitiveDesc desc;
  BufferId first = 0, weight = 0;
  DnnlDesc lies;
  MICA_RETURN_IF_ERROR(DescOf(build.request.results[kGradInput].type, lies));
  if (build.is_transposed()) {
    MICA_RETURN_IF_ERROR(
        MakeForward(build.chain, p, dnnl_forward_inference, desc));
    MICA_RETURN_IF_ERROR(build.chain.AddInput(
        build.src(), Query(desc, dnnl_query_src_md), &first));
    MICA_RETURN_IF_ERROR(build.chain.AddInput(
        build.weight, Query(desc, dnnl_query_weights_md), &weight));
    return AddWriting(build, desc, kGradInput, lies.get(), DNNL_ARG_DST,
                      Query(desc, dnnl_query_dst_md),
                      {{DNNL_ARG_SRC, first}, {DNNL_ARG_WEIGHTS, weight}});
  }
  MICA_RETURN_IF_ERROR(CheckDnnl(
      dnnl_convolution_backward_data_primitive_desc_create(
          desc.put(), build.chain.engine(), dnnl_convolution_direct,
          p.any_src.get(), p.any_weight.get(), p.any_dst.get(), p.stride.data(),
          p.dilation.data(), p.padding.data(), p.padding.data(),
          build.forward.get(), build.chain.attributes()),
      "convolution_backward_data_primitive_desc_create"));
  MICA_RETURN_IF_ERROR(build.chain.AddInput(
      build.dst(), Query(desc, dnnl_query_diff_dst_md), &first));
  MICA_RETURN_IF_ERROR(build.chain.AddInput(
      build.weight, Query(desc, dnnl_query_weights_md), &weight));
  return AddWriting(build, desc, kGradInput, lies.get(), DNNL_ARG_DIFF_SRC,
                    Query(desc, dnnl_query_diff_src_md),
                    {{DNNL_ARG_DIFF_DST, first}, {DNNL_ARG_WEIGHTS, weight}});
}

// With the gradient of the bias if `adds_bias`.
absl::Status AddGradWeight(Build& build, bool adds_bias) {
  const Problem& p = build.problem;
  DnnlDesc lies, bias;
  if (adds_bias) {
    MICA_RETURN_IF_ERROR(DescOf(build.request.results[kGradBias].type, bias));
  }
  MICA_RETURN_IF_ERROR(WeightDescOf(build.request.results[kGradWeight].type,
                                    build.request.Int(kGroups), lies));
  DnnlPrimitiveDesc desc;
  MICA_RETURN_IF_ERROR(CheckDnnl(
      dnnl_convolution_backward_weights_primitive_desc_create(
          desc.put(), build.chain.engine(), dnnl_convolution_direct,
          p.any_src.get(), p.any_weight.get(), bias.get(), p.any_dst.get(),
          p.stride.data(), p.dilation.data(), p.padding.data(),
          p.padding.data(), build.forward.get(), build.chain.attributes()),
      "convolution_backward_weights_primitive_desc_create"));
  BufferId src = 0, dst = 0;
  MICA_RETURN_IF_ERROR(
      build.chain.AddInput(build.src(), Query(desc, dnnl_query_src_md), &src));
  MICA_RETURN_IF_ERROR(build.chain.AddInput(
      build.dst(), Query(desc, dnnl_query_diff_dst_md), &dst));
  std::vector<std::pair<int, BufferId>> buffers = {{DNNL_ARG_SRC, src},
                                                   {DNNL_ARG_DIFF_DST, dst}};
  if (adds_bias) {
    BufferId buffer = 0;
    MICA_RETURN_IF_ERROR(build.AddResult(kGradBias, bias.get(), &buffer));
    buffers.push_back({DNNL_ARG_DIFF_BIAS, buffer});
  }
  return AddWriting(build, desc, kGradWeight, lies.get(), DNNL_ARG_DIFF_WEIGHTS,
                    Query(desc, dnnl_query_diff_weights_md),
                    std::move(buffers));
}

// What Jobs share: the chain, and what it leaves to us.
struct State {
  OneDnnChain chain;
  bool has_chain = false;
  // The gradient of the bias by itself: sums of grad, [n, c, ...].
  bool sums_bias = false;
  TensorType grad;
  int bias_arg = -1;
  int scratch_arg = -1;
};

struct Instance : KernelInstance {
  const State* state = nullptr;
  std::unique_ptr<OneDnnChain::Instance> run;
  absl::Status status;  // Why there is no `run`.
};

// Sums the gradient over all but its channels, in double.
void SumBias(const State& s, const float* grad, float* bias) {
  const Dims strides = s.grad.EffectiveStrides();
  Dims dims = s.grad.dims;
  const int rank = s.grad.rank();
  for (int64_t c = 0; c < dims[1]; ++c) {
    double sum = 0;
    Dims index(rank, 0);
    int64_t offset = c * strides[1];
    while (true) {
      float line = 0;
      for (int64_t i = 0; i < dims[rank - 1]; ++i) {
        line += grad[offset + i * strides[rank - 1]];
      }
      sum += line;
      int axis = rank - 2;
      for (; axis >= 0; --axis) {
        if (axis == 1) continue;
        offset += strides[axis];
        if (++index[axis] < dims[axis]) break;
        offset -= dims[axis] * strides[axis];
        index[axis] = 0;
      }
      if (axis < 0) break;
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
  if (s.sums_bias) {
    SumBias(s, static_cast<const float*>(args[kGrad]),
            static_cast<float*>(args[s.bias_arg]));
  }
  return true;
}

// The library takes no stride of 0, as of an expanded gradient.
bool IsSpread(const TensorType& type) {
  const Dims strides = type.EffectiveStrides();
  for (int i = 0; i < type.rank(); ++i) {
    if (type.dims[i] > 1 && strides[i] == 0) return true;
  }
  return false;
}

std::optional<std::string> WhyNot(const KernelRequest& request) {
  if (request.operands[kInput].type.rank() > 5) return "has too many axes";
  for (int i : {kGrad, kInput, kWeight}) {
    const TensorType& type = request.operands[i].type;
    if (type.dtype != DType::kF32) return "is not float32";
    if (type.num_elements() == 0) return "is empty";
    if (IsSpread(type)) return "an operand is expanded";
  }
  return std::nullopt;
}

absl::Status BuildChain(const KernelRequest& request, const bool (&wants)[3],
                        State& s) {
  MICA_RETURN_IF_ERROR(s.chain.Init());
  Build build = {.chain = s.chain, .request = request};
  MICA_RETURN_IF_ERROR(MakeProblem(request, build.problem));
  MICA_RETURN_IF_ERROR(MakeForward(s.chain, build.problem,
                                   dnnl_forward_training, build.forward));
  const Problem& p = build.problem;
  const bool swaps = build.is_transposed();
  MICA_RETURN_IF_ERROR(s.chain.AddArgument(
      kGrad, swaps ? p.src.get() : p.dst.get(), &build.grad));
  MICA_RETURN_IF_ERROR(s.chain.AddArgument(
      kInput, swaps ? p.dst.get() : p.src.get(), &build.input));
  MICA_RETURN_IF_ERROR(
      s.chain.AddArgument(kWeight, p.weight.get(), &build.weight));
  if (wants[kGradInput]) MICA_RETURN_IF_ERROR(AddGradInput(build));
  if (wants[kGradWeight]) {
    MICA_RETURN_IF_ERROR(
        AddGradWeight(build, wants[kGradBias] && !s.sums_bias));
  }
  return absl::OkStatus();
}

Verdict PrepareConvolutionBackward(const KernelRequest& request) {
  if (auto no = WhyNot(request)) return No{*no};
  const auto& mask = std::get<std::vector<bool>>((*request.arguments)[kMask]);
  bool wants[3];
  for (int i = 0; i < 3; ++i) {
    wants[i] = mask[i] && request.results[i].is_used;
  }
  auto state = std::make_shared<State>();
  const int num_operands = static_cast<int>(request.operands.size());
  state->grad = request.operands[kGrad].type;
  state->bias_arg = num_operands + kGradBias;
  state->sums_bias =
      wants[kGradBias] && (!wants[kGradWeight] || request.Bool(kTransposed));
  state->has_chain = wants[kGradInput] || wants[kGradWeight];
  if (state->has_chain) {
    const absl::Status status = BuildChain(request, wants, *state);
    if (!status.ok()) return No{std::string(status.message())};
  }
  Prepared prepared;
  prepared.scratch_bytes = state->chain.scratch_bytes();
  state->scratch_arg = num_operands + 3;
  prepared.launch = Launch;
  prepared.make_instance = [state]() {
    auto instance = std::make_unique<Instance>();
    instance->state = state.get();
    if (state->has_chain) {
      auto run =
          OneDnnChain::Instance::Create(state->chain, state->scratch_arg);
      instance->status = run.status();
      if (run.ok()) instance->run = *std::move(run);
    }
    return instance;
  };
  prepared.state = state;
  return prepared;
}

}  // namespace

void RegisterConvolutionBackward(KernelRegistry& registry) {
  registry.Add({.op = "aten.convolution_backward", .dtype = DType::kF32},
               KernelRank::kFast,
               {"cpu.onednn_convolution_backward", PrepareConvolutionBackward});
}

}  // namespace mica::cpu
