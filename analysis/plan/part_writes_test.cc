#include "analysis/plan/part_writes.h"

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "analysis/plan/plan_testing.h"
#include "framework/base/test_matchers.h"

namespace mica {
namespace {

using testing::HasSubstr;
using testing::Not;

// A program with a large state; `ops` has the op that gives %next.
std::string StateText(absl::string_view ops,
                      absl::string_view returns = "%sum") {
  return absl::StrCat(
      R"(program @p(%x: f32[1,16], %at: i64[1]) {
  %state = variable "state" : f32[64,16]
)",
      ops,
      "  %sum = aten.sum(%next) : f32[]\n  update %state = %next\n  return ",
      returns, "\n}\n");
}

constexpr char kWrite[] =
    "  %next = aten.index_copy(%state, 0, %at, %x) : f32[64,16]\n";

TEST(PartWritesTest, APartIsWrittenWhereItIsAndKeptUntilTheRunHasSucceeded) {
  MICA_ASSERT_OK_AND_ASSIGN(const auto plan,
                            PlanOf(StateText(kWrite), {.write_parts = true}));
  ASSERT_EQ(plan->undo().size(), 1u);
  EXPECT_EQ(plan->num_compute(), 3);
  EXPECT_EQ(plan->steps().size(), 3u);
  // No more than the row.
  EXPECT_EQ(plan->arena_bytes(), 64);
  const Step& write = plan->steps()[1];
  const Location state = {.home = Home::kVariable, .index = 0};
  EXPECT_EQ(plan->args()[write.first_arg], state);
  EXPECT_EQ(plan->args()[write.first_arg + write.num_operands], state);
  EXPECT_THAT(plan->ToText(),
              HasSubstr("if 0 ran: take back aten.index_copy by"));
}

TEST(PartWritesTest, EachOperatorThatWritesAPartDoes) {
  for (const char* write :
       {"aten.index_copy(%state, 0, %at, %x)",
        "aten.index_add(%state, 0, %at, %x)",
        "aten.index_put(%state, [%at], %x)",
        "aten.index_put(%state, [%at], %x, true)",
        "aten.scatter.src(%state, 0, %where, %x)",
        "aten.scatter.value(%state, 0, %where, 2.0)",
        "aten.scatter_add(%state, 0, %where, %x)",
        "mica.scatter_view(%state, %x, [1,16], [16,1], 48)"}) {
    const std::string text = absl::StrReplaceAll(
        StateText(absl::StrCat("  %next = ", write, " : f32[64,16]\n")),
        {{"%at: i64[1]", "%at: i64[1], %where: i64[1,16]"}});
    MICA_ASSERT_OK_AND_ASSIGN(const auto plan,
                              PlanOf(text, {.write_parts = true}));
    EXPECT_EQ(plan->undo().size(), 1u) << write;
  }
}

TEST(PartWritesTest, SeveralAreTakenBackFromTheLastOne) {
  MICA_ASSERT_OK_AND_ASSIGN(
      const auto plan,
      PlanOf(
          StateText(R"(  %one = aten.index_copy(%state, 0, %at, %x) : f32[64,16]
  %row = aten.select.int(%one, 0, 2) : f32[16]
  %y = aten.add.Tensor(%x, %row) : f32[1,16]
  %next = mica.scatter_view(%one, %y, [1,16], [16,1], 16) : f32[64,16]
)"),
          {.write_parts = true}));
  ASSERT_EQ(plan->undo().size(), 2u);
  EXPECT_GT(plan->undo()[0].save, plan->undo()[1].save);
}

// Whatever is read behind a write that ends it, or when all has run.
TEST(PartWritesTest, WhoReadsAnEarlierStateLaterHasItWrittenAside) {
  const std::string write = kWrite;
  const std::string row = "  %row = aten.select.int(%state, 0, 3) : f32[16]\n";
  for (const std::string& text :
       {StateText(write + "  %old = aten.sum(%state) : f32[]\n", "%old"),
        StateText(write, "%state"), StateText(write, "%next"),
        StateText(row + write + "  %y = aten.neg(%row) : f32[16]\n", "%y"),
        StateText("  %next = mica.scatter_view(%state, %state, [64,16], "
                  "[16,1], 0) : f32[64,16]\n"),
        StateText("  %two = aten.mul.Scalar(%state, 2.0) : f32[64,16]\n"
                  "  %next = aten.index_copy(%two, 0, %at, %x) : f32[64,16]"
                  "\n")}) {
    MICA_ASSERT_OK_AND_ASSIGN(const auto plan,
                              PlanOf(text, {.write_parts = true}));
    EXPECT_TRUE(plan->undo().empty()) << text;
  }
}

TEST(PartWritesTest, WhoReadsTheStateIsInNoFunction) {
  std::string text = R"(program @net(%y0: f32[8,16], %w: f32[16,16]) {
  %s = variable "s" : f32[64,16]
)";
  constexpr char kLayer[] = R"(  %hN = aten.mm(%yI, %w) : f32[8,16]
  %rN = aten.relu(%hN) : f32[8,16]
  %pN = aten.mm(%rN, %w) : f32[8,16]
  %eN = aten.exp(%pN) : f32[8,16]
  %mN = aten.mm(%eN, %w) : f32[8,16]
  %nN = aten.neg(%mN) : f32[8,16]
  %qN = aten.mm(%nN, %w) : f32[8,16]
  %yN = aten.add.Tensor(%yI, %qN) : f32[8,16]
)";
  for (int i = 1; i <= 6; ++i) {
    absl::StrAppend(&text,
                    absl::StrReplaceAll(kLayer, {{"N", absl::StrCat(i)},
                                                 {"I", absl::StrCat(i - 1)}}));
  }
  absl::StrAppend(&text, R"(
  %next = mica.scatter_view(%s, %y6, [8,16], [16,1], 16) : f32[64,16]
  update %s = %next
  return %y6
}
)");
  MICA_ASSERT_OK_AND_ASSIGN(const auto plan,
                            PlanOf(text, {.write_parts = true}));
  EXPECT_EQ(plan->undo().size(), 1u);
  EXPECT_THAT(ToText(plan->program()), Not(HasSubstr("mica.call")));
  MICA_ASSERT_OK_AND_ASSIGN(const auto aside, PlanOf(text));
  EXPECT_THAT(ToText(aside->program()), HasSubstr("mica.call"));
}

TEST(PartWritesTest, OptionsTurnThemOff) {
  for (const PlanOptions& options :
       {PlanOptions{.reuse_buffers = false, .write_parts = true},
        PlanOptions{}}) {
    MICA_ASSERT_OK_AND_ASSIGN(const auto plan,
                              PlanOf(StateText(kWrite), options));
    EXPECT_TRUE(plan->undo().empty());
    EXPECT_THAT(plan->ToText(), Not(HasSubstr("take back")));
  }
}

}  // namespace
}  // namespace mica
