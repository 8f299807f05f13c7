// What decides a Plan: the Program's content, the options, the code and the
// machine.

#ifndef MICA_ANALYSIS_PLAN_PLAN_KEY_H_
#define MICA_ANALYSIS_PLAN_PLAN_KEY_H_

#include <cstdint>
#include <string>
#include <tuple>

#include "analysis/plan/plan.h"
#include "framework/base/fingerprint.h"
#include "framework/ir/program.h"

namespace mica {

// Plans of equal keys are equal but for labels. Equality compares all bytes:
// the fingerprint, stable across processes and machines, only finds.
struct PlanKey {
  LargeString content;  // ContentOf(program).
  // Options (threads too), the build, versions of libraries, CPU features; the
  // opaque operators' hook only as far as whether there is one.
  std::string setting;
  Fingerprint fingerprint;
  friend bool operator==(const PlanKey&, const PlanKey&) = default;
};

// `program` must be static.
PlanKey PlanKeyOf(const Program& program, const PlanOptions& options);

// All fields of the options that decide a Plan, to compare, but the opaque
// operators' hook.
using PlanFields =
    std::tuple<int, bool, double, int, double, bool, Precision, bool,
               std::string, bool, bool, bool, bool, int64_t>;
PlanFields PlanFieldsOf(const PlanOptions& options);

// The part of the key that isn't the Program's.
std::string PlanSettingOf(const PlanOptions& options);

}  // namespace mica

#endif  // MICA_ANALYSIS_PLAN_PLAN_KEY_H_
