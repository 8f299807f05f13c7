#include "analysis/layout/manner.h"

#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "analysis/cost/op_work.h"
#include "framework/op/op_def.h"

namespace mica {
namespace {

bool HasImageKernels(DType dtype) {
  return dtype == DType::kF32 || IsHalf(dtype);
}

}  // namespace

Manner MannerOf(const Program& program, const Op& op,
                const std::vector<int>& uses) {
  if (op.results.empty()) return Manner::kInsists;
  const absl::string_view name = op.def->name();
  const TensorType& result = program.type(op.results[0]);
  if (IsConvolution(op)) {
    const bool leads = result.rank() == 4 && HasImageKernels(result.dtype) &&
                       !std::get<bool>(op.arguments[6]);
    return leads ? Manner::kLeads : Manner::kInsists;
  }
  if (op.def->is_elementwise()) return Manner::kFollows;
  if (!HasImageKernels(result.dtype)) return Manner::kInsists;
  if (name == "aten.max_pool2d_with_indices") {
    return uses[op.results[1]] == 0 ? Manner::kFollows : Manner::kInsists;
  }
  static const absl::flat_hash_set<absl::string_view> following = {
      "aten.avg_pool2d",
      "aten._adaptive_avg_pool2d",
      "aten.cat",
      "aten.constant_pad_nd",
      "mica.scale_channels",
      "aten.upsample_nearest2d",
      "aten._upsample_nearest_exact2d",
      "aten.reflection_pad2d",
      "aten.replication_pad2d"};
  if (following.contains(name)) return Manner::kFollows;
  static const absl::flat_hash_set<absl::string_view> reducing = {
      "aten.mean.dim", "aten.clone", "aten._to_copy"};
  return reducing.contains(name) ? Manner::kReduces : Manner::kInsists;
}

}  // namespace mica
