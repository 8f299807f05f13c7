// Runs that end once an output is another than it is expected to be.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "executor/job/job.h"
#include "executor/tensors_testing.h"
#include "framework/base/test_matchers.h"
#include "kernels/all.h"
#include "ops/all.h"

namespace mica {
namespace {

// What %first is decides whether %last is wanted. %sum lies in its memory
// before it does.
constexpr char kText[] = R"(program @p(%x: f32[4]) {
  %w = variable "w" : f32[4]
  %sum = aten.sum(%x) : f32[]
  %first = aten.neg(%sum) : f32[]
  %last = aten.exp(%x) : f32[4]
  %next = aten.add.Tensor(%w, %last) : f32[4]
  update %w = %next
  return %first, %last
}
)";

std::string BytesOf(float number) {
  return std::string(reinterpret_cast<const char*>(&number), sizeof number);
}

class ExpectationTest : public testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    MICA_ASSERT_OK_AND_ASSIGN(
        const auto plan,
        Plan::Build(*ParseShared(kText), AllOps(), AllKernels(),
                    {.num_streams = GetParam(), .fuse = false}));
    MICA_ASSERT_OK_AND_ASSIGN(auto binding,
                              Binding::Create(plan, {ViewOf(w_, {4})}));
    MICA_ASSERT_OK_AND_ASSIGN(job_, Job::Create(std::move(binding)));
    job_->SetInput(0, x_.data());
    job_->SetVariable(0, w_.data());
    job_->SetOutput(0, &first_);
    job_->SetOutput(1, last_.data());
  }

  std::vector<float> x_ = {1, 2, 3, 4}, w_ = {0, 0, 0, 0};
  std::vector<float> last_ = {-1, -1, -1, -1};
  float first_ = 0;
  std::unique_ptr<Job> job_;
};

TEST_P(ExpectationTest, WhatIsAsExpectedRuns) {
  job_->Expect(0, BytesOf(-10));
  MICA_EXPECT_OK(job_->Run());
  EXPECT_EQ(job_->unexpected_output(), -1);
  EXPECT_EQ(first_, -10);
  EXPECT_GT(w_[3], 54);
}

TEST_P(ExpectationTest, WhatIsNotEndsTheRunBeforeItCommits) {
  job_->Expect(0, BytesOf(7));
  EXPECT_THAT(job_->Run(), StatusIs(absl::StatusCode::kAborted, testing::_));
  EXPECT_EQ(job_->unexpected_output(), 0);
  EXPECT_EQ(w_[3], 0);
  if (GetParam() == 1) {
    EXPECT_EQ(last_[0], -1);  // Nor was that computed.
  }
  x_ = {-7, 0, 0, 0};
  MICA_EXPECT_OK(job_->Run());
  EXPECT_EQ(job_->unexpected_output(), -1);
  EXPECT_EQ(w_[3], 1);
}

INSTANTIATE_TEST_SUITE_P(Streams, ExpectationTest, testing::Values(1, 2));

}  // namespace
}  // namespace mica
