#include "kernels/reference/reference.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/reference/quantised.h"

namespace mica {

void AddReference(KernelRegistry& registry, absl::string_view op,
                  PrepareFn prepare) {
  constexpr DType kAll[] = {
      DType::kBool, DType::kU8,  DType::kI8,   DType::kI16, DType::kI32,
      DType::kI64,  DType::kF16, DType::kBF16, DType::kF32, DType::kF64};
  registry.Add(op, kAll, KernelRank::kReference,
               Kernel{.name = absl::StrCat("reference.", op),
                      .prepare = std::move(prepare)});
}

void RegisterReferenceKernels(KernelRegistry& registry) {
  RegisterReferenceArithmetic(registry);
  RegisterReferenceUnary(registry);
  RegisterReferenceLogic(registry);
  RegisterReferenceActivations(registry);
  RegisterReferenceActivationBackward(registry);
  RegisterReferenceMatmul(registry);
  RegisterReferenceQuantised(registry);
  RegisterReferenceReductions(registry);
  RegisterReferenceLines(registry);
  RegisterReferenceOptim(registry);
  RegisterReferenceRegions(registry);
  RegisterReferenceScalars(registry);
  RegisterReferenceNorms(registry);
  RegisterReferenceBatchNorm(registry);
  RegisterReferenceAttention(registry);
  RegisterReferenceLayerBackward(registry);
  RegisterReferenceAttentionLayer(registry);
  RegisterReferenceRecurrent(registry);
  RegisterReferenceLosses(registry);
  RegisterReferenceLossBackward(registry);
  RegisterReferenceConv(registry);
  RegisterReferenceConvBackward(registry);
  RegisterReferencePoolBackward(registry);
  RegisterReferenceResample(registry);
  RegisterReferenceFolds(registry);
  RegisterReferenceCopies(registry);
  RegisterReferenceFactories(registry);
  RegisterReferenceIndex(registry);
  RegisterReferenceBounded(registry);
  RegisterReferenceScatter(registry);
  RegisterReferenceViewBackward(registry);
}

}  // namespace mica
