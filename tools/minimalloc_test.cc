#include "tools/minimalloc.h"

#include <fstream>
#include <string>

#include "framework/base/test_matchers.h"

namespace mica {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

std::string WriteCsv(const std::string& name, const std::string& text) {
  const std::string path = testing::TempDir() + "/" + name;
  std::ofstream(path) << text;
  return path;
}

TEST(MinimallocTest, ReadsColumnsInAnyOrder) {
  MICA_ASSERT_OK_AND_ASSIGN(const auto lifetimes,
                            ParseMinimalloc("size, upper,id,lower,offset\r\n"
                                            "40,9,a,3,0\r\n"
                                            "0,1,b,0,\r\n"
                                            "\n"));
  ASSERT_THAT(lifetimes, SizeIs(2));
  EXPECT_EQ(lifetimes[0].first, 3);
  EXPECT_EQ(lifetimes[0].last, 8);
  EXPECT_EQ(lifetimes[0].bytes, 40);
}

TEST(MinimallocTest, NamesTheLineThatIsWrong) {
  const auto expect = [](const std::string& csv, const std::string& message) {
    EXPECT_THAT(
        ParseMinimalloc(csv),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(message)));
  };
  const std::string header = "id,lower,upper,size\n";
  expect("", "line 1: wants one column 'id', got ''");
  expect("id,lower,size\n", "wants one column 'upper'");
  expect("id,lower,lower,upper,size\n", "wants one column 'lower'");
  expect("id,lower,upper,size,gaps\n", "column 'gaps' isn't supported");
  expect(header + "0,1,2\n", "line 2: wants 4 fields, got 3");
  expect(header + "0,0,1,4\n,0,1,4\n", "line 3: wants an id");
  expect(header + "0,0,1,4\n0,0,1,4\n", "line 3: id '0' was there before");
  expect(header + "0,x,1,4\n", "line 2: lower: wants a number from 0");
  expect(header + "0,3,3,4\n", "upper: wants a number from 4 to 2147483647");
  expect(header + "0,3,9999999999,4\n", "got '9999999999'");
  expect(header + "0,-1,3,4\n", "lower: wants a number from 0");
  expect(header + "0,0,3,-4\n", "size: wants a number from 0");
  expect(header + "0,0,3,1e3\n", "got '1e3'");
  expect(header + "0,0,3,1152921504606846976\n1,0,3,1\n", "line 3: more than");
}

TEST(MinimallocTest, PacksWithoutAlignment) {
  const std::string path = WriteCsv("stack.csv",
                                    "id,lower,upper,size\n"
                                    "0,0,2,3\n1,2,4,3\n2,0,4,4\n3,1,3,5\n");
  MICA_ASSERT_OK_AND_ASSIGN(const auto result, RunMinimalloc({.path = path}));
  EXPECT_EQ(result.lifetimes, 4);
  EXPECT_EQ(result.capacity_needed, 12);
  EXPECT_EQ(result.live_set, 12);
  EXPECT_GT(result.seconds, 0);
}

TEST(MinimallocTest, RefusesWhatIsNoProblem) {
  const std::string path = WriteCsv("none.csv", "no header\n");
  EXPECT_THAT(RunMinimalloc({.path = path}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("none.csv: line 1")));
  EXPECT_THAT(
      RunMinimalloc({.path = path, .capacity = -1}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--capacity")));
  EXPECT_THAT(RunMinimalloc({.path = "/nowhere/x.csv"}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("x.csv")));
}

}  // namespace
}  // namespace mica
