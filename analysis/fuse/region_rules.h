// What an op is as a region's instructions.

#ifndef MICA_ANALYSIS_FUSE_REGION_RULES_H_
#define MICA_ANALYSIS_FUSE_REGION_RULES_H_

#include <cstdint>
#include <variant>
#include <vector>

#include "framework/ir/program.h"
#include "framework/op/region_code.h"

namespace mica {

// An operand of a translated instruction: a value of the program, a number, or
// an earlier instruction of the same op.
struct RegionStep {
  struct Made {
    int index = 0;
    friend bool operator==(const Made&, const Made&) = default;
  };
  const RegionOp* op = nullptr;
  DType dtype = DType::kF32;
  std::vector<std::variant<ValueId, double, Made>> operands;
};

// An op as a region's instructions.
struct RegionMember {
  // The last one makes the op's first result. None where no rule takes it.
  std::vector<RegionStep> steps;
  // Those that its reductions go along, of its first operand, in order; none
  // if it reduces nothing.
  std::vector<int64_t> axes;
  bool is_reduced = false;  // Its result.
};

// Says nothing of how operands lie, nor of further results: of an op that has
// some the steps stand for it only where nobody reads them.
RegionMember RegionMemberOf(const Program& program, const Op& op);

}  // namespace mica

#endif  // MICA_ANALYSIS_FUSE_REGION_RULES_H_
