#include "tools/train/dataset.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "framework/base/test_matchers.h"
#include "framework/tensor/npy.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mica {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// 0, 1, 2 …
Tensor Counting(Dims dims) {
  auto tensor = Tensor::Allocate({.dims = dims});
  EXPECT_TRUE(tensor.ok());
  for (int64_t i = 0; i < tensor->type().num_elements(); ++i) {
    tensor->view().as<float>()[i] = static_cast<float>(i);
  }
  return *std::move(tensor);
}

TEST(DatasetTest, ReadsNpyFilesByName) {
  const std::string path = absl::StrCat(testing::TempDir(), "mica_rows.npy");
  MICA_ASSERT_OK(WriteNpy(path, Counting({3, 2}).view()));
  MICA_ASSERT_OK_AND_ASSIGN(const Dataset data,
                            Dataset::Read("data", absl::StrCat("x=", path)));
  EXPECT_EQ(data.num_rows(), 3);
  EXPECT_EQ(data.ToString(), "x f32[3,2]");
  EXPECT_EQ(data.Find("y"), nullptr);
}

TEST(DatasetTest, WhatCanNotBeReadIsNamed) {
  EXPECT_THAT(Dataset::Read("data", "x=/nowhere/x.npy").status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("x.npy")));
  EXPECT_THAT(Dataset::Read("data", "/nowhere/x.safetensors").status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("x.safetens")));
  EXPECT_THAT(Dataset::Make("d", {}).status(),
              StatusIs(kInvalid, HasSubstr("no tensor")));
  EXPECT_THAT(Dataset::Make("d", {{"x", Counting({})}}).status(),
              StatusIs(kInvalid, HasSubstr("x: wants a tensor with rows")));
  EXPECT_THAT(Dataset::Make("d", {{"x", Counting({0, 2})}}).status(),
              StatusIs(kInvalid, HasSubstr("got f32[0,2]")));
  EXPECT_THAT(
      Dataset::Make("d", {{"x", Counting({3})}, {"y", Counting({4})}}).status(),
      StatusIs(kInvalid, HasSubstr("y has 4 rows where x has 3")));
}

TEST(DatasetTest, BatchesHaveToFitTheRows) {
  MICA_ASSERT_OK_AND_ASSIGN(const Dataset data,
                            Dataset::Make("d", {{"x", Counting({9, 2})}}));
  MICA_EXPECT_OK(data.CheckBatch("x", {.dims = {4, 2}}));
  EXPECT_THAT(
      data.CheckBatch("x", {.dims = {4, 3}}),
      StatusIs(kInvalid, HasSubstr("batches are f32[4,3], got f32[9,")));
  EXPECT_THAT(data.CheckBatch("x", {.dtype = DType::kF64, .dims = {4, 2}}),
              StatusIs(kInvalid, HasSubstr("f64[4,2]")));
  EXPECT_THAT(data.CheckBatch("y", {.dims = {4, 2}}),
              StatusIs(kInvalid, HasSubstr("wants \"y\"")));
}

TEST(DatasetTest, RowsAreCopiedInTheOrderThatIsAsked) {
  std::vector<float> got(4);
  CopyRows(Counting({3, 2}), {2, 0}, got.data());
  EXPECT_THAT(got, ElementsAre(4, 5, 0, 1));
}

TEST(DatasetTest, FingerprintsTellContentsAndNamesApart) {
  auto fingerprint = [](std::string name, float first) {
    Tensor tensor = Counting({3, 2});
    tensor.view().as<float>()[0] = first;
    return Dataset::Make("d", {{name, tensor}})->Fingerprint();
  };
  EXPECT_EQ(fingerprint("x", 0), fingerprint("x", 0));
  EXPECT_NE(fingerprint("x", 0), fingerprint("x", 1));
  EXPECT_NE(fingerprint("x", 0), fingerprint("y", 0));
}

TEST(EpochOrderTest, IsAPermutationThatSeedAndEpochDecide) {
  const std::vector<int64_t> order = EpochOrder(7, 3, 100);
  EXPECT_EQ(order, EpochOrder(7, 3, 100));
  EXPECT_NE(order, EpochOrder(7, 4, 100));
  EXPECT_NE(order, EpochOrder(8, 3, 100));
  std::vector<int64_t> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  for (int64_t i = 0; i < 100; ++i) EXPECT_EQ(sorted[i], i);
  EXPECT_THAT(EpochOrder(1, 0, 1), ElementsAre(0));
}

TEST(EpochOrderTest, PutsEachSampleInEachHalfAboutAsOften) {
  constexpr int kEpochs = 2000;
  std::vector<int> first_half(10);
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    const std::vector<int64_t> order = EpochOrder(0, epoch, 10);
    for (int i = 0; i < 5; ++i) ++first_half[order[i]];
  }
  // Six standard deviations.
  for (int count : first_half) EXPECT_NEAR(count, kEpochs / 2, 135);
}

}  // namespace
}  // namespace mica
