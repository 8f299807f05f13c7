#include "kernels/region/rounding.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "framework/base/test_matchers.h"
#include "gtest/gtest.h"
#include "kernels/region/signature.h"

namespace mica::region {
namespace {

// "exact" or "rounded" of each instruction, and "short" if its nans are.
std::string Roundings(const std::string& text) {
  const auto signature = ParseSignature(text);
  if (!signature.ok()) return std::string(signature.status().message());
  std::string all;
  for (const Rounding& rounding : RoundingsOf(*signature)) {
    absl::StrAppend(&all, all.empty() ? "" : ", ",
                    rounding.is_exact ? "exact" : "rounded",
                    rounding.has_short_nans ? " short" : "");
  }
  return all;
}

TEST(RoundingTest, WhatIsAnOperandNeedsNoRounding) {
  EXPECT_EQ(
      Roundings("neg.bf16 %0; abs.bf16 $0; maximum.bf16 $1 %1; "
                "add.bf16 $2 %0; relu.bf16 $3 -> $4 | "
                "bf16.dense bf16.one | bf16.dense"),
      "exact short, exact short, exact short, rounded short, exact short");
}

TEST(RoundingTest, OfOtherTypesOnlyThoseThatFitAreHeld) {
  EXPECT_EQ(Roundings("cast.bf16 %0; cast.bf16 %1; cast.bf16 %2; cast.f16 %3 "
                      "-> $0 $1 $2 $3 | bool.dense i8.dense i16.dense "
                      "bf16.dense | "
                      "bf16.dense bf16.dense bf16.dense f16.dense"),
            "exact short, exact short, rounded short, rounded short");
  EXPECT_EQ(Roundings("cast.bf16 %0; where.bf16 %1 $0 %0 -> $1 | "
                      "f32.dense bool.dense | bf16.dense"),
            "rounded, rounded");
}

TEST(RoundingTest, NumbersMustBeOnesOf16Bits) {
  EXPECT_EQ(Roundings("maximum.bf16 %0 0.5; minimum.bf16 $0 0.1 -> $1 | "
                      "bf16.dense | bf16.dense"),
            "exact short, rounded short");
}

// Less than 1 makes denormals, and 2 makes more than the largest f16.
TEST(RoundingTest, ProductsWithPowersOfTwoAreExact) {
  EXPECT_EQ(Roundings("mul.bf16 %0 2; mul.bf16 -1 $0; mul.bf16 $1 0.5; "
                      "mul.bf16 $2 3; mul.bf16 $3 $2 -> $4 | "
                      "bf16.dense | bf16.dense"),
            "exact short, exact short, rounded short, rounded short, "
            "rounded short");
  EXPECT_EQ(Roundings("mul.f16 %0 -1; mul.f16 $0 2 -> $1 | "
                      "f16.dense | f16.dense"),
            "exact, rounded");
}

TEST(RoundingTest, NansOfF32AreLongUntilTheyAreRounded) {
  EXPECT_EQ(Roundings("add.bf16 %0 1; add.bf16 $0 1; add.f32 $1 %0 -> $2 | "
                      "f32.dense | f32.dense"),
            "rounded, rounded short, rounded");
}

// Rounded, a nan is positive.
TEST(RoundingTest, WhereSignsOfNansShowAllIsRounded) {
  EXPECT_EQ(Roundings("neg.bf16 %0; copysign.bf16 1 $0 -> $1 | "
                      "bf16.dense | bf16.dense"),
            "rounded, rounded");
  EXPECT_EQ(Roundings("neg.bf16 %0; copysign.bf16 $0 1 -> $1 | "
                      "bf16.dense | bf16.dense"),
            "exact short, exact short");
}

}  // namespace
}  // namespace mica::region
