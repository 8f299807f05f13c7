// Passes over a Program's text, as mica_opt runs them.

#ifndef MICA_TOOLS_OPTIMISE_H_
#define MICA_TOOLS_OPTIMISE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "analysis/pipeline/pass_pipeline.h"

namespace mica {

// Why ops that could be one region aren't, in the Program that the passes leave
// (analysis/fuse/region_verdicts.h).
absl::StatusOr<std::string> VerdictsOfText(absl::string_view text,
                                           const PassPipeline& passes);

// The text of what the passes leave of a Program. InvalidArgument for a text
// that is none; else what PassPipeline::Run() says.
absl::StatusOr<std::string> OptimiseText(absl::string_view text,
                                         const PassPipeline& passes,
                                         const PassOptions& options);

// A line for each pass: its number, its name, its contract; "reads sizes" where
// it may.
std::string ListPasses();

}  // namespace mica

#endif  // MICA_TOOLS_OPTIMISE_H_
