// A Plan as bytes, for a disk.

#ifndef MICA_ANALYSIS_PLAN_PLAN_FILE_H_
#define MICA_ANALYSIS_PLAN_PLAN_FILE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "analysis/plan/plan.h"
#include "analysis/plan/plan_key.h"

namespace mica {

// A checksum, the key, the fused Program's text, the names of the kernels and
// the place of each operand. What kernels prepare is code and addresses of this
// process; it is made anew by the kernels that are named.
//
// Unimplemented, naming the ops with the user's lines, for opaque ones, which
// run as code of the process that holds them, and for constants that the text
// form doesn't give back bit for bit.
absl::StatusOr<std::string> EncodePlan(const PlanKey& key, const Plan& plan,
                                       const OpRegistry& ops);

// The Plan that EncodePlan() was given, with the lines of `program`, which is
// of the key `key`. Runs no pass, asks no kernel but the named ones, packs no
// arena. NotFound if the bytes hold a Plan of another key, DataLoss if they
// are damaged or say what doesn't fit: each field is checked, and in the end
// the Plan's text is compared.
absl::StatusOr<std::shared_ptr<const Plan>> DecodePlan(
    absl::string_view bytes, const PlanKey& key, const Program& program,
    const OpRegistry& ops, const KernelRegistry& kernels,
    const PlanOptions& options);

// What a listing says of stored bytes.
struct PlanFileInfo {
  std::string program;      // "@name, 41 steps"
  bool is_current = false;  // Made by this build for this machine.
};
// DataLoss if the checksum or the frame is wrong.
absl::StatusOr<PlanFileInfo> InspectPlanFile(absl::string_view bytes);

}  // namespace mica

#endif  // MICA_ANALYSIS_PLAN_PLAN_FILE_H_
