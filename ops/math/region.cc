// Elementwise ops merged into one.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/op/region_code.h"
#include "ops/infer.h"
#include "ops/math/families.h"

namespace mica {
namespace {

// Every operand is of the first one's type or a number of one element.
absl::StatusOr<TensorTypes> InferRegion(const OpCall& call) {
  using Kind = RegionCode::Ref::Kind;
  MICA_ASSIGN_OR_RETURN(const RegionCode code,
                        RegionCode::Parse(call.String(1)));
  const std::vector<const TensorType*> types = call.Types(0);
  if (types.empty() || !IsFloating(types[0]->dtype) || types[0]->is_scalar) {
    return call.Wants("a floating-point tensor first");
  }
  for (const TensorType* type : types) {
    if (type->rank() != 0 && !SameShape(*type, *types[0])) {
      return call.Wants("tensors of one type, and numbers,");
    }
  }
  for (const RegionCode::Instruction& instruction : code.instructions) {
    for (size_t i = 0; i < instruction.operands.size(); ++i) {
      const RegionCode::Ref& ref = instruction.operands[i];
      if (ref.kind != Kind::kOperand) continue;
      if (ref.index >= static_cast<int>(types.size())) {
        return call.Wants(absl::StrCat("an operand ", ref.index));
      }
      const bool is_number =
          static_cast<int>(i) >= instruction.op->num_elements;
      if (is_number && types[ref.index]->rank() != 0) {
        return call.Wants(absl::StrCat("operand ", ref.index, " a number"));
      }
    }
  }
  return TensorTypes(code.results.size(),
                     FreshTensor(types[0]->dtype, types[0]->dims));
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
