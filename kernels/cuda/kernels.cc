#include "kernels/cuda/kernels.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/families.h"

namespace mica::cuda {

void Kernels::Add(absl::string_view op, absl::Span<const DType> dtypes,
                  PrepareFn prepare) const {
  const size_t dot = op.find('.');
  registry.Add(op, dtypes, KernelRank::kFast,
               {.name = absl::StrCat("cuda", op.substr(dot)),
                .prepare = std::move(prepare)});
}

void Kernels::Add(absl::string_view op, absl::Span<const DType> dtypes,
                  Prepare prepare) const {
  Add(op, dtypes,
      PrepareFn([made_for = target, prepare](const KernelRequest& request) {
        return prepare(made_for, request);
      }));
}

std::unique_ptr<const KernelRegistry> MakeKernels(const Target& target) {
  auto registry = std::make_unique<KernelRegistry>();
  const Kernels kernels{*registry, target};
  RegisterElements(kernels);
  RegisterFactories(kernels);
  RegisterLosses(kernels);
  RegisterMovements(kernels);
  RegisterNorms(kernels);
  RegisterOptimizers(kernels);
  RegisterPicks(kernels);
  RegisterProducts(kernels);
  RegisterAttention(kernels);
  RegisterReductions(kernels);
  RegisterRegions(kernels);
  RegisterSoftmaxes(kernels);
  return registry;
}

}  // namespace mica::cuda
