// Elementwise operators that run as regions of their own where ATen's kernels
// are loops over single elements, or where an operator gives more than one
// result. Where others stand beside them they are regions anyway
// (analysis/fuse/region_rules.h).

#include <optional>
#include <string>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "framework/op/region_code.h"
#include "framework/tensor/half.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/region.h"

namespace mica::cpu {
namespace {

// In a code T is the dtype of the first operand, C what that is computed in,
// and N the number given for parameter 1, rounded to T.
Verdict PrepareLone(const KernelRequest& request, absl::string_view code) {
  const DType own = request.operands[0].type.dtype;
  for (const Operand& operand : request.operands) {
    if (operand.type.dtype != own || operand.type.is_scalar) {
      return No{"operands of several types"};
    }
  }
  if (request.results[0].type.num_elements() == 0) return No{"no elements"};
  constexpr int kAlpha = 2;
  if (request.arguments->size() > kAlpha &&
      (!request.Has(kAlpha) || request.Number(kAlpha) != 1)) {
    return No{"a factor"};
  }
  const size_t wanted = absl::StrContains(code, "%1") ? 2 : 1;
  if (request.operands.size() != wanted) return No{"a number for a tensor"};
  std::string number;
  if (absl::StrContains(code, "N")) {
    const Argument& argument = (*request.arguments)[1];
    if (!std::holds_alternative<double>(argument) &&
        !std::holds_alternative<int64_t>(argument)) {
      return No{"the number varies"};
    }
    number = absl::StrFormat("%.17g", RoundedTo(own, request.Number(1)));
  }
  const auto region = RegionCode::Parse(
      absl::StrReplaceAll(code, {{"T", DTypeName(own)},
                                 {"C", DTypeName(ComputeDType(own))},
                                 {"N", number}}));
  if (!region.ok()) return No{"malformed code"};
  return PrepareRegionCode(request, *region);
}

}  // namespace

void RegisterLoneRegions(KernelRegistry& registry) {
  const auto add = [&registry](absl::string_view op, std::string code,
                               absl::Span<const DType> dtypes) {
    registry.Add(op, dtypes, KernelRank::kFast,
                 {"cpu.region", [code](const KernelRequest& request) {
                    return PrepareLone(request, code);
                  }});
  };
  constexpr DType kFloats[] = {DType::kF32, DType::kF64, DType::kBF16,
                               DType::kF16};
  constexpr DType kHalves[] = {DType::kBF16, DType::kF16};
  add("aten.isnan", "ne.T %0 %0 -> $0", kFloats);
  add("aten.sign", "sign.T %0 -> $0", kHalves);
  add("aten.sgn", "sign.T %0 -> $0", kHalves);
  add("aten.frac", "trunc.C %0; sub.T %0 $0 -> $1", kHalves);
  // Of operands that lie in different ways.
  for (absl::string_view op : {"add", "sub", "mul", "div"}) {
    add(absl::StrCat("aten.", op, ".Tensor"),
        absl::StrCat(op, ".T %0 %1 -> $0"), kHalves);
  }
  for (absl::string_view compare : {"eq", "ne", "lt", "le", "gt", "ge"}) {
    const std::string op = absl::StrCat("aten.", compare);
    add(absl::StrCat(op, ".Tensor"), absl::StrCat(compare, ".T %0 %1 -> $0"),
        kHalves);
    add(absl::StrCat(op, ".Scalar"), absl::StrCat(compare, ".T %0 N -> $0"),
        kHalves);
  }
  // min(x, 0) - log1p(exp(-|x|)), and the exponential.
  add("aten.log_sigmoid_forward",
      "abs.C %0; neg.C $0; exp.C $1; log1p.C $2; minimum.C %0 0; sub.T $4 $3; "
      "cast.T $2 -> $5 $6",
      kFloats);
}

}  // namespace mica::cpu
