// Merges elementwise ops into regions.

#ifndef MICA_ANALYSIS_FUSE_REGIONS_H_
#define MICA_ANALYSIS_FUSE_REGIONS_H_

#include "absl/status/statusor.h"
#include "analysis/passes/pass.h"
#include "framework/ir/program.h"
#include "framework/kernel/kernel_registry.h"
#include "framework/op/op_registry.h"

namespace mica {

// A Program of the same meaning in which elementwise ops that read each other
// and have results of the same dims, of any real dtypes, are one
// mica.elementwise; their operands may be broadcast. With reductions among
// them, all along the same axes, they are one mica.reduce. An op alone becomes
// one if it is a function and no fast kernel may take it. It stands where the
// last of them stood; none of what they compute is read before that. Results
// that only they read are gone.
absl::StatusOr<Program> MergeElementwise(Program program, const OpRegistry& ops,
                                         const KernelRegistry& kernels,
                                         const RegionLimits& limits = {});

}  // namespace mica

#endif  // MICA_ANALYSIS_FUSE_REGIONS_H_
