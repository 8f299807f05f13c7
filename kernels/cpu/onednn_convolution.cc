#include "kernels/cpu/onednn_convolution.h"

#include <utility>

#include "framework/base/status.h"

namespace mica::cpu {
namespace {

int64_t Entry(absl::Span<const int64_t> list, int i) {
  return list.size() == 1 ? list[0] : list[i];
}

absl::Status MakeDesc(DType dtype, absl::Span<const int64_t> dims,
                      absl::Span<const int64_t> strides, DnnlDesc& desc) {
  return CheckDnnl(dnnl_memory_desc_create_with_strides(
                       desc.put(), static_cast<int>(dims.size()), dims.data(),
                       DnnlTypeOf(dtype), strides.data()),
                   "memory_desc_create_with_strides");
}

// The same dims in any layout.
absl::Status AnyLayout(const_dnnl_memory_desc_t like, DnnlDesc& desc) {
  int rank = 0;
  dnnl_dims_t* dims = nullptr;
  dnnl_data_type_t type = dnnl_f32;
  dnnl_memory_desc_query(like, dnnl_query_ndims_s32, &rank);
  dnnl_memory_desc_query(like, dnnl_query_data_type, &type);
  dnnl_memory_desc_query(like, dnnl_query_dims, &dims);
  return CheckDnnl(dnnl_memory_desc_create_with_tag(desc.put(), rank, *dims,
                                                    type, dnnl_format_tag_any),
                   "memory_desc_create_with_tag");
}

// As an expanded gradient has it.
bool HasZeroStride(const TensorType& type) {
  const Dims strides = type.EffectiveStrides();
  for (int i = 0; i < type.rank(); ++i) {
    if (type.dims[i] > 1 && strides[i] == 0) return true;
  }
  return false;
}

}  // namespace

absl::Status DnnlDescOf(const TensorType& type, DnnlDesc& desc) {
  return MakeDesc(type.dtype, type.dims, type.EffectiveStrides(), desc);
}

absl::Status DnnlWeightDescOf(const TensorType& type, int64_t groups,
                              DnnlDesc& desc) {
  if (groups == 1) return DnnlDescOf(type, desc);
  Dims dims = type.dims, strides = type.EffectiveStrides();
  dims[0] /= groups;
  strides.insert(strides.begin(), strides[0] * dims[0]);
  dims.insert(dims.begin(), groups);
  return MakeDesc(type.dtype, dims, strides, desc);
}

std::optional<std::string> WhyNotDnnl(const KernelRequest& request, int begin,
                                      int end, DType dtype) {
  for (int i = begin; i < end; ++i) {
    const TensorType& type = request.operands[i].type;
    if (type.rank() > 5) return "has too many axes";
    if (type.dtype != dtype) {
      return absl::StrCat("is not ", DTypeName(dtype));
    }
    if (type.num_elements() == 0) return "is empty";
    if (HasZeroStride(type)) return "an operand is expanded";
  }
  return std::nullopt;
}

absl::Status OneDnnConvolution::Set(const KernelRequest& request,
                                    const TensorType& input,
                                    const TensorType& weight_type,
                                    const TensorType& output, int window) {
  const bool swaps = request.Bool(window + 3);
  MICA_RETURN_IF_ERROR(DnnlDescOf(swaps ? output : input, src));
  MICA_RETURN_IF_ERROR(DnnlDescOf(swaps ? input : output, dst));
  MICA_RETURN_IF_ERROR(
      DnnlWeightDescOf(weight_type, request.Int(window + 5), weight));
  MICA_RETURN_IF_ERROR(AnyLayout(src.get(), any_src));
  MICA_RETURN_IF_ERROR(AnyLayout(weight.get(), any_weight));
  MICA_RETURN_IF_ERROR(AnyLayout(dst.get(), any_dst));
  for (int i = 0; i + 2 < input.rank(); ++i) {
    stride.push_back(Entry(request.Ints(window), i));
    padding.push_back(Entry(request.Ints(window + 1), i));
    dilation.push_back(Entry(request.Ints(window + 2), i) - 1);
  }
  return absl::OkStatus();
}

absl::Status OneDnnConvolution::KeepLayouts() {
  any_src = {};
  any_dst = {};
  MICA_RETURN_IF_ERROR(CheckDnnl(
      dnnl_memory_desc_clone(any_src.put(), src.get()), "memory_desc_clone"));
  return CheckDnnl(dnnl_memory_desc_clone(any_dst.put(), dst.get()),
                   "memory_desc_clone");
}

absl::Status OneDnnConvolution::MakeForward(
    const OneDnnChain& chain, dnnl_prop_kind_t kind,
    const_dnnl_memory_desc_t bias, DnnlPrimitiveDesc& desc,
    const_dnnl_primitive_attr_t attributes) const {
  return CheckDnnl(
      dnnl_convolution_forward_primitive_desc_create(
          desc.put(), chain.engine(), kind, dnnl_convolution_direct,
          any_src.get(), any_weight.get(), bias, any_dst.get(), stride.data(),
          dilation.data(), padding.data(), padding.data(),
          attributes == nullptr ? chain.attributes() : attributes),
      "convolution_forward_primitive_desc_create");
}

absl::Status OneDnnConvolution::MakeBackwardData(
    const OneDnnChain& chain, DnnlPrimitiveDesc& desc) const {
  DnnlPrimitiveDesc hint;
  MICA_RETURN_IF_ERROR(
      MakeForward(chain, dnnl_forward_training, nullptr, hint));
  return CheckDnnl(
      dnnl_convolution_backward_data_primitive_desc_create(
          desc.put(), chain.engine(), dnnl_convolution_direct, any_src.get(),
          any_weight.get(), any_dst.get(), stride.data(), dilation.data(),
          padding.data(), padding.data(), hint.get(), chain.attributes()),
      "convolution_backward_data_primitive_desc_create");
}

absl::Status OneDnnConvolution::MakeBackwardWeights(
    const OneDnnChain& chain, const_dnnl_memory_desc_t bias,
    DnnlPrimitiveDesc& desc) const {
  DnnlPrimitiveDesc hint;
  MICA_RETURN_IF_ERROR(
      MakeForward(chain, dnnl_forward_training, nullptr, hint));
  return CheckDnnl(
      dnnl_convolution_backward_weights_primitive_desc_create(
          desc.put(), chain.engine(), dnnl_convolution_direct, any_src.get(),
          any_weight.get(), bias, any_dst.get(), stride.data(), dilation.data(),
          padding.data(), padding.data(), hint.get(), chain.attributes()),
      "convolution_backward_weights_primitive_desc_create");
}

absl::Status AddWriting(OneDnnChain& chain, const DnnlPrimitiveDesc& desc,
                        int written, const_dnnl_memory_desc_t made, int arg,
                        const_dnnl_memory_desc_t lies,
                        std::vector<std::pair<int, int>> buffers) {
  int to = 0, staged = 0;
  MICA_RETURN_IF_ERROR(chain.AddArgument(arg, lies, &to));
  MICA_RETURN_IF_ERROR(chain.StageOutput(to, made, &staged));
  buffers.push_back({written, staged});
  MICA_RETURN_IF_ERROR(chain.AddPrimitive(desc.get(), std::move(buffers)));
  return chain.AddOutput(staged, to);
}

}  // namespace mica::cpu
