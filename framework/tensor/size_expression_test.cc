#include "framework/tensor/size_expression.h"

#include <limits>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace mica {
namespace {

const absl::flat_hash_map<std::string, int64_t>& Sizes() {
  static const auto& sizes = *new absl::flat_hash_map<std::string, int64_t>{
      {"a", 3}, {"b", 5}, {"big", int64_t{1} << 40}};
  return sizes;
}

std::string Reprint(const std::string& text) {
  const auto parsed = SizeExpression::Parse(text);
  return parsed.has_value() ? parsed->ToString() : "none";
}

TEST(SizeExpressionTest, PrintsWhatItReads) {
  for (const char* text : {"a", "12*a", "a*b+7", "-a+b", "2*a*a*b-3*a+b-1", "0",
                           "-4", "8*(a+1)/2", "(a+1)/2*b-1", "((a+1)/2+1)/3"}) {
    EXPECT_EQ(Reprint(text), text);
  }
  EXPECT_EQ(Reprint("b*a+1+2*a*b"), "3*a*b+1");
  EXPECT_EQ(Reprint("2*3*a"), "6*a");
  EXPECT_EQ(Reprint("a-a"), "0");
}

TEST(SizeExpressionTest, Computes) {
  EXPECT_EQ(SizeExpression::Parse("2*a*b-a+1")->At(Sizes()), 28);
  EXPECT_EQ(SizeExpression::Parse("7")->At(Sizes()), 7);
  EXPECT_EQ(SizeExpression::Parse("8*(a+b)/3+1")->At(Sizes()), 17);
  EXPECT_EQ(SizeExpression::Parse("(a-b)/3")->At(Sizes()), -1);
  EXPECT_EQ(SizeExpression::Parse("((b+1)/2+1)/2")->At(Sizes()), 2);
  EXPECT_FALSE(SizeExpression::Parse("(c)/2")->At(Sizes()).has_value());
  EXPECT_FALSE(SizeExpression::Parse("a+c")->At(Sizes()).has_value());
  EXPECT_FALSE(SizeExpression::Parse("big*big")->At(Sizes()).has_value());
}

TEST(SizeExpressionTest, RefusesWhatIsNone) {
  for (const char* text : {"", "+", "a+", "a**b", "2a", "a b", "a/2", "(a)",
                           "(a)/0", "(a)/-2", "()/2", "(a/2", "a)/2", "(a)/2b",
                           "a--b", "+a", "99999999999999999999*a", "a*"}) {
    EXPECT_EQ(Reprint(text), "none") << text;
  }
  std::string many = "a";
  for (int i = 0; i < 100; ++i) absl::StrAppend(&many, "+a");
  EXPECT_EQ(Reprint(many), "none");
  EXPECT_EQ(Reprint("a*a*a*a*a*a*a*a*a"), "none");
  std::string deep = "a";
  for (int i = 0; i < 9; ++i) deep = absl::StrCat("(", deep, ")/2");
  EXPECT_EQ(Reprint(deep), "none");
}

}  // namespace
}  // namespace mica
