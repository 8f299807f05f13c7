#include "analysis/passes/rewrite.h"

#include "absl/strings/str_cat.h"
#include "analysis/passes/dead_ops.h"
#include "framework/base/test_matchers.h"
#include "framework/text/text.h"
#include "ops/all.h"

namespace mica {
namespace {

using ::testing::ElementsAre;

Program ParseOps(absl::string_view ops) {
  auto program = ParseProgram(absl::StrCat(R"text(program @p(%x: f32[4,2]) {
  opaque "test::check(Tensor self) -> ()"
  %v = variable "v" : f32[4,2]
)text",
                                           ops, "}\n"),
                              AllOps());
  EXPECT_THAT(program, IsOk());
  return *std::move(program);
}

// `ops` of which so many are left.
void ExpectLeft(absl::string_view ops, size_t num_left) {
  SCOPED_TRACE(ops);
  const Program program = ParseOps(ops);
  MICA_ASSERT_OK_AND_ASSIGN(const Program lean,
                            RemoveDeadOps(program, AllOps()));
  EXPECT_EQ(lean.ops().size(), num_left);
  EXPECT_EQ(MayHaveDeadOps(program), num_left < program.ops().size());
}

TEST(RewriteTest, TellsWhetherOpsAreDead) {
  ExpectLeft("  %y = aten.relu(%x) : f32[4,2]\n  return %y\n", 1);
  ExpectLeft("  %y = aten.relu(%x) : f32[4,2]\n  update %v = %y\n  return %x\n",
             1);
  ExpectLeft("  %y = aten.relu(%x) : f32[4,2]\n  return %x\n", 0);
  // One is read by a dead one alone.
  ExpectLeft(R"(  %y = aten.relu(%x) : f32[4,2]
  %z = aten.neg(%y) : f32[4,2]
  %w = aten.neg(%x) : f32[4,2]
  return %w
)",
             1);
  ExpectLeft("  %y = aten.t(%x) : f32[2,4]{1,2}\n  return %x\n", 0);
  // Without results it is there for what it does.
  ExpectLeft("  test.check(%x)\n  return %x\n", 1);
  // Of several results one is enough.
  ExpectLeft(R"(  %a, %b = aten.max.dim(%x, 1) : f32[4], i64[4]
  return %b
)",
             1);
}

TEST(RewriteTest, FindsWhoReadsWhat) {
  const Program program = ParseOps(R"(  %a = aten.t(%x) : f32[2,4]{1,2}
  %b = aten.mm(%x, %a) : f32[4,4]
  %c = aten.mm(%b, %x) : f32[4,2]
  %d = aten.t(%c) : f32[2,4]{1,2}
  update %v = %c
  return %d, %c
)");
  const Reads reads = FindReads(program);
  const auto of = [&](absl::string_view name, const auto& list) {
    return list[program.FindValue(name)];
  };
  EXPECT_THAT(reads.views, ElementsAre(0, 3));
  EXPECT_EQ(of("x", reads.uses), 3);
  EXPECT_EQ(of("x", reads.last_op), 2);
  EXPECT_EQ(of("c", reads.uses), 3);
  EXPECT_EQ(of("c", reads.last_op), 3);
  EXPECT_EQ(of("d", reads.last_op), -1);
  EXPECT_EQ(of("v", reads.uses), 0);
  EXPECT_FALSE(reads.has_dead_ops);
}

}  // namespace
}  // namespace mica
