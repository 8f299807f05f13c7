// What an op is as a region's instructions.

#ifndef MICA_ANALYSIS_FUSE_REGION_RULES_H_
#define MICA_ANALYSIS_FUSE_REGION_RULES_H_

#include <functional>
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

// The instructions of a call, the last one making its only result; none where
// no rule takes it. Says nothing of how operands lie.
std::vector<RegionStep> RegionStepsOf(const Program& program, const Op& op);

}  // namespace mica

#endif  // MICA_ANALYSIS_FUSE_REGION_RULES_H_
