// Elementwise ops merged into one.

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/op/region_code.h"
#include "ops/infer.h"
#include "ops/math/families.h"

namespace mica {
namespace {

// The results' dims are what the operands broadcast to, their dtypes are the
// code's.
absl::StatusOr<TensorTypes> InferRegion(const OpCall& call) {
  using Kind = RegionCode::Ref::Kind;
  MICA_ASSIGN_OR_RETURN(const RegionCode code,
                        RegionCode::Parse(call.String(1)));
  const std::vector<const TensorType*> types = call.Types(0);
  Dims dims;
  bool has_tensor = false;
  for (const TensorType* type : types) {
    if (IsComplex(type->dtype)) return call.Wants("real operands");
    has_tensor = has_tensor || !type->is_scalar;
    Dims all;
    if (!BroadcastDims(dims, type->dims, &all)) {
      return call.Wants("operands that broadcast");
    }
    dims = std::move(all);
  }
  if (!has_tensor) return call.Wants("a tensor");
  for (const RegionCode::Instruction& instruction : code.instructions) {
    for (const RegionCode::Ref& ref : instruction.operands) {
      if (ref.kind == Kind::kOperand &&
          ref.index >= static_cast<int>(types.size())) {
        return call.Wants(absl::StrCat("an operand ", ref.index));
      }
    }
  }
  TensorTypes results;
  for (int result : code.results) {
    results.push_back(
        FreshTensor(code.instructions[result].result_dtype(), dims));
  }
  return results;
}

}  // namespace

void RegisterRegionOps(OpRegistry& registry) {
  registry.Add(
      OpDef("mica::elementwise(Tensor[] operands, str code) -> Tensor[]")
          .Doc("Instructions on the operands' elements, one pass over memory; "
               "framework/op/region_code.h has their form.")
          .Infer(InferRegion));
}

}  // namespace mica
