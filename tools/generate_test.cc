#include "tools/generate.h"

#include <string>

#include "framework/base/test_matchers.h"
#include "framework/text/text.h"
#include "ops/all.h"

namespace mica {
namespace {

using testing::HasSubstr;

TEST(GenerateTest, MakesAsManyOpsAsAsked) {
  for (const char* kind : {"chain", "relu_add"}) {
    MICA_ASSERT_OK_AND_ASSIGN(const Program program,
                              Generate({.kind = kind, .ops = 57}, AllOps()));
    EXPECT_EQ(program.ops().size(), 57u);
    EXPECT_TRUE(program.is_static());
  }
}

TEST(GenerateTest, EqualOptionsGiveEqualPrograms) {
  for (const char* kind : {"chain", "relu_add", "transformer"}) {
    const GenerateOptions options = {.kind = kind, .ops = 40, .layers = 2};
    MICA_ASSERT_OK_AND_ASSIGN(const Program one, Generate(options, AllOps()));
    MICA_ASSERT_OK_AND_ASSIGN(const Program two, Generate(options, AllOps()));
    EXPECT_EQ(ToText(one), ToText(two));
  }
}

TEST(GenerateTest, LayersHaveTheirOwnVariables) {
  MICA_ASSERT_OK_AND_ASSIGN(
      const Program program,
      Generate({.kind = "transformer", .layers = 3}, AllOps()));
  EXPECT_EQ(program.variables().size(), 3u * 12 + 2);
}

TEST(GenerateTest, NamesTheOptionThatIsWrong) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(Generate({.kind = "ring"}, AllOps()),
              StatusIs(kInvalid, HasSubstr("got 'ring'")));
  EXPECT_THAT(Generate({.kind = "chain", .ops = 0}, AllOps()),
              StatusIs(kInvalid, HasSubstr("ops: wants 1 to")));
  EXPECT_THAT(
      Generate({.kind = "transformer", .hidden = 10, .heads = 3}, AllOps()),
      StatusIs(kInvalid, HasSubstr("multiple of 3 heads")));
}

}  // namespace
}  // namespace mica
