// What it means that two Plans are the same one.

#ifndef MICA_TESTS_PROPERTY_EQUAL_PLANS_H_
#define MICA_TESTS_PROPERTY_EQUAL_PLANS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "analysis/plan/plan.h"

namespace mica {

// The Plan of `program` as it is stored and read again.
absl::StatusOr<std::shared_ptr<const Plan>> ThroughBytes(
    const Plan& plan, const Program& program, const PlanOptions& options);

// All of a Plan but labels.
void ExpectSamePlan(const Plan& a, const Plan& b);

// All of a Plan, the types of its Program and its labels included.
void ExpectEqualPlan(const Plan& a, const Plan& b);

// Both compute the same, bit for bit.
void ExpectSameRun(const std::shared_ptr<const Plan>& a,
                   const std::shared_ptr<const Plan>& b);

}  // namespace mica

#endif  // MICA_TESTS_PROPERTY_EQUAL_PLANS_H_
