// Elementwise ops, and reductions of their results, merged into one.

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "framework/op/region_code.h"
#include "ops/infer.h"
#include "ops/math/families.h"

namespace mica {
namespace {

// What the operands broadcast to; an error if there is no such thing.
absl::StatusOr<Dims> BroadcastOperands(const OpCall& call) {
  Dims dims;
  bool has_tensor = false;
  for (const TensorType* type : call.Types(0)) {
    if (IsComplex(type->dtype)) return call.Wants("real operands");
    has_tensor = has_tensor || !type->is_scalar;
    Dims all;
    if (!BroadcastDims(dims, type->dims, &all)) {
      return call.Wants("operands that broadcast");
    }
    dims = std::move(all);
  }
  if (!has_tensor) return call.Wants("a tensor");
  return dims;
}

absl::Status CheckOperands(const OpCall& call, const RegionCode& code) {
  const int count = static_cast<int>(call.Types(0).size());
  for (const RegionCode::Instruction& instruction : code.instructions) {
    for (const RegionCode::Ref& ref : instruction.operands) {
      if (ref.kind == RegionCode::Ref::Kind::kOperand && ref.index >= count) {
        return call.Wants(absl::StrCat("an operand ", ref.index));
      }
    }
  }
  return absl::OkStatus();
}

// The results' dims are what the operands broadcast to, their dtypes are the
// code's.
absl::StatusOr<TensorTypes> InferRegion(const OpCall& call) {
  MICA_ASSIGN_OR_RETURN(const RegionCode code,
                        RegionCode::Parse(call.String(1)));
  MICA_ASSIGN_OR_RETURN(const Dims dims, BroadcastOperands(call));
  MICA_RETURN_IF_ERROR(CheckOperands(call, code));
  TensorTypes results;
  for (int result : code.results) {
    results.push_back(
        FreshTensor(code.instructions[result].result_dtype(), dims));
  }
  return results;
}

// The same; of what is reduced the dims are 1 along the axes.
absl::StatusOr<TensorTypes> InferReduction(const OpCall& call) {
  MICA_ASSIGN_OR_RETURN(const RegionCode code,
                        RegionCode::ParseReducing(call.String(1)));
  if (code.axes.empty()) return call.Wants("axes to reduce");
  MICA_ASSIGN_OR_RETURN(const Dims dims, BroadcastOperands(call));
  MICA_RETURN_IF_ERROR(CheckOperands(call, code));
  MICA_ASSIGN_OR_RETURN(
      const auto marked,
      MarkAxes(call, code.axes, static_cast<int>(dims.size())));
  const Dims kept = ReduceDims(dims, marked, Reduced::kKept);
  std::vector<bool> operands;
  for (const TensorType* type : call.Types(0)) {
    operands.push_back(BroadcastsTo(type->dims, kept));
  }
  const std::vector<bool> is_reduced = code.FindReduced(operands);
  TensorTypes results;
  for (int result : code.results) {
    results.push_back(FreshTensor(code.instructions[result].result_dtype(),
                                  is_reduced[result] ? kept : dims));
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
  registry.Add(OpDef("mica::reduce(Tensor[] operands, str code) -> Tensor[]")
                   .Doc("The same with reductions over axes, which stay as "
                        "dimensions of 1.")
                   .Infer(InferReduction));
}

}  // namespace mica
