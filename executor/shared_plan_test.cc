// What users of one shared Plan see of each other: nothing.

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "analysis/program_testing.h"
#include "executor/executor.h"
#include "framework/base/test_matchers.h"
#include "framework/text/text.h"
#include "kernels/all.h"
#include "ops/all.h"

namespace mica {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr char kLookUp[] = R"(program @look(%i: i64[1]) {
  %w = variable "first.table" : f32[2,2]
  %n = aten.neg(%w) : f32[2,2] @ "first.py":6
  %d = aten.exp(%w) : f32[2,2] @ "first.py":7
  %e = aten.embedding(%n, %i) : f32[1,2] @ "first.py":8
  return %e
}
)";

class SharedPlanTest : public testing::Test {
 protected:
  std::unique_ptr<Executor> NewExecutor(const PlanOptions& options = {}) {
    auto executor =
        Executor::Create(Place(), AllOps(), AllKernels(), options, plans_);
    EXPECT_THAT(executor, IsOk());
    return *std::move(executor);
  }
  TensorView Index() {
    return {.data = &index_, .type = {.dtype = DType::kI64, .dims = {1}}};
  }
  TensorView Table() {
    return {.data = table_.data(),
            .type = {.dtype = DType::kF32, .dims = {2, 2}}};
  }

  const std::shared_ptr<PlanCache> plans_ =
      std::make_shared<PlanCache>(AllOps(), AllKernels());
  // The same but for all labels; there is a dead op before the one that fails.
  const std::shared_ptr<const Program> first_ = ParseShared(kLookUp);
  const std::shared_ptr<const Program> second_ =
      ParseShared(absl::StrReplaceAll(
          kLookUp, {{"first", "second"}, {"%i", "%index"}, {":8", ":80"}}));
  int64_t index_ = 1;
  std::vector<float> table_ = {1, 2, 3, 4};
};

TEST_F(SharedPlanTest, FeedsAndVariablesGoByTheNamesOfTheProgramAtHand) {
  const auto first = NewExecutor();
  const auto second = NewExecutor();
  MICA_ASSERT_OK_AND_ASSIGN(
      auto results,
      first->Run(first_, {{"i", Index()}}, {{"first.table", Table()}}, {}));
  MICA_ASSERT_OK_AND_ASSIGN(auto others,
                            second->Run(second_, {{"index", Index()}},
                                        {{"second.table", Table()}}, {}));
  EXPECT_EQ(plans_->stats().built, 1);
  const float* y = static_cast<const float*>(others[0].data());
  EXPECT_THAT(std::vector<float>(y, y + 2), ElementsAre(-3, -4));
  EXPECT_THAT(second->Run(second_, {{"index", Index()}}, {}, {}),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("\"second.table\" has no value")));
  TensorView wrong = Table();
  wrong.type.dims = {4};
  EXPECT_THAT(
      second->Run(second_, {{"index", Index()}}, {{"second.table", wrong}}, {}),
      StatusIs(absl::StatusCode::kInvalidArgument,
               HasSubstr("\"second.table\": wants")));
}

TEST_F(SharedPlanTest, AFailingRunNamesTheLineOfTheProgramAtHand) {
  const auto first = NewExecutor();
  const auto second = NewExecutor();
  index_ = 9;
  EXPECT_THAT(
      first->Run(first_, {{"i", Index()}}, {{"first.table", Table()}}, {}),
      StatusIs(testing::_, HasSubstr("(first.py:8)")));
  EXPECT_THAT(second->Run(second_, {{"index", Index()}},
                          {{"second.table", Table()}}, {}),
              StatusIs(testing::_, AllOf(HasSubstr("(second.py:80)"),
                                         Not(HasSubstr("first")))));
  EXPECT_EQ(plans_->stats().built, 1);
}

}  // namespace
}  // namespace mica
