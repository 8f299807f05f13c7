// What the steps of a Plan touch, cost and may do.

#ifndef MICA_ANALYSIS_PLAN_STEP_FACTS_H_
#define MICA_ANALYSIS_PLAN_STEP_FACTS_H_

#include <vector>

#include "analysis/plan/plan.h"
#include "analysis/streams/hazards.h"

namespace mica {

// What steps begin..end - 1 of a Plan read and write, in numbers of their own
// from 0 on: bytes of the arena, of inputs, variables and outputs. Operators
// with an effect beside their results (random numbers, opaque ones) write one
// place that stands for the world, so that their order stays.
StepAccesses AccessesOf(const Plan& plan, StepId begin, StepId end);

// An estimate of how long each of these steps takes on one core, in
// nanoseconds, from their types alone: bytes moved, and multiplications of
// products and convolutions.
std::vector<double> CostsOf(const Plan& plan, StepId begin, StepId end);
// The same of an op.
double CostOf(const Program& program, const Op& op);

// Which of these steps have an effect beside their results, or are ATen's: they
// belong on the caller's thread, whose state they may look at.
std::vector<bool> HasEffects(const Plan& plan, StepId begin, StepId end);

// Which of these steps are ATen's: they may use OpenMP's threads.
std::vector<bool> AreAtens(const Plan& plan, StepId begin, StepId end);

}  // namespace mica

#endif  // MICA_ANALYSIS_PLAN_STEP_FACTS_H_
