#include "analysis/sizes/symbolic_program.h"

#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "analysis/passes/rewrite.h"
#include "analysis/sizes/polynomial_fit.h"
#include "framework/base/test_matchers.h"
#include "framework/text/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ops/all.h"

namespace mica {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(PolynomialFitTest, FindsWholeCoefficients) {
  std::vector<std::vector<int64_t>> points;
  std::vector<int64_t> values, halves;
  for (int64_t a = 2; a < 8; ++a) {
    for (int64_t b = 3; b < 9; ++b) {
      points.push_back({a, b});
      values.push_back(7 * a * a * b - 3 * b + 5);
      halves.push_back(a * b / 2);
    }
  }
  const PolynomialFit fit(2, points);
  ASSERT_TRUE(fit.is_determined());
  const auto found = fit.Find(values);
  ASSERT_TRUE(found.has_value());
  for (size_t i = 0; i < found->size(); ++i) {
    const PolynomialFit::Product& product = fit.products()[i];
    const int64_t wanted = product == PolynomialFit::Product{0, 0, 1} ? 7
                           : product == PolynomialFit::Product{1}     ? -3
                           : product.empty()                          ? 5
                                                                      : 0;
    EXPECT_EQ((*found)[i], wanted);
  }
  EXPECT_FALSE(fit.Find(halves).has_value());
}

TEST(PolynomialFitTest, WantsPointsToSpare) {
  EXPECT_FALSE(PolynomialFit(1, {{2}, {3}, {4}, {5}}).is_determined());
  EXPECT_FALSE(PolynomialFit(1, {{2}, {2}, {2}, {3}, {3}, {4}, {4}, {4}, {4}})
                   .is_determined());
}

TEST(PolynomialFitTest, FindsAQuotientThatNoOtherIsLike) {
  std::vector<int64_t> at, down, few_at, few;
  for (int64_t i = 20; i < 60; ++i) {
    at.push_back(i);
    down.push_back((3 * i + 5) / 8);
  }
  const auto found = PolynomialFit::FindQuotient(at, down);
  ASSERT_TRUE(found.has_value());
  for (const int64_t i : {2, 7, 100, 301}) {
    EXPECT_EQ((found->factor * i + found->summand) / found->divisor,
              (3 * i + 5) / 8);
  }
  // (i + 10) / 3 is another.
  EXPECT_FALSE(PolynomialFit::FindQuotient({20, 21}, {10, 10}).has_value());
}

// A Program at n: $N is n, $H is (n + 1) / 2, $T is three times n.
Program At(int64_t n, const std::string& text) {
  auto program =
      ParseProgram(absl::StrReplaceAll(text, {{"$N", absl::StrCat(n)},
                                              {"$H", absl::StrCat((n + 1) / 2)},
                                              {"$T", absl::StrCat(3 * n)}}),
                   AllOps());
  EXPECT_TRUE(program.ok()) << program.status();
  return *std::move(program);
}

absl::StatusOr<Program> Generalised(const std::string& text) {
  std::vector<SizedProgram> samples;
  for (const auto& sizes : SizesToSample({10}, {2}, {1000})) {
    const int64_t n = sizes[0];
    samples.push_back({sizes,
                       At(n, text),
                       {{n, 1, ">=", 2}, {n, 1, "<", 500}, {7, 1, "<", 9}}});
  }
  return MakeSymbolic({"n"}, samples, AllOps());
}

constexpr char kText[] = R"(
program @f(%x: f32[$N,3], %y: f32[1,1,$N,$N]) {
  %w = variable "w" : f32[1,1,3,3]
  %k = constant $N : i64
  %t = aten.t(%x) : f32[3,$N]{1,3}
  %c = aten.clone(%t) : f32[3,$N]
  %v = aten.view(%c, [$T]) : f32[$T]
  %s = aten.slice.Tensor(%v, 0, 2, $N) : f32[$M]
  %m = aten.mul.Tensor(%s, %k) : f32[$M]
  %h = aten.convolution(%y, %w, none, [2, 2], [1, 1], [1, 1], false, [0, 0], 1) : f32[1,1,$H,$H]
  return %m, %h
})";

TEST(SymbolicProgramTest, IsEachProgramAtItsSize) {
  const auto at = [](int64_t n) {
    return absl::StrReplaceAll(kText, {{"$M", absl::StrCat(n - 2)}});
  };
  std::vector<SizedProgram> samples;
  for (const auto& sizes : SizesToSample({10}, {3}, {1000})) {
    samples.push_back({sizes, At(sizes[0], at(sizes[0])), {}});
  }
  MICA_ASSERT_OK_AND_ASSIGN(const Program made,
                            MakeSymbolic({"n"}, samples, AllOps()));
  const std::string text = ToText(made);
  EXPECT_THAT(text, HasSubstr("%x: f32[n,3], %y: f32[1,1,n,n]"));
  EXPECT_THAT(text, HasSubstr("aten.slice.Tensor(%v, start=2, end=n)"
                              " : f32[\"n-2\"]"));
  EXPECT_THAT(text, HasSubstr("mica.size(n) : i64"));
  EXPECT_THAT(text, HasSubstr("f32[1,1,\"(n+1)/2\",\"(n+1)/2\"]"));
  // It is read back as it was.
  MICA_ASSERT_OK_AND_ASSIGN(const Program read, ParseProgram(text, AllOps()));
  EXPECT_EQ(ToText(read), text);
  for (const int64_t n : {5, 64, 333}) {
    MICA_ASSERT_OK_AND_ASSIGN(const Program fixed,
                              Specialise(read, {{"n", n}}, AllOps()));
    EXPECT_TRUE(fixed.is_static());
    EXPECT_EQ(fixed.type(fixed.FindValue("m")),
              At(n, at(n)).type(At(n, at(n)).FindValue("m")));
  }
}

TEST(SymbolicProgramTest, ConditionsAreChecked) {
  MICA_ASSERT_OK_AND_ASSIGN(const Program made, Generalised(R"(
program @f(%x: f32[$N]) {
  %y = aten.relu(%x) : f32[$N]
  return %y
})"));
  // One that always holds is none.
  EXPECT_THAT(ToText(made), Not(HasSubstr("9")));
  MICA_EXPECT_OK(Specialise(made, {{"n", 499}}, AllOps()));
  for (const int64_t n : {1, 500}) {
    const auto fixed = Specialise(made, {{"n", n}}, AllOps());
    EXPECT_THAT(fixed.status().message(),
                HasSubstr("sizes that the program doesn't hold for: wants"));
  }
}

TEST(SymbolicProgramTest, RefusesNumbersThatFollowFromNothing) {
  // Which argument a quotient is of nobody checks afterwards.
  const auto made = Generalised(R"(
program @f(%x: f32[$N]) {
  %y = aten.roll(%x, [$H], [0]) : f32[$N]
  return %y
})");
  EXPECT_THAT(made.status().message(), HasSubstr("aten.roll"));
  EXPECT_THAT(made.status().message(),
              HasSubstr("follows from no sizes in a known way"));
}

TEST(SymbolicProgramTest, RefusesOtherOps) {
  std::vector<SizedProgram> samples;
  for (const auto& sizes : SizesToSample({10}, {2}, {1000})) {
    samples.push_back(
        {sizes,
         At(sizes[0],
            absl::StrReplaceAll(R"(
program @f(%x: f32[$N]) {
  %y = aten.$OP(%x) : f32[$N]
  return %y
})",
                                {{"$OP", sizes[0] > 15 ? "relu" : "neg"}})),
         {}});
  }
  EXPECT_THAT(MakeSymbolic({"n"}, samples, AllOps()).status().message(),
              HasSubstr("is aten.relu at n="));
}

TEST(SizesToSampleTest, HasEachAloneAndSeveralTogether) {
  const auto samples = SizesToSample({10, 4}, {2, 4}, {1000, 6});
  int alone = 0, together = 0;
  for (const std::vector<int64_t>& sizes : samples) {
    EXPECT_GE(sizes[0], 2);
    EXPECT_GE(sizes[1], 4);
    EXPECT_LE(sizes[1], 6);
    alone += sizes[1] == 4;
    together += sizes[0] != 10 && sizes[1] != 4;
  }
  EXPECT_GT(alone, 15);
  EXPECT_GT(together, 10);
  EXPECT_TRUE(SizesToSample({3}, {5}, {2}).empty());
}

}  // namespace
}  // namespace mica
