// Runs operators that Mica has no fast kernel for through ATen.

#ifndef MICA_PYTHON_TORCH_SIDE_OPAQUE_OPAQUE_H_
#define MICA_PYTHON_TORCH_SIDE_OPAQUE_OPAQUE_H_

#include "absl/status/status.h"
#include "framework/kernel/kernel.h"
#include "framework/op/op_def.h"

namespace mica {

// For PlanOptions::prepare_aten: opaque operators, and Mica's own that are
// named and defined as ATen's are and do nothing but compute. Operands are lent
// to ATen where they are, those that it would write as copies; results are
// allocated in their places, or copied there where torch doesn't allocate them
// anew. Where the first operand dies and ATen has the operator in place, it
// becomes the result. A result of another size than the record's fails the run.
Verdict PrepareAten(const KernelRequest& request);
// The same for opaque operators alone, as the oracle wants it.
Verdict PrepareOpaque(const KernelRequest& request);

// True of the failure of a run for a result of another size than the record's.
bool IsSizeOfData(const absl::Status& failure);

// True if ATen's operator draws from a generator that all its calls share.
bool DrawsRandomNumbers(const OpDef& def);

}  // namespace mica

#endif  // MICA_PYTHON_TORCH_SIDE_OPAQUE_OPAQUE_H_
