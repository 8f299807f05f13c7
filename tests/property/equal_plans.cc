#include "tests/property/equal_plans.h"

#include <string>

#include "analysis/plan/plan_file.h"
#include "analysis/plan/plan_key.h"
#include "framework/base/status.h"
#include "framework/base/test_matchers.h"
#include "framework/ir/content.h"
#include "framework/text/text.h"
#include "kernels/all.h"
#include "ops/all.h"
#include "tests/property/runnable.h"

namespace mica {

absl::StatusOr<std::shared_ptr<const Plan>> ThroughBytes(
    const Plan& plan, const Program& program, const PlanOptions& options) {
  const PlanKey key = PlanKeyOf(program, options);
  MICA_ASSIGN_OR_RETURN(const std::string bytes,
                        EncodePlan(key, plan, AllOps()));
  return DecodePlan(bytes, key, program, AllOps(), AllKernels(), options);
}

void ExpectSamePlan(const Plan& a, const Plan& b) {
  ASSERT_EQ(a.steps().size(), b.steps().size());
  for (size_t i = 0; i < a.steps().size(); ++i) {
    EXPECT_EQ(a.steps()[i].kernel, b.steps()[i].kernel);
    EXPECT_EQ(a.steps()[i].op, b.steps()[i].op);
    EXPECT_EQ(a.steps()[i].first_arg, b.steps()[i].first_arg);
    EXPECT_EQ(a.steps()[i].num_args, b.steps()[i].num_args);
  }
  EXPECT_EQ(a.args(), b.args());
  EXPECT_EQ(a.fold_args(), b.fold_args());
  EXPECT_EQ(a.num_compute(), b.num_compute());
  EXPECT_EQ(a.arena_bytes(), b.arena_bytes());
  EXPECT_EQ(a.live_set_bytes(), b.live_set_bytes());
  ASSERT_EQ(a.packed().size(), b.packed().size());
  for (size_t i = 0; i < a.packed().size(); ++i) {
    EXPECT_EQ(a.packed()[i].from, b.packed()[i].from);
    EXPECT_EQ(a.packed()[i].bytes, b.packed()[i].bytes);
  }
}

void ExpectSameRun(const std::shared_ptr<const Plan>& a,
                   const std::shared_ptr<const Plan>& b) {
  MICA_ASSERT_OK_AND_ASSIGN(const Runnable x, MakeRunnable(a));
  MICA_ASSERT_OK_AND_ASSIGN(const Runnable y, MakeRunnable(b));
  MICA_ASSERT_OK(x.job->Run());
  MICA_ASSERT_OK(y.job->Run());
  EXPECT_TRUE(SameBytes(x, y));
}

void ExpectEqualPlan(const Plan& a, const Plan& b) {
  EXPECT_EQ(a.ToText(), b.ToText());
  EXPECT_EQ(ToText(a.program()), ToText(b.program()));
  EXPECT_EQ(ContentOf(a.program()), ContentOf(b.program()));
  EXPECT_EQ(a.arg_bytes(), b.arg_bytes());
  EXPECT_EQ(a.origins(), b.origins());
  EXPECT_EQ(a.streams().streams, b.streams().streams);
  ExpectSamePlan(a, b);
}

}  // namespace mica
