// Plans for tests, from Programs' text.

#ifndef MICA_ANALYSIS_PLAN_PLAN_TESTING_H_
#define MICA_ANALYSIS_PLAN_PLAN_TESTING_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "analysis/plan/plan.h"
#include "framework/text/text.h"
#include "kernels/all.h"
#include "ops/all.h"

namespace mica {

inline absl::StatusOr<std::shared_ptr<const Plan>> PlanOf(
    absl::string_view text, const PlanOptions& options = {}) {
  absl::StatusOr<Program> program = ParseProgram(text, AllOps());
  if (!program.ok()) return program.status();
  return Plan::Build(*program, AllOps(), AllKernels(), options);
}

}  // namespace mica

#endif  // MICA_ANALYSIS_PLAN_PLAN_TESTING_H_
