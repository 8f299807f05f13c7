#include "analysis/fuse/simplify.h"

#include <string>

#include "framework/base/test_matchers.h"
#include "framework/text/text.h"
#include "kernels/all.h"
#include "ops/all.h"

namespace mica {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string Simplified(absl::string_view text) {
  absl::StatusOr<Program> program = ParseProgram(text, AllOps());
  EXPECT_THAT(program, IsOk());
  if (!program.ok()) return "";
  absl::StatusOr<Program> simple = Simplify(*program, AllOps(), AllKernels());
  EXPECT_THAT(simple, IsOk());
  return simple.ok() ? ToText(*simple) : "";
}

TEST(SimplifyTest, AWholeWriteIsAView) {
  const std::string text =
      Simplified(R"(program @f(%x: f32[6,4], %y: f32[2,3,4]) {
  %z = mica.scatter_view(%x, %y, [2,3,4], [12,4,1], 0) : f32[6,4]
  %r = aten.relu(%z) : f32[6,4]
  return %r
}
)");
  EXPECT_THAT(text, HasSubstr("aten.view(%y, [6, 4])"));
  EXPECT_THAT(text, Not(HasSubstr("scatter_view")));
}

TEST(SimplifyTest, AWholeWriteOfACopyThatIsLeftOutIsDense) {
  const std::string text = Simplified(R"(program @f(%x: f32[6,4], %y: f32[6]) {
  %e = aten.expand(%y, [4, 6]) : f32[4,6]{0,1}
  %z = aten.as_strided(%x, [4,6], [6,1], storage_offset=0) : f32[4,6]
  %c = aten.copy(%z, %e) : f32[4,6]
  %w = mica.scatter_view(%x, %c, [4,6], [6,1], 0) : f32[6,4]
  %s = aten.as_strided(%w, [24], [1], storage_offset=0) : f32[24]
  return %s
}
)");
  EXPECT_THAT(text, HasSubstr("aten.clone(%e, "));
  EXPECT_THAT(text, Not(HasSubstr("scatter_view")));
}

TEST(SimplifyTest, APartWrittenStaysAWrite) {
  EXPECT_THAT(Simplified(R"(program @f(%x: f32[6,4], %y: f32[6,3]) {
  %z = mica.scatter_view(%x, %y, [6,3], [4,1], 0) : f32[6,4]
  return %z
}
)"),
              HasSubstr("scatter_view"));
}

TEST(SimplifyTest, AWriteOfAWholeTensorIsACopyOfWhatIsWritten) {
  const std::string text = Simplified(R"(program @f(%x: f32[4], %z: f32[6,4]) {
  %e = aten.new_empty_strided(%x, [6, 4], [4, 1]) : f32[6,4]
  %y = aten.copy(%e, %x) : f32[6,4]
  %h = aten.copy(%z, %x) : f32[6,4]
  return %y, %h
}
)");
  EXPECT_THAT(text, Not(HasSubstr("aten.copy")));
  EXPECT_THAT(text, Not(HasSubstr("empty")));
  EXPECT_THAT(text, HasSubstr("%h = aten.clone("));
  EXPECT_THAT(text, HasSubstr("aten.expand(%x, [6, 4])"));
}

TEST(SimplifyTest, ACopyOfAnotherTypeConverts) {
  EXPECT_THAT(Simplified(R"(program @f(%x: f64[4], %z: f32[4]) {
  %y = aten.copy(%z, %x) : f32[4]
  return %y
}
)"),
              HasSubstr("aten._to_copy(%x, dtype=f32) : f32[4]"));
}

TEST(SimplifyTest, ACopyThatNobodyCanTellIsLeftOut) {
  EXPECT_THAT(Simplified(R"(program @f(%x: f32[4], %z: f32[4]) {
  %r = aten.relu(%x) : f32[4]
  %y = aten.copy(%z, %r) : f32[4]
  %p = aten.pow.Tensor_Scalar(%x, 1.0) : f32[4]
  %q = aten.mul.Tensor(%p, %p) : f32[4]
  return %y, %q
}
)"),
              testing::AllOf(Not(HasSubstr("copy")), Not(HasSubstr("pow")),
                             Not(HasSubstr("clone")),
                             HasSubstr("aten.mul.Tensor(%x, %x)")));
}

TEST(SimplifyTest, AnInputsCopyIsMemoryOfItsOwn) {
  EXPECT_THAT(Simplified(R"(program @f(%x: f32[4]) {
  %p = aten.pow.Tensor_Scalar(%x, 1.0) : f32[4]
  return %p
}
)"),
              HasSubstr("aten.clone(%x)"));
}

TEST(SimplifyTest, AttentionsGradientsLieAsTheirCopies) {
  const std::string text = Simplified(
      R"(program @f(%d: f32[1,2,4,8], %q: f32[1,2,4,8], %l: f32[1,2,4]) {
  %a, %b, %c = aten._scaled_dot_product_flash_attention_for_cpu_backward(%d, %q, %q, %q, %d, %l, 0.0, false) : f32[1,2,4,8]{64,8,16,1}, f32[1,2,4,8]{64,8,16,1}, f32[1,2,4,8]{64,8,16,1}
  %e = aten.new_empty_strided(%b, [1, 2, 4, 8], [64, 32, 8, 1]) : f32[1,2,4,8]
  %y = aten.copy(%e, %b) : f32[1,2,4,8]
  return %a, %y, %c
}
)");
  EXPECT_THAT(text, HasSubstr(": f32[1,2,4,8]{64,8,16,1}, f32[1,2,4,8], "
                              "f32[1,2,4,8]{64,8,16,1}"));
  EXPECT_THAT(text, Not(HasSubstr("copy")));
}

constexpr absl::string_view kGelu = R"(program @f(%x: f32[6,4]) {
  %half = constant 0.5 : f64
  %cube = constant 0.044715 : f64
  %scale = constant 0.7978845608028654 : f64
  %one = constant 1 : f64
  %h = aten.mul.Tensor(%x, %half) : f32[6,4]
  %p = aten.pow.Tensor_Scalar(%x, EXPONENT) : f32[6,4]
  %c = aten.mul.Tensor(%p, %cube) : f32[6,4]
  %s = aten.add.Tensor(%x, %c) : f32[6,4]
  %i = aten.mul.Tensor(%s, %scale) : f32[6,4]
  %t = aten.tanh(%i) : f32[6,4]
  %o = aten.add.Tensor(%t, %one) : f32[6,4]
  %y = aten.mul.Tensor(%h, %o) : f32[6,4]
  return %y
}
)";

std::string GeluWithExponent(absl::string_view exponent) {
  std::string text(kGelu);
  const size_t at = text.find("EXPONENT");
  return text.replace(at, 8, std::string(exponent));
}

TEST(SimplifyTest, GeluSpeltOutIsGelu) {
  const std::string text = Simplified(GeluWithExponent("3.0"));
  EXPECT_THAT(text, HasSubstr("aten.gelu(%x, approximate=\"tanh\")"));
  EXPECT_THAT(text, Not(HasSubstr("aten.tanh")));
}

TEST(SimplifyTest, AlmostGeluStaysAsItIs) {
  EXPECT_THAT(Simplified(GeluWithExponent("2.0")), Not(HasSubstr("gelu")));
}

TEST(SimplifyTest, WhatALayerNormReadsIsRowMajor) {
  const std::string text =
      Simplified(R"(program @f(%x: f32[2,8,6]{48,1,8}, %y: f32[2,8,6]) {
  %s = aten.add.Tensor(%x, %y) : f32[2,8,6]{48,1,8}
  %a, %b, %c = aten.native_layer_norm(%s, [6], none, none, 1e-05) : f32[2,8,6], f32[2,8,1], f32[2,8,1]
  %d, %e, %g = aten.native_layer_norm(%x, [6], none, none, 1e-05) : f32[2,8,6], f32[2,8,1], f32[2,8,1]
  return %a, %d
}
)");
  EXPECT_THAT(text, HasSubstr("%s = aten.add.Tensor(%x, %y) : f32[2,8,6]\n"));
  EXPECT_THAT(text, HasSubstr("aten.clone(%x, "));
}

TEST(SimplifyTest, AResultKeepsItsStrides) {
  EXPECT_THAT(Simplified(R"(program @f(%x: f32[2,8,6]{48,1,8}) {
  %s = aten.relu(%x) : f32[2,8,6]{48,1,8}
  %a, %b, %c = aten.native_layer_norm(%s, [6], none, none, 1e-05) : f32[2,8,6], f32[2,8,1], f32[2,8,1]
  return %a, %s
}
)"),
              HasSubstr("aten.relu(%x) : f32[2,8,6]{48,1,8}"));
}

TEST(SimplifyTest, AnAttentionLayerIsItsParts) {
  const std::string text = Simplified(R"(program @f(%x: f32[2,5,8]) {
  %w = variable "w" : f32[24,8]
  %b = variable "b" : f32[24]
  %p = variable "p" : f32[8,8]
  %q = variable "q" : f32[8]
  %y, %z = aten._native_multi_head_attention(%x, %x, %x, 8, 2, %w, %b, %p, %q, need_weights=false) : f32[2,5,8], f32[0]
  return %y
}
)");
  EXPECT_THAT(text, Not(HasSubstr("_native_multi_head_attention")));
  EXPECT_THAT(text, HasSubstr("flash_attention_for_cpu"));
}

}  // namespace
}  // namespace mica
