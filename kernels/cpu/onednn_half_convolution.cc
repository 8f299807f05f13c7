// Convolutions of bfloat16 and float16. By oneDNN, which adds up in float32,
// on processors with instructions for the type.
//
// Images with the channels last are taken as they lie, and the result is
// written so; others go through the layout that the library likes. Weights are
// brought into that in each run, or once where they are frozen.

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "framework/base/status.h"
#include "kernels/cpu/convolution_call.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/identity.h"
#include "kernels/cpu/onednn_chain.h"
#include "kernels/cpu/onednn_convolution.h"

namespace mica::cpu {
namespace {

using BufferId = OneDnnChain::BufferId;
using Param = ConvolutionParam;

// What Jobs share.
struct State {
  OneDnnChain chain;
  OneDnnChain pack;  // From argument 0, the weights, to argument 1.
  int64_t packed_bytes = 0;
  int scratch_arg = -1;
};

struct Instance : KernelInstance {
  std::unique_ptr<OneDnnChain::Instance> run;
  absl::Status status;  // Why there is no `run`.
};

bool Launch(const void* instance, void* const* args, LaunchContext& context) {
  const auto& self = *static_cast<const Instance*>(instance);
  if (!self.status.ok()) return context.Fail(self.status);
  absl::Status status = self.run->Run(args);
  return status.ok() || context.Fail(std::move(status));
}

// Elements of one pixel follow each other, and pixels do, row by row.
bool HasChannelsLast(const TensorType& type) {
  const Dims strides = type.EffectiveStrides();
  int64_t step = 1;
  const auto is_next = [&](int axis) {
    const bool fits = type.dims[axis] == 1 || strides[axis] == step;
    step *= type.dims[axis];
    return fits;
  };
  if (!is_next(1)) return false;
  for (int axis = type.rank() - 1; axis >= 2; --axis) {
    if (!is_next(axis)) return false;
  }
  return is_next(0);
}

absl::Status MakeForward(const OneDnnChain& chain, const OneDnnConvolution& how,
                         const_dnnl_memory_desc_t bias,
                         DnnlPrimitiveDesc& desc) {
  MICA_RETURN_IF_ERROR(
      how.MakeForward(chain, dnnl_forward_inference, bias, desc));
  return CheckFast(desc.get());
}

absl::Status Build(const KernelRequest& request, int bias_arg, State& s) {
  const TensorType& x = request.operands[Param::kX].type;
  const TensorType& weight = request.operands[Param::kWeight].type;
  const TensorType& out = request.results[0].type;
  MICA_RETURN_IF_ERROR(s.chain.Init());
  OneDnnConvolution how;
  MICA_RETURN_IF_ERROR(how.Set(request, x, weight, out, Param::kStride));
  DnnlDesc bias;
  if (bias_arg >= 0) {
    MICA_RETURN_IF_ERROR(DnnlDescOf(request.operands[bias_arg].type, bias));
  }
  DnnlPrimitiveDesc desc;
  absl::Status status = absl::UnimplementedError("");
  if (HasChannelsLast(x) && HasChannelsLast(out)) {
    OneDnnConvolution as_it_lies;
    MICA_RETURN_IF_ERROR(
        as_it_lies.Set(request, x, weight, out, Param::kStride));
    MICA_RETURN_IF_ERROR(as_it_lies.KeepLayouts());
    status = MakeForward(s.chain, as_it_lies, bias.get(), desc);
  }
  if (!status.ok()) {
    desc = {};
    MICA_RETURN_IF_ERROR(MakeForward(s.chain, how, bias.get(), desc));
  }
  BufferId images = 0, weights = 0;
  MICA_RETURN_IF_ERROR(s.chain.AddArgument(Param::kX, how.src.get(), &images));
  MICA_RETURN_IF_ERROR(
      s.chain.AddInput(images, Query(desc, dnnl_query_src_md), &images));
  const const_dnnl_memory_desc_t packed = Query(desc, dnnl_query_weights_md);
  if (request.operands[Param::kWeight].is_frozen) {
    s.packed_bytes = static_cast<int64_t>(dnnl_memory_desc_get_size(packed));
    BufferId from = 0, to = 0;
    MICA_RETURN_IF_ERROR(s.pack.Init());
    MICA_RETURN_IF_ERROR(s.pack.AddArgument(0, how.weight.get(), &from));
    MICA_RETURN_IF_ERROR(s.pack.AddArgument(1, packed, &to));
    MICA_RETURN_IF_ERROR(s.pack.AddOutput(from, to));
    MICA_RETURN_IF_ERROR(s.chain.AddArgument(Param::kWeight, packed, &weights));
  } else {
    MICA_RETURN_IF_ERROR(
        s.chain.AddArgument(Param::kWeight, how.weight.get(), &weights));
    MICA_RETURN_IF_ERROR(s.chain.AddInput(weights, packed, &weights));
  }
  std::vector<std::pair<int, BufferId>> buffers = {{DNNL_ARG_SRC, images},
                                                   {DNNL_ARG_WEIGHTS, weights}};
  if (bias_arg >= 0) {
    BufferId buffer = 0;
    MICA_RETURN_IF_ERROR(s.chain.AddArgument(bias_arg, bias.get(), &buffer));
    buffers.push_back({DNNL_ARG_BIAS, buffer});
  }
  return AddWriting(s.chain, desc, DNNL_ARG_DST, Query(desc, dnnl_query_dst_md),
                    static_cast<int>(request.operands.size()), how.dst.get(),
                    std::move(buffers));
}

absl::Status Pack(const State& s, const void* from, void* to) {
  std::vector<char> scratch(s.pack.scratch_bytes());
  MICA_ASSIGN_OR_RETURN(auto run, OneDnnChain::Instance::Create(s.pack, 2));
  void* args[] = {const_cast<void*>(from), to, scratch.data()};
  return run->Run(args);
}

Verdict Prepare(const KernelRequest& request) {
  const DType dtype = request.results[0].type.dtype;
  const int bias_arg = request.OperandIndex(Param::kBias);
  if (request.Bool(Param::kTransposed)) return No{"it is transposed"};
  if (auto no = WhyNotDnnl(request, 0, bias_arg >= 0 ? 3 : 2, dtype)) {
    return No{*no};
  }
  auto state = std::make_shared<State>();
  const absl::Status status = Build(request, bias_arg, *state);
  if (!status.ok()) return No{std::string(status.message())};
  state->scratch_arg =
      static_cast<int>(request.operands.size() + request.results.size());
  Prepared prepared{.launch = Launch,
                    .scratch_bytes = state->chain.scratch_bytes()};
  if (state->packed_bytes > 0) {
    prepared.packs.push_back({.operand = Param::kWeight,
                              .bytes = state->packed_bytes,
                              .pack = [state](const void* from, void* to) {
                                return Pack(*state, from, to);
                              }});
  }
  prepared.make_instance = [state = state.get()]() {
    auto instance = std::make_unique<Instance>();
    auto run = OneDnnChain::Instance::Create(state->chain, state->scratch_arg);
    instance->status = run.status();
    if (run.ok()) instance->run = *std::move(run);
    return instance;
  };
  prepared.state = std::move(state);
  return prepared;
}

}  // namespace

void RegisterOneDnnHalfConvolution(KernelRegistry& registry) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    registry.Add({.op = "aten.convolution", .dtype = dtype}, KernelRank::kFast,
                 {"onednn.convolution", Prepare});
  }
}

}  // namespace mica::cpu
