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

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
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

// What is done to each element of the result before it is rounded.
class Epilogue {
 public:
  // Of aten.convolution there is none.
  absl::Status Set(const KernelRequest& request, const DnnlDesc& any_dst);
  const_dnnl_primitive_attr_t attributes() const { return attributes_.get(); }
  // Adds what it reads, as the primitive `desc` wants it.
  absl::Status AddBuffers(const KernelRequest& request,
                          const DnnlPrimitiveDesc& desc, OneDnnChain& chain,
                          std::vector<std::pair<int, BufferId>>& buffers) const;

 private:
  using PostOps = DnnlOwned<dnnl_post_ops_t, dnnl_post_ops_destroy>;

  // Appends result = result (kind) operand `param`.
  absl::Status Append(const KernelRequest& request, int param,
                      dnnl_alg_kind_t kind, const_dnnl_memory_desc_t desc);
  absl::Status AppendActivation(absl::string_view name);

  PostOps ops_;
  DnnlAttributes attributes_;
  DnnlDesc channels_;                          // Of scale and shift.
  std::vector<std::pair<int, int>> operands_;  // Param, number among ops_.
};

absl::Status Epilogue::Append(const KernelRequest& request, int param,
                              dnnl_alg_kind_t kind,
                              const_dnnl_memory_desc_t desc) {
  if (!request.Has(param)) return absl::OkStatus();
  operands_.push_back({param, dnnl_post_ops_len(ops_.get())});
  return CheckDnnl(dnnl_post_ops_append_binary(ops_.get(), kind, desc),
                   "post_ops_append_binary");
}

absl::Status Epilogue::AppendActivation(absl::string_view name) {
  if (name == "none") return absl::OkStatus();
  if (name != "relu" && name != "relu6") {
    return absl::UnimplementedError(absl::StrCat("an activation ", name));
  }
  const bool is_bounded = name == "relu6";
  return CheckDnnl(
      dnnl_post_ops_append_eltwise(
          ops_.get(), is_bounded ? dnnl_eltwise_clip : dnnl_eltwise_relu, 0.0f,
          is_bounded ? 6.0f : 0.0f),
      "post_ops_append_eltwise");
}

absl::Status Epilogue::Set(const KernelRequest& request,
                           const DnnlDesc& any_dst) {
  MICA_RETURN_IF_ERROR(
      CheckDnnl(dnnl_primitive_attr_create(attributes_.put()), "attr_create"));
  MICA_RETURN_IF_ERROR(
      CheckDnnl(dnnl_primitive_attr_set_scratchpad_mode(
                    attributes_.get(), dnnl_scratchpad_mode_user),
                "attr_set_scratchpad_mode"));
  if (request.arguments->size() <= Param::kShift) return absl::OkStatus();
  const TensorType& out = request.results[0].type;
  Dims dims(out.dims.size(), 1);
  dims[1] = out.dims[1];
  TensorType channels{.dtype = DType::kF32, .dims = dims};
  MICA_RETURN_IF_ERROR(DnnlDescOf(channels, channels_));
  MICA_RETURN_IF_ERROR(
      CheckDnnl(dnnl_post_ops_create(ops_.put()), "post_ops_create"));
  MICA_RETURN_IF_ERROR(
      Append(request, Param::kScale, dnnl_binary_mul, channels_.get()));
  MICA_RETURN_IF_ERROR(
      Append(request, Param::kShift, dnnl_binary_add, channels_.get()));
  MICA_RETURN_IF_ERROR(
      Append(request, Param::kResidual, dnnl_binary_add, any_dst.get()));
  MICA_RETURN_IF_ERROR(AppendActivation(request.String(Param::kActivation)));
  return CheckDnnl(
      dnnl_primitive_attr_set_post_ops(attributes_.get(), ops_.get()),
      "attr_set_post_ops");
}

absl::Status Epilogue::AddBuffers(
    const KernelRequest& request, const DnnlPrimitiveDesc& desc,
    OneDnnChain& chain, std::vector<std::pair<int, BufferId>>& buffers) const {
  for (const auto& [param, number] : operands_) {
    const int arg = request.OperandIndex(param);
    const int name = DNNL_ARG_ATTR_MULTIPLE_POST_OP(number) | DNNL_ARG_SRC_1;
    BufferId buffer = 0;
    if (param == Param::kResidual) {
      DnnlDesc lies;
      MICA_RETURN_IF_ERROR(DnnlDescOf(request.operands[arg].type, lies));
      MICA_RETURN_IF_ERROR(chain.AddArgument(arg, lies.get(), &buffer));
      MICA_RETURN_IF_ERROR(
          chain.AddInput(buffer,
                         dnnl_primitive_desc_query_md(
                             desc.get(), dnnl_query_exec_arg_md, name),
                         &buffer));
    } else {
      MICA_RETURN_IF_ERROR(chain.AddArgument(arg, channels_.get(), &buffer));
    }
    buffers.push_back({name, buffer});
  }
  return absl::OkStatus();
}

// Prefers images as they lie, and a loop of the library's that isn't plain;
// only of what has an epilogue any will do, as nobody else takes that.
absl::Status MakeForward(const OneDnnChain& chain, const KernelRequest& request,
                         const OneDnnConvolution& how,
                         const_dnnl_memory_desc_t bias,
                         const Epilogue& epilogue, DnnlPrimitiveDesc& desc) {
  const auto make = [&](const OneDnnConvolution& one) {
    desc = {};
    return one.MakeForward(chain, dnnl_forward_inference, bias, desc,
                           epilogue.attributes());
  };
  const TensorType& x = request.operands[Param::kX].type;
  if (HasChannelsLast(x) && HasChannelsLast(request.results[0].type)) {
    OneDnnConvolution as_it_lies;
    MICA_RETURN_IF_ERROR(
        as_it_lies.Set(request, x, request.operands[Param::kWeight].type,
                       request.results[0].type, Param::kStride));
    MICA_RETURN_IF_ERROR(as_it_lies.KeepLayouts());
    if (make(as_it_lies).ok() && CheckFast(desc.get()).ok()) {
      return absl::OkStatus();
    }
  }
  MICA_RETURN_IF_ERROR(make(how));
  const bool has_epilogue = request.arguments->size() > Param::kShift;
  return has_epilogue ? absl::OkStatus() : CheckFast(desc.get());
}

absl::Status Build(const KernelRequest& request, int bias_arg, State& s) {
  MICA_RETURN_IF_ERROR(s.chain.Init());
  OneDnnConvolution how;
  MICA_RETURN_IF_ERROR(how.Set(request, request.operands[Param::kX].type,
                               request.operands[Param::kWeight].type,
                               request.results[0].type, Param::kStride));
  DnnlDesc bias;
  if (bias_arg >= 0) {
    MICA_RETURN_IF_ERROR(DnnlDescOf(request.operands[bias_arg].type, bias));
  }
  Epilogue epilogue;
  MICA_RETURN_IF_ERROR(epilogue.Set(request, how.any_dst));
  DnnlPrimitiveDesc desc;
  MICA_RETURN_IF_ERROR(
      MakeForward(s.chain, request, how, bias.get(), epilogue, desc));
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
  MICA_RETURN_IF_ERROR(epilogue.AddBuffers(request, desc, s.chain, buffers));
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

// Whether the library has more than a plain loop for the type here.
bool IsTaken(DType dtype) {
  OneDnnChain chain;
  DnnlDesc images, weight;
  DnnlPrimitiveDesc desc;
  const auto like = [&](DnnlDesc& of, Dims dims) {
    return CheckDnnl(dnnl_memory_desc_create_with_tag(
                         of.put(), static_cast<int>(dims.size()), dims.data(),
                         DnnlTypeOf(dtype), dnnl_format_tag_any),
                     "memory_desc_create_with_tag")
        .ok();
  };
  const dnnl_dims_t one = {1, 1}, none = {0, 0};
  return chain.Init().ok() && like(images, {1, 16, 8, 8}) &&
         like(weight, {16, 16, 1, 1}) &&
         dnnl_convolution_forward_primitive_desc_create(
             desc.put(), chain.engine(), dnnl_forward_inference,
             dnnl_convolution_direct, images.get(), weight.get(), nullptr,
             images.get(), one, none, none, none,
             chain.attributes()) == dnnl_success &&
         CheckFast(desc.get()).ok();
}

Verdict Prepare(const KernelRequest& request) {
  const DType dtype = request.results[0].type.dtype;
  const int bias_arg = request.OperandIndex(Param::kBias);
  if (request.Bool(Param::kTransposed)) return No{"it is transposed"};
  if (auto no = WhyNotDnnl(request, 0, bias_arg >= 0 ? 3 : 2, dtype)) {
    return No{*no};
  }
  // Some of the library's kernels read it as if it had none.
  if (bias_arg >= 0 && !request.operands[bias_arg].type.is_row_major()) {
    return No{"the bias has gaps"};
  }
  if (request.arguments->size() > Param::kShift) {
    for (const int param : {Param::kScale, Param::kShift}) {
      const TensorType& type =
          request.operands[request.OperandIndex(param)].type;
      if (type.dtype != DType::kF32 || !type.is_row_major()) {
        return No{"scale or shift isn't float32 without gaps"};
      }
    }
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
    if (!IsTaken(dtype)) continue;
    for (const absl::string_view op :
         {"aten.convolution", "mica.scaled_convolution"}) {
      registry.Add({.op = std::string(op), .dtype = dtype}, KernelRank::kFast,
                   {"onednn.convolution", Prepare});
    }
  }
}

}  // namespace mica::cpu
