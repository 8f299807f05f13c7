#include "framework/ir/content.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "framework/base/fingerprint.h"
#include "framework/base/test_matchers.h"
#include "framework/text/text.h"

namespace mica {
namespace {

const OpRegistry& Ops() {
  static const OpRegistry& registry = *[] {
    auto* ops = new OpRegistry;
    const InferFn same = [](const OpCall& call) {
      return TensorTypes{call.Type(0)};
    };
    ops->Add(OpDef("aten::add.Tensor(Tensor self, Tensor other, *, "
                   "Scalar alpha=1) -> Tensor")
                 .Infer(same));
    ops->Add(OpDef("aten::sub.Tensor(Tensor self, Tensor other, *, "
                   "Scalar alpha=1) -> Tensor")
                 .Infer(same));
    ops->Add(OpDef("mica::send(Tensor x, int device) -> Tensor")
                 .Infer(same)
                 .Label("device"));
    return ops;
  }();
  return registry;
}

LargeString ContentOfText(absl::string_view text) {
  absl::StatusOr<Program> program = ParseProgram(text, Ops());
  EXPECT_THAT(program, IsOk()) << text;
  return program.ok() ? ContentOf(*program) : "";
}

constexpr char kProgram[] = R"(program @p(%x: f32[2,3], %y: f32[2,3]) {
  opaque "aten::foo(Tensor self, int[] n) -> Tensor"
  %w = variable "w" : f32[2,3]
  %c = constant [1, 2, 3] : f32[3]
  %a = aten.add.Tensor(%x, %w, alpha=0.5) : f32[2,3] @ "model.py":7
  %b = aten.sub.Tensor(%a, %y) : f32[2,3] @ "model.py":8
  %f = aten.foo(%b, [1, 2]) : f32[2,3]
  update "w" = %b
  return %b, %f
}
)";

TEST(ContentTest, LabelsDoNotCount) {
  EXPECT_EQ(ContentOfText(kProgram),
            ContentOfText(absl::StrReplaceAll(kProgram, {{"@p", "@other"},
                                                         {"%x", "%input"},
                                                         {"%a", "%7"},
                                                         {"\"w\"", "\"fc.w\""},
                                                         {"model", "user"},
                                                         {":7", ":70"}})));
}

TEST(ContentTest, ArgumentsThatAreLabelsDoNotCount) {
  const auto content = [](absl::string_view device) {
    return ContentOfText(
        absl::StrCat("program @p(%x: f32[2]) {\n  %y = mica.send(%x, ", device,
                     ") : f32[2]\n  return %y\n}\n"));
  };
  EXPECT_EQ(content("1"), content("2"));
}

// Each of these is another Program.
TEST(ContentTest, EverythingElseCounts) {
  const LargeString content = ContentOfText(kProgram);
  const std::pair<const char*, const char*> kChanges[] = {
      {"alpha=0.5", "alpha=1"},
      {"alpha=0.5", "alpha=0.5000000000000001"},
      {", alpha=0.5", ""},
      {"[1, 2, 3] :", "[1, 2, 4] :"},
      {"aten.sub.Tensor(%a", "aten.add.Tensor(%a"},
      {"(%a, %y)", "(%y, %a)"},
      {"(%a, %y)", "(%a, %x)"},
      {"[1, 2])", "[1, 3])"},
      {"[1, 2])", "[1])"},
      {"int[] n", "int[] m"},
      {"update \"w\" = %b", "update \"w\" = %a"},
      {"update \"w\"", "update %x"},
      {"return %b, %f", "return %f, %b"},
      {"return %b, %f", "return %b"},
      {"2,3]", "3,2]"},
      {"f32[2,3]", "f64[2,3]"},
      {"%y: f32[2,3]", "%y: f32[2,3]{1,2}"},
  };
  for (const auto& change : kChanges) {
    const std::string text = absl::StrReplaceAll(kProgram, {change});
    ASSERT_NE(text, kProgram) << change.first;
    EXPECT_NE(ContentOfText(text), content) << change.second;
  }
}

TEST(ContentTest, SignsOfZeroAndKindsOfNumbersCount) {
  const auto with_alpha = [](absl::string_view alpha) {
    return ContentOfText(absl::StrReplaceAll(
        kProgram, {{"alpha=0.5", "alpha=" + std::string(alpha)}}));
  };
  EXPECT_NE(with_alpha("0.0"), with_alpha("-0.0"));
  EXPECT_NE(with_alpha("2"), with_alpha("2.0"));
}

// A symbol's number is that of the process; another one made first.
TEST(ContentTest, SymbolsCountByName) {
  const auto text = [](absl::string_view symbol) {
    return absl::StrReplaceAll(
        "program @s(%x: f32[SYMBOL]) {\n  return %x\n}\n",
        {{"SYMBOL", symbol}});
  };
  EXPECT_EQ(ContentOfText(text("rows")), ContentOfText(text("rows")));
  EXPECT_NE(ContentOfText(text("rows")), ContentOfText(text("columns")));
}

TEST(ContentTest, DeclarationsMayStandAnywhere) {
  EXPECT_EQ(ContentOfText(R"(program @p(%x: f32[2]) {
  %v = variable "v" : f32[2]
  %w = variable "w" : f32[2]
  %a = aten.add.Tensor(%x, %v) : f32[2]
  %b = aten.add.Tensor(%a, %w) : f32[2]
  return %b
}
)"),
            ContentOfText(R"(program @p(%x: f32[2]) {
  %v = variable "v" : f32[2]
  %a = aten.add.Tensor(%x, %v) : f32[2]
  %w = variable "w" : f32[2]
  %b = aten.add.Tensor(%a, %w) : f32[2]
  return %b
}
)"));
}

// Names files on disks: it may change only with the first line of PlanSetting.
TEST(ContentTest, HasOneFingerprintForEver) {
  EXPECT_EQ(FingerprintOf(ContentOfText(kProgram)).ToHex(),
            "c896628bb64d31e679ada66365dbe6c9");
}

}  // namespace
}  // namespace mica
