#include "kernels/cpu/onednn_chain.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "framework/base/status.h"
#include "framework/tensor/tensor.h"

namespace mica::cpu {

absl::Status CheckDnnl(dnnl_status_t status, absl::string_view what) {
  if (status == dnnl_success) return absl::OkStatus();
  const std::string text =
      absl::StrCat("onednn: ", what, " gave status ", static_cast<int>(status));
  if (status == dnnl_out_of_memory) return absl::ResourceExhaustedError(text);
  // This processor has no instructions for the types, say.
  if (status == dnnl_unimplemented) return absl::UnimplementedError(text);
  return absl::InternalError(text);
}

std::string DescribeDnnlDesc(const_dnnl_memory_desc_t desc) {
  dnnl_format_kind_t kind = dnnl_format_kind_undef;
  dnnl_data_type_t type = dnnl_data_type_undef;
  int32_t rank = 0, num_blocks = 0;
  const dnnl_dims_t* dims[5] = {};
  const auto query = [desc](dnnl_query_t what, auto* result) {
    return dnnl_memory_desc_query(desc, what, result) == dnnl_success;
  };
  if (!query(dnnl_query_format_kind, &kind) || kind != dnnl_blocked ||
      !query(dnnl_query_data_type, &type) ||
      !query(dnnl_query_ndims_s32, &rank) ||
      !query(dnnl_query_inner_nblks_s32, &num_blocks) ||
      !query(dnnl_query_dims, &dims[0]) ||
      !query(dnnl_query_padded_dims, &dims[1]) ||
      !query(dnnl_query_strides, &dims[2]) ||
      !query(dnnl_query_inner_blks, &dims[3]) ||
      !query(dnnl_query_inner_idxs, &dims[4])) {
    return "";
  }
  std::string text = absl::StrCat("type ", static_cast<int>(type));
  for (int i = 0; i < 5; ++i) {
    const int count = i < 3 ? rank : num_blocks;
    absl::StrAppend(&text, " [",
                    absl::StrJoin(absl::MakeSpan(*dims[i], count), ","), "]");
  }
  return text;
}

absl::Status CheckDnnlRuns() {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("sse4.1")) {
    return absl::UnimplementedError(
        "onednn: wants a processor with SSE4.1, this one hasn't got it");
  }
#endif
  return absl::OkStatus();
}

std::string DnnlVersion() {
  const dnnl_version_t* version = dnnl_version();
  return absl::StrCat("onednn ", version->major, ".", version->minor, ".",
                      version->patch, " ", version->hash);
}

std::string DnnlInstructions() {
  return absl::StrCat("onednn ",
                      static_cast<int>(dnnl_get_effective_cpu_isa()));
}

absl::Status CreateEngine(DnnlEngine& engine) {
  MICA_RETURN_IF_ERROR(CheckDnnlRuns());
  return CheckDnnl(dnnl_engine_create(engine.put(), dnnl_cpu, 0),
                   "engine_create");
}

dnnl_data_type_t DnnlTypeOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return dnnl_f32;
    case DType::kBF16:
      return dnnl_bf16;
    case DType::kF16:
      return dnnl_f16;
    default:
      return dnnl_data_type_undef;
  }
}

absl::Status CheckFast(const_dnnl_primitive_desc_t desc) {
  const char* name = nullptr;
  MICA_RETURN_IF_ERROR(CheckDnnl(
      dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, &name),
      "primitive_desc_query"));
  if (!absl::StartsWith(name, "ref")) return absl::OkStatus();
  return absl::UnimplementedError("onednn: only a plain loop takes these");
}

absl::Status OneDnnChain::Init() {
  MICA_RETURN_IF_ERROR(CreateEngine(engine_));
  MICA_RETURN_IF_ERROR(
      CheckDnnl(dnnl_primitive_attr_create(attributes_.put()), "attr_create"));
  return CheckDnnl(dnnl_primitive_attr_set_scratchpad_mode(
                       attributes_.get(), dnnl_scratchpad_mode_user),
                   "attr_set_scratchpad_mode");
}

absl::Status OneDnnChain::AddArgument(int arg, const_dnnl_memory_desc_t desc,
                                      BufferId* buffer) {
  *buffer = static_cast<int>(buffers_.size());
  buffers_.push_back({.arg = arg});
  return CheckDnnl(dnnl_memory_desc_clone(buffers_.back().desc.put(), desc),
                   "memory_desc_clone");
}

absl::Status OneDnnChain::AddScratch(const_dnnl_memory_desc_t desc,
                                     BufferId* buffer) {
  MICA_RETURN_IF_ERROR(AddArgument(-1, desc, buffer));
  buffers_[*buffer].offset = scratch_bytes_;
  scratch_bytes_ +=
      AlignUp(static_cast<int64_t>(dnnl_memory_desc_get_size(desc)));
  return absl::OkStatus();
}

absl::Status OneDnnChain::AddReorder(BufferId from, BufferId to) {
  DnnlPrimitiveDesc desc;
  MICA_RETURN_IF_ERROR(CheckDnnl(
      dnnl_reorder_primitive_desc_create(desc.put(), buffers_[from].desc.get(),
                                         engine(), buffers_[to].desc.get(),
                                         engine(), attributes()),
      "reorder_primitive_desc_create"));
  return AddPrimitive(desc.get(), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}

absl::Status OneDnnChain::AddInput(BufferId from, const_dnnl_memory_desc_t desc,
                                   BufferId* buffer) {
  *buffer = from;
  if (dnnl_memory_desc_equal(buffers_[from].desc.get(), desc)) {
    return absl::OkStatus();
  }
  MICA_RETURN_IF_ERROR(AddScratch(desc, buffer));
  return AddReorder(from, *buffer);
}

absl::Status OneDnnChain::StageOutput(BufferId to,
                                      const_dnnl_memory_desc_t desc,
                                      BufferId* buffer) {
  *buffer = to;
  if (dnnl_memory_desc_equal(buffers_[to].desc.get(), desc)) {
    return absl::OkStatus();
  }
  return AddScratch(desc, buffer);
}

absl::Status OneDnnChain::AddOutput(BufferId from, BufferId to) {
  return from == to ? absl::OkStatus() : AddReorder(from, to);
}

absl::Status OneDnnChain::AddPrimitive(
    const_dnnl_primitive_desc_t desc,
    std::vector<std::pair<int, BufferId>> buffers) {
  Step step = {.buffers = std::move(buffers)};
  MICA_RETURN_IF_ERROR(CheckDnnl(
      dnnl_primitive_create(step.primitive.put(), desc), "primitive_create"));
  const_dnnl_memory_desc_t scratchpad =
      dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0);
  if (scratchpad != nullptr && dnnl_memory_desc_get_size(scratchpad) > 0) {
    BufferId buffer = 0;
    MICA_RETURN_IF_ERROR(AddScratch(scratchpad, &buffer));
    step.buffers.push_back({DNNL_ARG_SCRATCHPAD, buffer});
  }
  steps_.push_back(std::move(step));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<OneDnnChain::Instance>>
OneDnnChain::Instance::Create(const OneDnnChain& chain, int scratch_arg) {
  std::unique_ptr<Instance> self(new Instance(chain));
  self->scratch_arg_ = scratch_arg;
  MICA_RETURN_IF_ERROR(
      CheckDnnl(dnnl_stream_create(self->stream_.put(), chain.engine(),
                                   dnnl_stream_default_flags),
                "stream_create"));
  for (const Buffer& buffer : chain.buffers_) {
    self->memories_.emplace_back();
    MICA_RETURN_IF_ERROR(CheckDnnl(
        dnnl_memory_create(self->memories_.back().put(), buffer.desc.get(),
                           chain.engine(), DNNL_MEMORY_NONE),
        "memory_create"));
  }
  for (const Step& step : chain.steps_) {
    self->exec_args_.emplace_back();
    for (const auto& [name, buffer] : step.buffers) {
      self->exec_args_.back().push_back({name, self->memories_[buffer].get()});
    }
  }
  return self;
}

absl::Status OneDnnChain::Instance::Run(void* const* args) {
  for (size_t i = 0; i < memories_.size(); ++i) {
    const Buffer& buffer = chain_.buffers_[i];
    char* data =
        static_cast<char*>(args[buffer.arg >= 0 ? buffer.arg : scratch_arg_]);
    dnnl_memory_set_data_handle(memories_[i].get(), data + buffer.offset);
  }
  for (size_t i = 0; i < exec_args_.size(); ++i) {
    const dnnl_status_t status = dnnl_primitive_execute(
        chain_.steps_[i].primitive.get(), stream_.get(),
        static_cast<int>(exec_args_[i].size()), exec_args_[i].data());
    if (status != dnnl_success) return CheckDnnl(status, "primitive_execute");
  }
  return absl::OkStatus();
}

}  // namespace mica::cpu
