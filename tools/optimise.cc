#include "tools/optimise.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "analysis/fuse/region_verdicts.h"
#include "framework/base/status.h"
#include "framework/text/text.h"
#include "kernels/all.h"
#include "ops/all.h"

namespace mica {

absl::StatusOr<std::string> OptimiseText(absl::string_view text,
                                         const PassPipeline& passes,
                                         const PassOptions& options) {
  MICA_ASSIGN_OR_RETURN(Program program, ParseProgram(text, AllOps()));
  MICA_ASSIGN_OR_RETURN(program, passes.Run(std::move(program),
                                            {AllOps(), AllKernels()}, options));
  return ToText(program);
}

absl::StatusOr<std::string> VerdictsOfText(absl::string_view text,
                                           const PassPipeline& passes) {
  MICA_ASSIGN_OR_RETURN(Program program, ParseProgram(text, AllOps()));
  const PassContext context{AllOps(), AllKernels()};
  MICA_ASSIGN_OR_RETURN(program, passes.Run(std::move(program), context));
  return RegionVerdictsText(program, context);
}

std::string ListPasses() {
  std::string lines;
  int number = 0;
  for (const Pass* pass : PassPipeline::Known().passes()) {
    absl::StrAppendFormat(&lines, "%2d  %-20s %s%s\n", ++number, pass->name,
                          pass->contract,
                          pass->reads_sizes == nullptr ? "" : " Reads sizes.");
  }
  return lines;
}

}  // namespace mica
