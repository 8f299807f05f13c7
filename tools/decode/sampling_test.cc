#include "tools/decode/sampling.h"

#include <cmath>
#include <limits>
#include <vector>

#include "framework/base/test_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mica {
namespace {

using testing::HasSubstr;

// How often each token is picked, of so many draws.
std::vector<int> Count(const SamplingOptions& options,
                       const std::vector<float>& logits, int draws) {
  Sampler sampler(options);
  std::vector<int> counts(logits.size());
  for (int i = 0; i < draws; ++i) {
    const auto token = sampler.Pick(logits);
    EXPECT_TRUE(token.ok()) << token.status();
    ++counts[*token];
  }
  return counts;
}

TEST(SamplingTest, GreedyTakesTheFirstOfTheMostLikely) {
  Sampler sampler({});
  EXPECT_EQ(*sampler.Pick({1, 3, 2, 3}), 1);
  EXPECT_EQ(*sampler.Pick({-INFINITY, -INFINITY}), 0);
}

TEST(SamplingTest, DrawsByProbability) {
  const std::vector<float> logits = {0, std::log(2.0F), std::log(5.0F)};
  const std::vector<int> counts = Count({.temperature = 1}, logits, 80000);
  // 4 standard deviations of a binomial count.
  EXPECT_NEAR(counts[0], 10000, 375);
  EXPECT_NEAR(counts[1], 20000, 490);
  EXPECT_NEAR(counts[2], 50000, 550);
}

TEST(SamplingTest, TemperatureSharpens) {
  const std::vector<float> logits = {0, std::log(2.0F)};
  const std::vector<int> counts = Count({.temperature = 0.5}, logits, 50000);
  EXPECT_NEAR(counts[0], 10000, 360);
}

TEST(SamplingTest, TopKAndTopPLeaveOthersOut) {
  const std::vector<float> logits = {1, 4, 3, 4, 2};
  const std::vector<int> k =
      Count({.temperature = 1, .top_k = 3}, logits, 2000);
  EXPECT_EQ(k[0] + k[4], 0);
  EXPECT_GT(std::min({k[1], k[2], k[3]}), 0);
  // Both 4s have 0.39 each: together 0.79.
  const std::vector<int> p =
      Count({.temperature = 1, .top_p = 0.7}, logits, 2000);
  EXPECT_EQ(p[1] + p[3], 2000);
  // The first alone is enough.
  EXPECT_EQ(Count({.temperature = 1, .top_p = 0.3}, logits, 100)[1], 100);
}

TEST(SamplingTest, TheSeedDecides) {
  const std::vector<float> logits(100, 1.0F);
  const auto draw = [&](uint64_t seed) {
    Sampler sampler({.temperature = 1, .seed = seed});
    std::vector<int64_t> tokens;
    for (int i = 0; i < 10; ++i) tokens.push_back(*sampler.Pick(logits));
    return tokens;
  };
  EXPECT_EQ(draw(7), draw(7));
  EXPECT_NE(draw(7), draw(8));
}

TEST(SamplingTest, RefusesWhatIsNoNumber) {
  Sampler sampler({.temperature = 1});
  EXPECT_THAT(sampler.Pick({1, NAN}).status().message(),
              HasSubstr("token 1 is not a number"));
  EXPECT_FALSE(sampler.Pick({}).ok());
  EXPECT_EQ(*sampler.Pick({1, INFINITY, 2}), 1);
}

TEST(SamplingTest, RefusesWhatCannotBeMeant) {
  EXPECT_THAT(CheckSampling({.temperature = -1}).message(),
              HasSubstr("--temperature: wants 0 or more, got -1"));
  EXPECT_THAT(CheckSampling({.temperature = NAN}).message(),
              HasSubstr("--temperature"));
  EXPECT_THAT(CheckSampling({.top_k = -2}).message(), HasSubstr("--top_k"));
  EXPECT_THAT(CheckSampling({.top_p = 0}).message(), HasSubstr("--top_p"));
  MICA_EXPECT_OK(CheckSampling({.temperature = 0.7, .top_k = 5, .top_p = 1}));
}

}  // namespace
}  // namespace mica
