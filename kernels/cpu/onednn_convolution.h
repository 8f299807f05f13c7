// What convolution and its gradients ask of oneDNN.

#ifndef MICA_KERNELS_CPU_ONEDNN_CONVOLUTION_H_
#define MICA_KERNELS_CPU_ONEDNN_CONVOLUTION_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "framework/kernel/kernel.h"
#include "framework/tensor/tensor_type.h"
#include "kernels/cpu/onednn_chain.h"

namespace mica::cpu {

// A tensor as it lies; the library takes no stride of 0.
absl::Status DnnlDescOf(const TensorType& type, DnnlDesc& desc);
// weight[o, i/groups, ...] as [groups, o/groups, i/groups, ...].
absl::Status DnnlWeightDescOf(const TensorType& type, int64_t groups,
                              DnnlDesc& desc);
// Why the library can't take operands `begin` to `end`, of `dtype`.
std::optional<std::string> WhyNotDnnl(const KernelRequest& request, int begin,
                                      int end, DType dtype = DType::kF32);

inline const_dnnl_memory_desc_t Query(const DnnlPrimitiveDesc& desc,
                                      dnnl_query_t what) {
  return dnnl_primitive_desc_query_md(desc.get(), what, 0);
}

// A convolution of `src` to `dst`. A transposed one is its adjoint: the same
// with the roles of the two swapped.
struct OneDnnConvolution {
  DnnlDesc src, weight, dst;              // As the tensors lie.
  DnnlDesc any_src, any_weight, any_dst;  // As the library likes.
  Dims stride, dilation, padding;

  // `window` is the parameter of stride, with padding, dilation, transposed,
  // output_padding and groups behind it.
  absl::Status Set(const KernelRequest& request, const TensorType& input,
                   const TensorType& weight_type, const TensorType& output,
                   int window);
  // Has the images stay as they lie.
  absl::Status KeepLayouts();
  // By default with the chain's attributes.
  absl::Status MakeForward(
      const OneDnnChain& chain, dnnl_prop_kind_t kind,
      const_dnnl_memory_desc_t bias, DnnlPrimitiveDesc& desc,
      const_dnnl_primitive_attr_t attributes = nullptr) const;
  absl::Status MakeBackwardData(const OneDnnChain& chain,
                                DnnlPrimitiveDesc& desc) const;
  // Requires the tensors of a forward in training.
  absl::Status MakeBackwardWeights(const OneDnnChain& chain,
                                   const_dnnl_memory_desc_t bias,
                                   DnnlPrimitiveDesc& desc) const;
};

// Adds the primitive `desc` to the chain with its own name for what it writes,
// which lies as `made` and ends in the launch argument `arg`, lying as `lies`.
absl::Status AddWriting(OneDnnChain& chain, const DnnlPrimitiveDesc& desc,
                        int written, const_dnnl_memory_desc_t made, int arg,
                        const_dnnl_memory_desc_t lies,
                        std::vector<std::pair<int, int>> buffers);

}  // namespace mica::cpu

#endif  // MICA_KERNELS_CPU_ONEDNN_CONVOLUTION_H_
