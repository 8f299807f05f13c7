// The calls of an op that a suite tries.

#ifndef MICA_TESTS_CONFORMANCE_LEGAL_CASES_H_
#define MICA_TESTS_CONFORMANCE_LEGAL_CASES_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "framework/kernel/kernel_registry.h"
#include "framework/op/op_def.h"
#include "tests/conformance/one_op.h"

namespace mica {

// The legal cases of the op. Listed ones must all be, else they are among
// `illegal`; in other dtypes they need not.
std::vector<Case> LegalCases(const OpDef& def,
                             std::vector<absl::Status>* illegal = nullptr);

// Kernels by dtype as selection finds them.
KernelKey KeyOf(const Case& c);

// Terms of the longest sum in the case: what errors grow with.
double ScaleOf(const Case& c);

// Any contents of its result are right.
bool IsEmptyFactory(const OpDef& def);

// All that are run by kernels.
std::vector<const OpDef*> OpsWithKernels();

// The oracle's results; fails where it fails, as on a division by zero.
absl::StatusOr<std::vector<Tensor>> RunReference(const Case& c,
                                                 const Operands& operands);

}  // namespace mica

#endif  // MICA_TESTS_CONFORMANCE_LEGAL_CASES_H_
