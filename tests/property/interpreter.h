// Runs a Program as it is written, op by op.

#ifndef MICA_TESTS_PROPERTY_INTERPRETER_H_
#define MICA_TESTS_PROPERTY_INTERPRETER_H_

#include <vector>

#include "absl/status/statusor.h"
#include "framework/ir/program.h"
#include "framework/kernel/kernel_registry.h"
#include "framework/tensor/tensor.h"

namespace mica {

// What the Program, one without variables and updates, returns of `inputs`: a
// new tensor for each result of each op, by the reference kernels of `kernels`.
// Bodies of branches and loops are run block by block. Knows nothing of Plans.
absl::StatusOr<std::vector<Tensor>> Interpret(const Program& program,
                                              const std::vector<Tensor>& inputs,
                                              const KernelRegistry& kernels);

}  // namespace mica

#endif  // MICA_TESTS_PROPERTY_INTERPRETER_H_
