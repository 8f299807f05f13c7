// The part of analysis that doesn't depend on sizes.

#ifndef MICA_ANALYSIS_PLAN_PLAN_STRUCTURE_H_
#define MICA_ANALYSIS_PLAN_PLAN_STRUCTURE_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "framework/ir/content.h"
#include "framework/ir/program.h"
#include "framework/kernel/kernel_registry.h"
#include "framework/op/op_registry.h"

namespace mica {

// What the passes leave of a Program.
struct PassedProgram {
  Program program;
  // By op: the op of the Program given that it comes from, -1 for none.
  LargeVector<OpId> origins;
};

// What the passes decide of all Programs of one structure: which ops are dead,
// which become one, in which order the rest stands. Two Programs that differ in
// sizes alone (StructureOf) share it.
//
// The passes read sizes in few ways: whether two are equal, whether one is 0 or
// 1, whether elements lie densely. All that is part of the structure, of bodies
// as of the Program around them. Passes that read more, the layouts of images,
// run for each Program's sizes behind these; Programs with ops whose fusion
// computes with sizes have no structure.
//
// Immutable: any number of Plans share one. The OpRegistry must outlive it.
class PlanStructure {
 public:
  // Runs all passes over a static Program. `structure`, unless null, gets what
  // others may share of it; null if that is nothing.
  static absl::StatusOr<PassedProgram> RunPasses(
      const Program& program, const OpRegistry& ops,
      const KernelRegistry& kernels,
      std::shared_ptr<const PlanStructure>* structure = nullptr);

  // What RunPasses() would give for `program`, of the same structure.
  // FailedPrecondition if that can't be told without running it.
  absl::StatusOr<PassedProgram> Apply(const Program& program,
                                      const OpRegistry& ops) const;

 private:
  PlanStructure() = default;
  static std::shared_ptr<const PlanStructure> Make(const Program& from,
                                                   const Program& passed);

  // As the first Program's sizes had it; lines are numbers (origin.h).
  Program passed_;
  std::vector<OpenSize> sizes_;  // StructureOf() of the first Program.
};

}  // namespace mica

#endif  // MICA_ANALYSIS_PLAN_PLAN_STRUCTURE_H_
