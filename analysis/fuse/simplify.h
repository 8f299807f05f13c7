// Rewrites what a program says in many ops to what it means.

#ifndef MICA_ANALYSIS_FUSE_SIMPLIFY_H_
#define MICA_ANALYSIS_FUSE_SIMPLIFY_H_

#include "absl/status/statusor.h"
#include "framework/ir/program.h"
#include "framework/kernel/kernel_registry.h"
#include "framework/op/op_registry.h"

namespace mica {

// A Program of the same meaning in which
// - a write of a whole tensor is a view of what was written, or a copy of it,
// - a copy that nobody can tell from what it copies is that; so is a first
//   power,
// - gradients of attention lie as a copy of them would,
// - the tanh form of gelu, spelt out, is aten.gelu,
// - attention layers are products, views and one attention,
// - what a layer norm reads is row-major.
// It comes before the passes that merge ops, and makes them find more.
absl::StatusOr<Program> Simplify(Program program, const OpRegistry& ops,
                                 const KernelRegistry& kernels);

}  // namespace mica

#endif  // MICA_ANALYSIS_FUSE_SIMPLIFY_H_
