// Which kinds of fusion run: all, unless somebody looks for the one at fault.

#ifndef MICA_ANALYSIS_PIPELINE_FUSING_H_
#define MICA_ANALYSIS_PIPELINE_FUSING_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "analysis/passes/pass.h"
#include "analysis/pipeline/pass_pipeline.h"

namespace mica {

struct Fusing {
  PassPipeline passes;
  RegionLimits regions;
};

// What of `passes` runs by a setting such as the variable MICA_FUSE has:
//
//   off               no op is merged with another
//   -linear,-reductions   all kinds but these
//   regions=12        the first 12 regions of each Program, for who halves
//
// "" leaves all. InvalidArgument, with the kinds that there are, for another
// word.
absl::StatusOr<Fusing> FusingOf(absl::string_view setting,
                                const PassPipeline& passes);

}  // namespace mica

#endif  // MICA_ANALYSIS_PIPELINE_FUSING_H_
