#include "tools/flags.h"

#include <string>
#include <vector>

#include "framework/base/test_matchers.h"
#include "gflags/gflags.h"

DEFINE_int64(test_number, 1, "for this test");
DEFINE_bool(test_switch, false, "for this test");
DEFINE_string(test_list, "", "for this test");

namespace mica {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;

absl::Status Parse(std::vector<std::string> arguments) {
  std::vector<char*> argv = {const_cast<char*>("tool")};
  for (std::string& argument : arguments) argv.push_back(argument.data());
  return ParseFlags(static_cast<int>(argv.size()), argv.data(), "flags_test.cc",
                    {"test_list"});
}

TEST(FlagsTest, TakesValuesInBothForms) {
  gflags::FlagSaver saver;
  MICA_ASSERT_OK(Parse({"--test_number=5", "--test_switch"}));
  EXPECT_EQ(FLAGS_test_number, 5);
  EXPECT_TRUE(FLAGS_test_switch);
  MICA_ASSERT_OK(Parse({"--test_number", "6", "--notest_switch"}));
  EXPECT_EQ(FLAGS_test_number, 6);
  EXPECT_FALSE(FLAGS_test_switch);
}

TEST(FlagsTest, JoinsRepeatedLists) {
  gflags::FlagSaver saver;
  MICA_ASSERT_OK(Parse({"--test_list=a=1", "--test_list", "b=x=y"}));
  EXPECT_EQ(FLAGS_test_list, "a=1,b=x=y");
}

TEST(FlagsTest, NamesTheFlagThatIsWrong) {
  gflags::FlagSaver saver;
  EXPECT_THAT(Parse({"--test_number=five"}),
              StatusIs(kInvalid, HasSubstr("--test_number: wants int64")));
  EXPECT_THAT(Parse({"--test_number"}),
              StatusIs(kInvalid, HasSubstr("wants a value")));
  EXPECT_THAT(Parse({"--test_nothing"}),
              StatusIs(kInvalid, HasSubstr("unknown flag '--test_nothing'")));
  EXPECT_THAT(Parse({"--notest_number"}),
              StatusIs(kInvalid, HasSubstr("unknown flag")));
  EXPECT_THAT(Parse({"file"}), StatusIs(kInvalid, HasSubstr("got 'file'")));
  EXPECT_THAT(Parse({"--"}), StatusIs(kInvalid, HasSubstr("got '--'")));
}

TEST(FlagsTest, SplitsPairs) {
  MICA_ASSERT_OK_AND_ASSIGN(const auto pairs, SplitPairs("feed", "a=1,b=x=y"));
  EXPECT_THAT(pairs, ElementsAre(Pair("a", "1"), Pair("b", "x=y")));
  EXPECT_THAT(SplitPairs("feed", "a"), Not(IsOk()));
  EXPECT_THAT(SplitPairs("feed", "=a"), Not(IsOk()));
  EXPECT_THAT(SplitPairs("feed", "a=1,a=2"), Not(IsOk()));
}

}  // namespace
}  // namespace mica
