// Kernels around another one, which change what that is launched with.

#ifndef MICA_FRAMEWORK_KERNEL_KERNEL_AROUND_H_
#define MICA_FRAMEWORK_KERNEL_KERNEL_AROUND_H_

#include <memory>
#include <utility>

#include "framework/kernel/kernel.h"

namespace mica {

// Has `prepared` call `kRun(state, inner state, args, context)`, which launches
// `state->inner` with the state that it is given: that kernel's own, or the
// Job's instance of it if it has instances.
template <auto kRun, typename State>
void LaunchAround(std::shared_ptr<const State> state, Prepared& prepared) {
  class Instance : public KernelInstance {
   public:
    explicit Instance(const State& state)
        : state_(state), inner_(state.inner.make_instance()) {}

    bool Run(void* const* args, LaunchContext& context) const {
      return kRun(state_, inner_.get(), args, context);
    }

   private:
    const State& state_;  // The Plan's; outlives the Job.
    const std::unique_ptr<KernelInstance> inner_;
  };
  if (state->inner.make_instance == nullptr) {
    prepared.launch = [](const void* own, void* const* args,
                         LaunchContext& context) {
      const auto& s = *static_cast<const State*>(own);
      return kRun(s, s.inner.state.get(), args, context);
    };
  } else {
    prepared.launch = [](const void* own, void* const* args,
                         LaunchContext& context) {
      return static_cast<const Instance*>(
                 static_cast<const KernelInstance*>(own))
          ->Run(args, context);
    };
    prepared.make_instance = [raw = state.get()] {
      return std::make_unique<Instance>(*raw);
    };
  }
  prepared.state = std::move(state);
}

}  // namespace mica

#endif  // MICA_FRAMEWORK_KERNEL_KERNEL_AROUND_H_
