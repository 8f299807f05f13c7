// The part of analysis that doesn't depend on sizes.

#ifndef MICA_ANALYSIS_PLAN_PLAN_STRUCTURE_H_
#define MICA_ANALYSIS_PLAN_PLAN_STRUCTURE_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "analysis/passes/pass.h"
#include "analysis/pipeline/pass_pipeline.h"
#include "framework/base/large_vector.h"
#include "framework/ir/content.h"
#include "framework/ir/program.h"

namespace mica {

// What the passes leave of a Program.
struct PassedProgram {
  Program program;
  // By op, bodies' own not among them: the flat id of the op of the Program
  // given that it comes from, -1 for none.
  LargeVector<OpId> origins;
};

// What the passes decide of all Programs of one structure: which ops are dead,
// which become one, in which order the rest stands. Two Programs that differ in
// sizes alone (StructureOf) share it.
//
// Most passes read sizes in few ways: whether two are equal, whether one is 0
// or 1, whether elements lie densely. All that is part of the structure, of
// bodies as of the Program around them. From the first pass on that reads more
// (Pass::reads_sizes), as layouts of images do, passes run for each Program's
// sizes; if that are most of them, there is nothing to share.
//
// Immutable: any number of Plans share one. The OpRegistry must outlive it.
class PlanStructure {
 public:
  // Runs passes over a static Program. `structure`, unless null, gets what
  // others may share of it; null if that is nothing. `sizes` are then its own
  // (StructureOf).
  static absl::StatusOr<PassedProgram> RunPasses(
      const Program& program, const PassPipeline& passes,
      const PassContext& context, const PassOptions& options,
      absl::Span<const OpenSize> sizes = {},
      std::shared_ptr<const PlanStructure>* structure = nullptr);

  // What RunPasses() would give for `program`, of the same structure.
  // `sizes` are its own. FailedPrecondition if that can't be told without
  // running it.
  absl::StatusOr<PassedProgram> Apply(const Program& program,
                                      absl::Span<const OpenSize> sizes,
                                      const PassContext& context,
                                      const PassOptions& options) const;

 private:
  PlanStructure() = default;
  static std::shared_ptr<const PlanStructure> Make(
      const Program& from, absl::Span<const OpenSize> sizes,
      const Program& passed, const PassPipeline& passes, int next_pass);

  PassPipeline passes_;
  Program passed_;     // As the first Program's sizes had it.
  int next_pass_ = 0;  // Of all passes: the first that isn't in passed_.
  std::vector<OpenSize> sizes_;  // StructureOf() of the first Program.
};

}  // namespace mica

#endif  // MICA_ANALYSIS_PLAN_PLAN_STRUCTURE_H_
