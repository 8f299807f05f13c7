#include "analysis/fuse/fuse_linear.h"

#include <string>

#include "framework/base/test_matchers.h"
#include "framework/text/text.h"
#include "kernels/all.h"
#include "ops/all.h"

namespace mica {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string Fused(absl::string_view text) {
  absl::StatusOr<Program> program = ParseProgram(text, AllOps());
  EXPECT_THAT(program, IsOk());
  absl::StatusOr<Program> fused = FuseLinear(*program, AllOps(), AllKernels());
  EXPECT_THAT(fused, IsOk());
  return ToText(*fused);
}

TEST(FuseTest, ProductBiasAndActivationAreOneLinear) {
  const std::string text = Fused(R"(program @f(%x: f32[6,4]) {
  %w = variable "w" : f32[8,4]
  %b = variable "b" : f32[8]
  %t = aten.t(%w) : f32[4,8]{1,4}
  %h = aten.addmm(%b, %x, %t) : f32[6,8]
  %v = aten.view(%h, [2,3,8]) : f32[2,3,8]
  %y = aten.gelu(%v) : f32[2,3,8]
  return %y
}
)");
  EXPECT_THAT(text, HasSubstr("mica.linear(%x, %w, %b, none, \"gelu\")"));
  EXPECT_THAT(text, Not(HasSubstr("aten.gelu")));
}

TEST(FuseTest, ABiasAddedLaterAndAResidualJoinTheProduct) {
  const std::string text = Fused(R"(program @f(%x: f32[6,4], %r: f32[2,3,8]) {
  %w = variable "w" : f32[4,8]
  %b = variable "b" : f32[8]
  %h = aten.mm(%x, %w) : f32[6,8]
  %v = aten.view(%h, [2,3,8]) : f32[2,3,8]
  %s = aten.add.Tensor(%v, %b) : f32[2,3,8]
  %g = aten.relu(%s) : f32[2,3,8]
  %y = aten.add.Tensor(%r, %g) : f32[2,3,8]
  return %y
}
)");
  EXPECT_THAT(text, HasSubstr("aten.view(%r, [6, 8])"));
  EXPECT_THAT(text, HasSubstr(", %b, %1, \"relu\")"));
  EXPECT_THAT(text, Not(HasSubstr("aten.add")));
}

TEST(FuseTest, ABiasOfOtherColumnsStaysOutside) {
  EXPECT_THAT(Fused(R"(program @f(%x: f32[6,4], %b: f32[4]) {
  %w = variable "w" : f32[4,8]
  %h = aten.mm(%x, %w) : f32[6,8]
  %v = aten.view(%h, [12,4]) : f32[12,4]
  %s = aten.add.Tensor(%v, %b) : f32[12,4]
  return %s
}
)"),
              HasSubstr("aten.add.Tensor"));
}

TEST(FuseTest, KeepsAProductThatIsReadTwice) {
  const std::string text = Fused(R"(program @f(%x: f32[6,4]) {
  %w = variable "w" : f32[4,8]
  %h = aten.mm(%x, %w) : f32[6,8]
  %y = aten.relu(%h) : f32[6,8]
  return %h, %y
}
)");
  EXPECT_THAT(text, HasSubstr("\"none\")"));
  EXPECT_THAT(text, HasSubstr("aten.relu"));
}

TEST(FuseTest, LeavesScaledAndBroadcastProductsAlone) {
  const std::string text = Fused(R"(program @f(%x: f32[6,4], %c: f32[6,8]) {
  %w = variable "w" : f32[4,8]
  %b = variable "b" : f32[8]
  %h = aten.addmm(%c, %x, %w) : f32[6,8]
  %g = aten.addmm(%b, %x, %w, beta=2) : f32[6,8]
  return %h, %g
}
)");
  EXPECT_THAT(text, Not(HasSubstr("mica.linear")));
}

TEST(FuseTest, SumAndItsLayerNormAreOne) {
  const std::string text = Fused(R"(program @f(%a: f32[6,8], %b: f32[6,8]) {
  %s = aten.add.Tensor(%a, %b) : f32[6,8]
  %y, %m, %r = aten.native_layer_norm(%s, [8], none, none, 1e-05) : f32[6,8], f32[6,1], f32[6,1]
  %z = aten.neg(%s) : f32[6,8]
  return %y, %z
}
)");
  EXPECT_THAT(text, HasSubstr("mica.add_layer_norm"));
  EXPECT_THAT(text, Not(HasSubstr("aten.add.Tensor")));
}

TEST(FuseTest, KeepsASumThatIsReadBeforeItsLayerNorm) {
  const std::string text = Fused(R"(program @f(%a: f32[6,8], %b: f32[6,8]) {
  %s = aten.add.Tensor(%a, %b) : f32[6,8]
  %z = aten.neg(%s) : f32[6,8]
  %y, %m, %r = aten.native_layer_norm(%s, [8], none, none, 1e-05) : f32[6,8], f32[6,1], f32[6,1]
  return %y, %z
}
)");
  EXPECT_THAT(text, HasSubstr("aten.add.Tensor"));
}

}  // namespace
}  // namespace mica
