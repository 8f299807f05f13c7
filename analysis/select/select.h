// Chooses the kernel of an op, before any run.

#ifndef MICA_ANALYSIS_SELECT_SELECT_H_
#define MICA_ANALYSIS_SELECT_SELECT_H_

#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "framework/kernel/kernel.h"
#include "framework/kernel/kernel_registry.h"

namespace mica {

// The kernel chosen for a request.
struct Selected {
  std::string kernel;
  std::shared_ptr<const Prepared> prepared;
};

// Asks the candidates of a request's KernelKey in order of preference: fast
// kernels, fast ones on copies of operands that are expanded, ATen's, fast ones
// on copies of all that isn't row-major, the oracle. Equal requests, of
// repeated layers for example, share what was prepared.
// Single-thread.
class KernelSelector {
 public:
  // `kernels` must outlive the selector. `prepare_aten` may be null.
  KernelSelector(const KernelRegistry& kernels, PrepareFn prepare_aten)
      : kernels_(kernels), prepare_aten_(std::move(prepare_aten)) {}

  // From now on asks these alone, by name: for choices made before, elsewhere.
  void set_only(absl::flat_hash_set<std::string> kernels) {
    only_ = std::move(kernels);
  }

  // NotFound with each candidate's reason if none takes the request.
  absl::StatusOr<Selected> Select(const KernelRequest& request);

 private:
  absl::StatusOr<Selected> SelectNew(const KernelRequest& request);

  const KernelRegistry& kernels_;
  PrepareFn prepare_aten_;
  absl::flat_hash_set<std::string> only_;                // Empty means all.
  absl::flat_hash_map<std::string, Selected> selected_;  // By request.
  std::string key_;
};

}  // namespace mica

#endif  // MICA_ANALYSIS_SELECT_SELECT_H_
