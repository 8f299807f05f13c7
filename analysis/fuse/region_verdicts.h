// Why ops that could be one region aren't: for who reads what a fuser did.

#ifndef MICA_ANALYSIS_FUSE_REGION_VERDICTS_H_
#define MICA_ANALYSIS_FUSE_REGION_VERDICTS_H_

#include <string>
#include <vector>

#include "analysis/passes/pass.h"
#include "framework/ir/program.h"

namespace mica {

// An op reads what a member of a region could make, but isn't part of it.
struct RegionVerdict {
  ValueId value = kNoValue;
  OpId reader = -1;
  std::string reason;
};

// Of a Program as merge-elementwise gets it, in the order of the readers;
// bodies are left out.
std::vector<RegionVerdict> RegionVerdicts(const Program& program,
                                          const PassContext& context);

// A line each: "aten.exp (a.py:6) -> aten.mm (a.py:7): no rule takes it".
std::string RegionVerdictsText(const Program& program,
                               const PassContext& context);

}  // namespace mica

#endif  // MICA_ANALYSIS_FUSE_REGION_VERDICTS_H_
