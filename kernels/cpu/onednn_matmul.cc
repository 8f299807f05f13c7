#include "kernels/cpu/onednn_matmul.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "dnnl.h"
#include "framework/base/status.h"
#include "kernels/cpu/onednn_chain.h"

namespace mica::cpu {
namespace {

using Engine = DnnlEngine;
using Stream = DnnlStream;
using MemoryDesc = DnnlDesc;
using Memory = DnnlMemory;
using Attributes = DnnlAttributes;
using PostOps = DnnlOwned<dnnl_post_ops_t, dnnl_post_ops_destroy>;
using PrimitiveDesc = DnnlPrimitiveDesc;
using Primitive = DnnlPrimitive;

// Dims and strides with or without the batch in front.
struct Shape {
  int rank;
  dnnl_dims_t dims;
  dnnl_dims_t strides;
};

Shape MakeShape(const OneDnnMatmulSpec& spec, int64_t rows, int64_t cols,
                const int64_t (&strides)[3]) {
  if (spec.batch == 1) {
    return {2, {rows, cols}, {strides[1], strides[2]}};
  }
  return {3, {spec.batch, rows, cols}, {strides[0], strides[1], strides[2]}};
}

absl::Status MakeDesc(DType dtype, const Shape& shape, MemoryDesc& desc) {
  return CheckDnnl(
      dnnl_memory_desc_create_with_strides(desc.put(), shape.rank, shape.dims,
                                           DnnlTypeOf(dtype), shape.strides),
      "memory_desc_create");
}

absl::Status AppendActivation(Activation activation, dnnl_post_ops_t ops) {
  dnnl_alg_kind_t kind = dnnl_eltwise_relu;
  switch (activation) {
    case Activation::kNone:
      return absl::OkStatus();
    case Activation::kRelu:
      break;
    case Activation::kGeluErf:
      kind = dnnl_eltwise_gelu_erf;
      break;
    case Activation::kGeluTanh:
      kind = dnnl_eltwise_gelu_tanh;
      break;
    case Activation::kTanh:
      kind = dnnl_eltwise_tanh;
      break;
    case Activation::kSigmoid:
      kind = dnnl_eltwise_logistic;
      break;
    case Activation::kSilu:  // Swish; its factor is the alpha below.
      kind = dnnl_eltwise_swish;
      break;
    case Activation::kRelu6:
    case Activation::kHardswish:
      return absl::UnimplementedError("onednn: activation of convolutions");
  }
  return CheckDnnl(
      dnnl_post_ops_append_eltwise(
          ops, kind, activation == Activation::kSilu ? 1.0f : 0.0f, 0.0f),
      "post_ops_append_eltwise");
}

}  // namespace

struct OneDnnMatmul::Handles {
  Engine engine;
  MemoryDesc a, plain_b, b, c, bias;
  Primitive primitive;
  int residual_argument = 0;
  dnnl_memory_desc_t packed_b = nullptr;  // Owned by the primitive.
  dnnl_memory_desc_t scratchpad = nullptr;
};

OneDnnMatmul::~OneDnnMatmul() = default;

absl::StatusOr<std::shared_ptr<const OneDnnMatmul>> OneDnnMatmul::Create(
    const OneDnnMatmulSpec& spec) {
  std::shared_ptr<OneDnnMatmul> self(new OneDnnMatmul);
  self->spec_ = spec;
  self->handles_ = std::make_unique<Handles>();
  Handles& h = *self->handles_;
  MICA_RETURN_IF_ERROR(CreateEngine(h.engine));
  MICA_RETURN_IF_ERROR(MakeDesc(
      spec.dtype, MakeShape(spec, spec.m, spec.k, spec.a_strides), h.a));
  const Shape b = MakeShape(spec, spec.k, spec.n, spec.b_strides);
  MICA_RETURN_IF_ERROR(MakeDesc(spec.dtype, b, h.plain_b));
  MICA_RETURN_IF_ERROR(MakeDesc(
      spec.dtype, MakeShape(spec, spec.m, spec.n, spec.c_strides), h.c));
  if (spec.is_packed) {
    MICA_RETURN_IF_ERROR(
        CheckDnnl(dnnl_memory_desc_create_with_tag(h.b.put(), b.rank, b.dims,
                                                   DnnlTypeOf(spec.dtype),
                                                   dnnl_format_tag_any),
                  "memory_desc_create_with_tag"));
  }
  if (spec.has_bias) {
    const int64_t row[3] = {spec.n, spec.n, 1};
    MICA_RETURN_IF_ERROR(MakeDesc(
        spec.dtype,
        spec.batch == 1 ? Shape{2, {1, spec.n}, {spec.n, 1}}
                        : Shape{3, {1, 1, spec.n}, {row[0], row[1], row[2]}},
        h.bias));
  }
  Attributes attributes;
  PostOps ops;
  MICA_RETURN_IF_ERROR(
      CheckDnnl(dnnl_primitive_attr_create(attributes.put()), "attr_create"));
  MICA_RETURN_IF_ERROR(
      CheckDnnl(dnnl_primitive_attr_set_scratchpad_mode(
                    attributes.get(), dnnl_scratchpad_mode_user),
                "attr_set_scratchpad_mode"));
  MICA_RETURN_IF_ERROR(
      CheckDnnl(dnnl_post_ops_create(ops.put()), "post_ops_create"));
  MICA_RETURN_IF_ERROR(AppendActivation(spec.activation, ops.get()));
  if (spec.has_residual) {
    const int index = dnnl_post_ops_len(ops.get());
    h.residual_argument =
        DNNL_ARG_ATTR_MULTIPLE_POST_OP(index) | DNNL_ARG_SRC_1;
    MICA_RETURN_IF_ERROR(CheckDnnl(
        dnnl_post_ops_append_binary(ops.get(), dnnl_binary_add, h.c.get()),
        "post_ops_append_binary"));
  }
  MICA_RETURN_IF_ERROR(
      CheckDnnl(dnnl_primitive_attr_set_post_ops(attributes.get(), ops.get()),
                "attr_set_post_ops"));
  PrimitiveDesc desc;
  MICA_RETURN_IF_ERROR(
      CheckDnnl(dnnl_matmul_primitive_desc_create(
                    desc.put(), h.engine.get(), h.a.get(),
                    spec.is_packed ? h.b.get() : h.plain_b.get(), h.bias.get(),
                    h.c.get(), attributes.get()),
                "matmul_primitive_desc_create"));
  MICA_RETURN_IF_ERROR(CheckFast(desc.get()));
  MICA_RETURN_IF_ERROR(
      CheckDnnl(dnnl_primitive_create(h.primitive.put(), desc.get()),
                "primitive_create"));
  const_dnnl_primitive_desc_t made = nullptr;
  MICA_RETURN_IF_ERROR(
      CheckDnnl(dnnl_primitive_get_primitive_desc(h.primitive.get(), &made),
                "primitive_get_primitive_desc"));
  auto query = [made](dnnl_query_t what) {
    return const_cast<dnnl_memory_desc_t>(
        dnnl_primitive_desc_query_md(made, what, 0));
  };
  h.packed_b = query(dnnl_query_weights_md);
  h.scratchpad = query(dnnl_query_scratchpad_md);
  self->packed_bytes_ =
      static_cast<int64_t>(dnnl_memory_desc_get_size(h.packed_b));
  self->scratch_bytes_ =
      static_cast<int64_t>(dnnl_memory_desc_get_size(h.scratchpad));
  return self;
}

absl::Status OneDnnMatmul::Pack(const void* from, void* to) const {
  const Handles& h = *handles_;
  PrimitiveDesc desc;
  MICA_RETURN_IF_ERROR(
      CheckDnnl(dnnl_reorder_primitive_desc_create(desc.put(), h.plain_b.get(),
                                                   h.engine.get(), h.packed_b,
                                                   h.engine.get(), nullptr),
                "reorder_primitive_desc_create"));
  Primitive reorder;
  MICA_RETURN_IF_ERROR(CheckDnnl(
      dnnl_primitive_create(reorder.put(), desc.get()), "primitive_create"));
  Memory source, target;
  MICA_RETURN_IF_ERROR(
      CheckDnnl(dnnl_memory_create(source.put(), h.plain_b.get(),
                                   h.engine.get(), const_cast<void*>(from)),
                "memory_create"));
  MICA_RETURN_IF_ERROR(CheckDnnl(
      dnnl_memory_create(target.put(), h.packed_b, h.engine.get(), to),
      "memory_create"));
  Stream stream;
  MICA_RETURN_IF_ERROR(
      CheckDnnl(dnnl_stream_create(stream.put(), h.engine.get(),
                                   dnnl_stream_default_flags),
                "stream_create"));
  const dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, source.get()},
                                  {DNNL_ARG_TO, target.get()}};
  return CheckDnnl(dnnl_primitive_execute(reorder.get(), stream.get(), 2, args),
                   "reorder");
}

std::string OneDnnMatmul::packed_layout() const {
  const std::string from = DescribeDnnlDesc(handles_->plain_b.get());
  const std::string to = DescribeDnnlDesc(handles_->packed_b);
  return from.empty() || to.empty() ? "" : absl::StrCat(from, " to ", to);
}

struct OneDnnMatmulRun::Handles {
  dnnl_primitive_t primitive = nullptr;
  Stream stream;
  Memory a, b, c, bias, residual, scratchpad;
  std::vector<dnnl_exec_arg_t> args;
};

OneDnnMatmulRun::~OneDnnMatmulRun() = default;

absl::StatusOr<std::unique_ptr<OneDnnMatmulRun>> OneDnnMatmulRun::Create(
    const OneDnnMatmul& matmul) {
  const OneDnnMatmul::Handles& m = *matmul.handles_;
  std::unique_ptr<OneDnnMatmulRun> self(new OneDnnMatmulRun);
  self->handles_ = std::make_unique<Handles>();
  Handles& h = *self->handles_;
  h.primitive = m.primitive.get();
  MICA_RETURN_IF_ERROR(
      CheckDnnl(dnnl_stream_create(h.stream.put(), m.engine.get(),
                                   dnnl_stream_default_flags),
                "stream_create"));
  auto add = [&](int argument, const_dnnl_memory_desc_t desc,
                 Memory& memory) -> absl::Status {
    MICA_RETURN_IF_ERROR(
        CheckDnnl(dnnl_memory_create(memory.put(), desc, m.engine.get(),
                                     DNNL_MEMORY_NONE),
                  "memory_create"));
    h.args.push_back({argument, memory.get()});
    return absl::OkStatus();
  };
  const OneDnnMatmulSpec& spec = matmul.spec_;
  MICA_RETURN_IF_ERROR(add(DNNL_ARG_SRC, m.a.get(), h.a));
  MICA_RETURN_IF_ERROR(add(DNNL_ARG_WEIGHTS,
                           spec.is_packed ? m.packed_b : m.plain_b.get(), h.b));
  MICA_RETURN_IF_ERROR(add(DNNL_ARG_DST, m.c.get(), h.c));
  MICA_RETURN_IF_ERROR(add(DNNL_ARG_SCRATCHPAD, m.scratchpad, h.scratchpad));
  if (spec.has_bias) {
    MICA_RETURN_IF_ERROR(add(DNNL_ARG_BIAS, m.bias.get(), h.bias));
  }
  if (spec.has_residual) {
    MICA_RETURN_IF_ERROR(add(m.residual_argument, m.c.get(), h.residual));
  }
  return self;
}

absl::Status OneDnnMatmulRun::Run(const void* a, const void* b,
                                  const void* bias, const void* residual,
                                  void* c, void* scratch) {
  Handles& h = *handles_;
  auto set = [](const Memory& memory, const void* data) {
    if (memory.get() == nullptr) return;
    dnnl_memory_set_data_handle(memory.get(), const_cast<void*>(data));
  };
  set(h.a, a);
  set(h.b, b);
  set(h.c, c);
  set(h.bias, bias);
  set(h.residual, residual);
  set(h.scratchpad, scratch);
  return CheckDnnl(
      dnnl_primitive_execute(h.primitive, h.stream.get(),
                             static_cast<int>(h.args.size()), h.args.data()),
      "matmul");
}

}  // namespace mica::cpu
