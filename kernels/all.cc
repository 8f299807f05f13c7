#include "kernels/all.h"

#include "kernels/cpu/families.h"
#include "kernels/reference/reference.h"

namespace mica {

void RegisterAllKernels(KernelRegistry& registry) {
  cpu::RegisterAll(registry);
  RegisterReferenceKernels(registry);
}

const KernelRegistry& AllKernels() {
  static const KernelRegistry& registry = []() -> const KernelRegistry& {
    auto* filled = new KernelRegistry;
    RegisterAllKernels(*filled);
    return *filled;
  }();
  return registry;
}

const KernelRegistry& ReferenceKernels() {
  static const KernelRegistry& registry = []() -> const KernelRegistry& {
    auto* filled = new KernelRegistry;
    RegisterReferenceKernels(*filled);
    return *filled;
  }();
  return registry;
}

}  // namespace mica
