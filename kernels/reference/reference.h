// The oracle: one slow, obvious kernel for every op, for operands of any
// strides and dtypes. float32 is computed in float32 element by element, sums
// in double.

#ifndef MICA_KERNELS_REFERENCE_REFERENCE_H_
#define MICA_KERNELS_REFERENCE_REFERENCE_H_

#include "absl/strings/string_view.h"
#include "framework/kernel/kernel_registry.h"

namespace mica {

void RegisterReferenceKernels(KernelRegistry& registry);

// Adds one kernel for all dtypes, under the name "reference.<op>".
void AddReference(KernelRegistry& registry, absl::string_view op,
                  PrepareFn prepare);

void RegisterReferenceArithmetic(KernelRegistry& registry);
void RegisterReferenceUnary(KernelRegistry& registry);
void RegisterReferenceLogic(KernelRegistry& registry);
void RegisterReferenceActivations(KernelRegistry& registry);
void RegisterReferenceActivationBackward(KernelRegistry& registry);
void RegisterReferenceMatmul(KernelRegistry& registry);
void RegisterReferenceReductions(KernelRegistry& registry);
void RegisterReferenceLines(KernelRegistry& registry);
void RegisterReferenceOptim(KernelRegistry& registry);
void RegisterReferenceRegions(KernelRegistry& registry);
void RegisterReferenceScalars(KernelRegistry& registry);
void RegisterReferenceNorms(KernelRegistry& registry);
void RegisterReferenceBatchNorm(KernelRegistry& registry);
void RegisterReferenceAttention(KernelRegistry& registry);
void RegisterReferenceLayerBackward(KernelRegistry& registry);
void RegisterReferenceAttentionLayer(KernelRegistry& registry);
void RegisterReferenceRecurrent(KernelRegistry& registry);
void RegisterReferenceLosses(KernelRegistry& registry);
void RegisterReferenceLossBackward(KernelRegistry& registry);
void RegisterReferenceConv(KernelRegistry& registry);
void RegisterReferenceConvBackward(KernelRegistry& registry);
void RegisterReferencePoolBackward(KernelRegistry& registry);
void RegisterReferenceResample(KernelRegistry& registry);
void RegisterReferenceFolds(KernelRegistry& registry);
void RegisterReferenceCopies(KernelRegistry& registry);
void RegisterReferenceFactories(KernelRegistry& registry);
void RegisterReferenceIndex(KernelRegistry& registry);
void RegisterReferenceBounded(KernelRegistry& registry);
void RegisterReferenceScatter(KernelRegistry& registry);
void RegisterReferenceViewBackward(KernelRegistry& registry);

}  // namespace mica

#endif  // MICA_KERNELS_REFERENCE_REFERENCE_H_
