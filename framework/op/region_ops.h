// What is known of a region's operators: region_op_list.h has the table.

#ifndef MICA_FRAMEWORK_OP_REGION_OPS_H_
#define MICA_FRAMEWORK_OP_REGION_OPS_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/op/region_op_list.h"
#include "framework/tensor/dtype.h"

namespace mica {

struct RegionOp {
  RegionOpId id;
  absl::string_view name;
  int arity = 1;
  RegionDomain domain = RegionDomain::kFloats;

  bool compares() const {
    return id >= RegionOpId::kLt && id <= RegionOpId::kNe;
  }
  // Whether its expression is long, as those of exp or of a remainder are.
  bool is_function() const {
    return (id >= RegionOpId::kExp && id <= RegionOpId::kGeluTanh) ||
           (id >= RegionOpId::kPow && id <= RegionOpId::kFloorDiv);
  }
  bool reduces() const { return id >= RegionOpId::kSum; }
  bool Has(DType dtype) const;
};

// Those of elements, in the order of their ids, and the reductions behind them.
absl::Span<const RegionOp> RegionOps();
absl::Span<const RegionOp> RegionReductions();
// Of both; null if there is none of that name.
const RegionOp* FindRegionOp(absl::string_view name);
const RegionOp& RegionOpOf(RegionOpId id);

}  // namespace mica

#endif  // MICA_FRAMEWORK_OP_REGION_OPS_H_
