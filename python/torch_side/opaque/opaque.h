// Runs operators that Mica has no kernel for through ATen.

#ifndef MICA_PYTHON_TORCH_SIDE_OPAQUE_OPAQUE_H_
#define MICA_PYTHON_TORCH_SIDE_OPAQUE_OPAQUE_H_

#include "framework/kernel/kernel.h"
#include "framework/op/op_def.h"

namespace mica {

// For PlanOptions::prepare_opaque. Operands are lent to ATen where they are,
// those that it would write as copies; results are copied to their places. A
// result of another size than the record's fails the run.
Verdict PrepareOpaque(const KernelRequest& request);

// True if ATen's operator draws from a generator that all its calls share.
bool DrawsRandomNumbers(const OpDef& def);

}  // namespace mica

#endif  // MICA_PYTHON_TORCH_SIDE_OPAQUE_OPAQUE_H_
