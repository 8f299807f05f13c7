// The families of kernels, each registered by one file.

#ifndef MICA_KERNELS_CUDA_FAMILIES_H_
#define MICA_KERNELS_CUDA_FAMILIES_H_

#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/kernel/kernel_registry.h"
#include "kernels/cuda/target.h"

namespace mica::cuda {

inline constexpr DType kFloats[] = {DType::kF32, DType::kF64, DType::kF16,
                                    DType::kBF16};
inline constexpr DType kReals[] = {
    DType::kBool, DType::kU8,  DType::kI8,   DType::kI16, DType::kI32,
    DType::kI64,  DType::kF16, DType::kBF16, DType::kF32, DType::kF64};

// A registry that is being filled with kernels for one target.
struct Kernels {
  KernelRegistry& registry;
  Target target;

  using Prepare = Verdict (*)(const Target& target,
                              const KernelRequest& request);
  // "cuda." and the part of the operator's name behind its first dot.
  void Add(absl::string_view op, absl::Span<const DType> dtypes,
           Prepare prepare) const;
  void Add(absl::string_view op, absl::Span<const DType> dtypes,
           PrepareFn prepare) const;
};

void RegisterElements(const Kernels& kernels);
void RegisterFactories(const Kernels& kernels);
void RegisterLosses(const Kernels& kernels);
void RegisterMovements(const Kernels& kernels);
void RegisterNorms(const Kernels& kernels);
void RegisterOptimizers(const Kernels& kernels);
void RegisterPicks(const Kernels& kernels);
void RegisterProducts(const Kernels& kernels);
void RegisterAttention(const Kernels& kernels);
void RegisterReductions(const Kernels& kernels);
void RegisterRegions(const Kernels& kernels);
void RegisterSoftmaxes(const Kernels& kernels);

}  // namespace mica::cuda

#endif  // MICA_KERNELS_CUDA_FAMILIES_H_
