// A Plan with everything that it takes to run it.

#ifndef MICA_TESTS_PROPERTY_RUNNABLE_H_
#define MICA_TESTS_PROPERTY_RUNNABLE_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "analysis/plan/plan.h"
#include "executor/job/job.h"
#include "framework/device/device.h"
#include "framework/ir/program.h"
#include "framework/kernel/kernel_registry.h"
#include "framework/tensor/tensor.h"

namespace mica {

// A Job with its own inputs, variables and outputs.
struct Runnable {
  std::vector<Tensor> inputs;
  std::vector<Tensor> variables;
  std::vector<Tensor> outputs;
  std::unique_ptr<Job> job;
};

// Inputs and variables hold numbers that depend on their types and order
// alone; outputs hold NaNs, so that what is not written shows. All lie on
// `device`, or on the host where that is null.
absl::StatusOr<Runnable> MakeRunnable(std::shared_ptr<const Plan> plan,
                                      JobOptions options = {},
                                      std::shared_ptr<Device> device = nullptr);

// Its tensors, without the Job, as the host can read them.
absl::StatusOr<Runnable> OnHost(const Runnable& runnable);

// The same after one run.
absl::StatusOr<Runnable> PlanAndRun(const Program& program,
                                    const KernelRegistry& kernels,
                                    const PlanOptions& options);

// Equal bytes, one by one; outputs, inputs and variables.
bool SameBytes(const std::vector<Tensor>& a, const std::vector<Tensor>& b);
bool SameBytes(const Runnable& a, const Runnable& b);

}  // namespace mica

#endif  // MICA_TESTS_PROPERTY_RUNNABLE_H_
