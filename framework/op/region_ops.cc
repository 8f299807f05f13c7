#include "framework/op/region_ops.h"

#include "absl/container/flat_hash_map.h"

namespace mica {
namespace {

constexpr RegionOp kOps[] = {
#define MICA_REGION_OP(Name, name, arity, domain) \
  {RegionOpId::k##Name, name, arity, RegionDomain::domain},
    MICA_REGION_OPS(MICA_REGION_OP) MICA_REGION_REDUCTIONS(MICA_REGION_OP)
#undef MICA_REGION_OP
};

}  // namespace

bool RegionOp::Has(DType dtype) const {
  switch (domain) {
    case RegionDomain::kFloats:
      return IsFloating(dtype);
    case RegionDomain::kNumbers:
      return IsFloating(dtype) || IsIntegral(dtype);
    case RegionDomain::kIntegers:
      return IsIntegral(dtype);
    case RegionDomain::kBits:
      return IsIntegral(dtype) || dtype == DType::kBool;
    case RegionDomain::kAll:
      return !IsComplex(dtype);
  }
  return false;
}

absl::Span<const RegionOp> RegionOps() {
  return absl::MakeConstSpan(kOps).first(kNumRegionOps);
}
absl::Span<const RegionOp> RegionReductions() {
  return absl::MakeConstSpan(kOps).subspan(kNumRegionOps);
}
const RegionOp& RegionOpOf(RegionOpId id) { return kOps[static_cast<int>(id)]; }

const RegionOp* FindRegionOp(absl::string_view name) {
  static const auto& by_name = *[] {
    auto* map = new absl::flat_hash_map<absl::string_view, const RegionOp*>;
    for (const RegionOp& op : kOps) map->emplace(op.name, &op);
    return map;
  }();
  const auto it = by_name.find(name);
  return it == by_name.end() ? nullptr : it->second;
}

}  // namespace mica
