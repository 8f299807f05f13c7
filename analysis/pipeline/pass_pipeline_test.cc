#include "analysis/pipeline/pass_pipeline.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "analysis/program_testing.h"
#include "framework/base/file.h"
#include "framework/base/test_matchers.h"
#include "framework/text/text.h"
#include "kernels/all.h"
#include "ops/all.h"

namespace mica {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr absl::string_view kNet = R"(program @net(%x: f32[6,4]) {
  %w = variable "w" : f32[8,4]
  %b = variable "b" : f32[8]
  %t = aten.t(%w) : f32[4,8]{1,4} @ "net.py":3
  %h = aten.addmm(%b, %x, %t) : f32[6,8] @ "net.py":4
  %dead = aten.neg(%h) : f32[6,8] @ "net.py":5
  %s = aten.mul.Scalar(%h, 0.5) : f32[6,8] @ "net.py":6
  %y = aten.add.Tensor(%s, %h) : f32[6,8] @ "net.py":7
  return %y
}
)";

PassContext Context() { return {AllOps(), AllKernels()}; }

TEST(PassPipelineTest, IsPrintedAndReadBack) {
  const std::string text = PassPipeline::All().ToText();
  MICA_ASSERT_OK_AND_ASSIGN(const PassPipeline again,
                            PassPipeline::Parse(text));
  EXPECT_EQ(again.ToText(), text);
  EXPECT_EQ(again.passes().size(), PassPipeline::All().passes().size());
  MICA_ASSERT_OK_AND_ASSIGN(const PassPipeline two,
                            PassPipeline::Parse(" simplify, fuse-linear"));
  EXPECT_EQ(two.ToText(), "simplify,fuse-linear");
  EXPECT_EQ(two.First(1).ToText(), "simplify");
  EXPECT_EQ(two.First(7).ToText(), two.ToText());
  EXPECT_EQ(two.First(-1).ToText(), "");
}

TEST(PassPipelineTest, RefusesAPassThatIsntThere) {
  EXPECT_THAT(PassPipeline::Parse("fuse-linear,fold"),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("\"fold\""), HasSubstr("simplify"))));
}

TEST(PassPipelineTest, EachPassHasAContractAndANameOfItsOwn) {
  absl::flat_hash_set<absl::string_view> names;
  for (const Pass* pass : PassPipeline::All().passes()) {
    EXPECT_TRUE(names.insert(pass->name).second) << pass->name;
    EXPECT_THAT(std::string(pass->contract), testing::EndsWith("."));
  }
}

TEST(PassPipelineTest, TellsWhatEachPassDid) {
  std::vector<PassTime> times;
  MICA_ASSERT_OK_AND_ASSIGN(
      const Program passed,
      PassPipeline::All().Run(Parse(kNet), Context(),
                              {.verify = true, .times = &times}));
  std::vector<std::string> names;
  for (const PassTime& time : times) names.emplace_back(time.pass);
  EXPECT_THAT(names,
              ElementsAre("remove-dead-ops", "fuse-convolutions", "simplify",
                          "fuse-linear", "merge-elementwise"));
  EXPECT_EQ(times[0].ops_before, 5);
  EXPECT_EQ(times[0].ops_after, 4);
  EXPECT_EQ(times.back().ops_after, static_cast<int64_t>(passed.ops().size()));
}

TEST(PassPipelineTest, EndsBeforeSizesAreRead) {
  int next = 0;
  MICA_ASSERT_OK_AND_ASSIGN(const Program first,
                            PassPipeline::All().RunUntilSizesAreRead(
                                Parse(R"(program @f(%x: f32[2,3,8,8]) {
  %w = variable "w" : f32[4,3,3,3]
  %c = aten.convolution(%x, %w, none, [1,1], [1,1], [1,1], false, [0,0], 1) : f32[2,4,8,8]
  %r = aten.relu(%c) : f32[2,4,8,8]
  return %r
}
)"),
                                Context(), {}, &next));
  ASSERT_LT(next, static_cast<int>(PassPipeline::All().passes().size()));
  EXPECT_EQ(PassPipeline::All().passes()[next]->name, "choose-layouts");
  EXPECT_THAT(ToText(first), HasSubstr("mica.convolution"));
  std::vector<PassTime> times;
  MICA_EXPECT_OK(PassPipeline::All().Run(
      first, Context(), {.verify = true, .times = &times}, next));
  ASSERT_FALSE(times.empty());
  EXPECT_EQ(times[0].pass, "choose-layouts");
}

TEST(PassPipelineTest, RunsOnBodiesFirst) {
  MICA_ASSERT_OK_AND_ASSIGN(const PassPipeline merge,
                            PassPipeline::Parse("merge-elementwise"));
  MICA_ASSERT_OK_AND_ASSIGN(
      const Program passed,
      merge.Run(Parse(R"(program @f(%x: f32[8], %p: bool[]) {
  %y = mica.if(%p, [%x]) : f32[8]
    then(%a: f32[8]) {
      %b = aten.relu(%a) : f32[8]
      %c = aten.neg(%b) : f32[8]
      return %c
    }
    else(%a: f32[8]) {
      %n = aten.neg(%a) : f32[8]
      return %n
    }
  return %y
}
)"),
                Context(), {.verify = true}));
  EXPECT_THAT(ToText(passed), HasSubstr("mica.elementwise"));
}

TEST(PassPipelineTest, LeavesItsStepsInAFolder) {
  const std::string folder = testing::TempDir() + "/pass_dump";
  std::filesystem::remove_all(folder);
  PassDump dump(folder);
  MICA_ASSERT_OK_AND_ASSIGN(
      const Program passed,
      PassPipeline::All().Run(Parse(kNet), Context(), {.dump = &dump}));
  MICA_EXPECT_OK(dump.WritePlan("plan\n"));
  std::vector<std::string> names;
  std::string last;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    // NAME-1a2b3c4d.00.given.mica
    const std::string name = entry.path().filename().string();
    EXPECT_TRUE(absl::StartsWith(name, "net-")) << name;
    names.push_back(name.substr(name.find('.') + 1));
    if (absl::EndsWith(name, "merge-elementwise.mica")) {
      MICA_ASSERT_OK_AND_ASSIGN(last, ReadFile(entry.path().string()));
    }
  }
  std::sort(names.begin(), names.end());
  EXPECT_THAT(names, ElementsAre("00.given.mica", "01.remove-dead-ops.mica",
                                 "09.fuse-linear.mica",
                                 "11.merge-elementwise.mica", "plan.txt"));
  EXPECT_EQ(last, ToText(passed));
}

TEST(PassPipelineTest, SaysWhereAFolderCantBeWritten) {
  PassDump dump("/dev/null/nowhere");
  EXPECT_THAT(PassPipeline::All().Run(Parse(kNet), Context(), {.dump = &dump}),
              StatusIs(testing::_, HasSubstr("/dev/null/nowhere")));
}

}  // namespace
}  // namespace mica
