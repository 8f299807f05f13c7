#include "framework/base/test_matchers.h"
#include "ops/infer_testing.h"

namespace mica {
namespace {

TEST(ActivationTest, KnowsItsVariants) {
  EXPECT_EQ(Types("%x: f32[2]", "aten.gelu(%x, approximate=\"tanh\")"),
            "f32[2]");
  ExpectError("%x: f32[2]", "aten.gelu(%x, approximate=\"fast\")",
              "approximate");
  ExpectError("%x: f32[2,3]", "aten.glu(%x)", "even size");
}

TEST(SoftmaxTest, WantsFloats) {
  EXPECT_EQ(Types("%x: f32[2,3]", "aten._softmax(%x, -1, false)"), "f32[2,3]");
  ExpectError("%x: i64[2,3]", "aten._softmax(%x, -1, false)", "floating-point");
}

TEST(NormTest, GivesStatisticsOfTheOuterDims) {
  EXPECT_EQ(Types("%x: f32[2,5,4], %w: f32[4]",
                  "aten.native_layer_norm(%x, [4], %w, none, 1e-5)"),
            "f32[2,5,4] f32[2,5,1] f32[2,5,1]");
  EXPECT_EQ(Types("%x: f32[2,6,5]",
                  "aten.native_group_norm(%x, none, none, 2, 6, 5, 3, 1e-5)"),
            "f32[2,6,5] f32[2,3] f32[2,3]");
  EXPECT_EQ(Types("%a: f32[2,4], %b: f32[2,4]",
                  "mica.add_layer_norm(%a, %b, [4], none, none, 1e-5)"),
            "f32[2,4] f32[2,4]");
  ExpectError("%x: f32[2,5,4], %w: f32[5]",
              "aten.native_layer_norm(%x, [4], %w, none, 1e-5)",
              "last dims are normalized_shape");
  ExpectError("%x: f32[2,6,5]",
              "aten.native_group_norm(%x, none, none, 2, 6, 5, 4, 1e-5)",
              "multiple of group");
}

TEST(NormTest, DropoutThatDrawsIsNotWritten) {
  EXPECT_EQ(Types("%x: f32[2]", "aten.native_dropout(%x, 0.5, false)"),
            "f32[2] bool[2]");
  ExpectError("%x: f32[2]", "aten.native_dropout(%x, 0.5, true)",
              "training draws numbers", absl::StatusCode::kUnimplemented);
  ExpectError("%x: f32[2]", "aten.native_dropout(%x, 0, true)",
              "training draws numbers", absl::StatusCode::kUnimplemented);
}

constexpr absl::string_view kAttention =
    "aten._scaled_dot_product_flash_attention_for_cpu";

TEST(AttentionTest, SharesKeyHeads) {
  EXPECT_EQ(Types("%q: f32[1,4,5,8], %k: f32[1,2,6,8], %v: f32[1,2,6,3]",
                  absl::StrCat(kAttention, "(%q, %k, %v)")),
            "f32[1,4,5,3] f32[1,4,5]");
  ExpectError("%q: f32[1,4,5,8], %k: f32[1,3,6,8], %v: f32[1,3,6,8]",
              absl::StrCat(kAttention, "(%q, %k, %v)"), "h a multiple of g");
  ExpectError("%q: f32[1,4,5,8], %m: f32[4,5]",
              absl::StrCat(kAttention, "(%q, %q, %q, attn_mask=%m)"),
              "attn_mask that broadcasts to [b,h,l,s]");
}

TEST(EmbeddingTest, AppendsTheRows) {
  EXPECT_EQ(Types("%w: f32[10,4], %i: i64[2,3]", "aten.embedding(%w, %i)"),
            "f32[2,3,4]");
  ExpectError("%w: f32[10,4], %i: f32[2]", "aten.embedding(%w, %i)",
              "integer indices");
}

TEST(LossTest, ReducesOrNot) {
  EXPECT_EQ(Types("%x: f32[4,3], %t: i64[4]",
                  "aten.nll_loss_forward(%x, %t, none, 0, -100)"),
            "f32[4] f32[]");
  EXPECT_EQ(Types("%x: f32[4], %t: f32[4]", "aten.mse_loss(%x, %t)"), "f32[]");
  ExpectError("%x: f32[4], %t: f32[4]", "aten.mse_loss(%x, %t, 3)",
              "reduction 0, 1 or 2");
}

TEST(ConvTest, CountsPlacesOfTheWindow) {
  EXPECT_EQ(Types("%x: f32[2,3,8,9], %w: f32[6,3,3,3]",
                  "aten.convolution(%x, %w, none, [2,2], [1,1], [1,1], false, "
                  "[0,0], 1)"),
            "f32[2,6,4,5]");
  EXPECT_EQ(
      Types("%x: f32[2,3,9,9]", "aten.avg_pool2d(%x, [2], [], [0], true)"),
      "f32[2,3,5,5]");
  ExpectError("%x: f32[2,3,2,2], %w: f32[6,3,3,3]",
              "aten.convolution(%x, %w, none, [1], [0], [1], false, [0], 1)",
              "a kernel no larger than the input");
  ExpectError("%x: f32[2,4,8,8], %w: f32[6,3,3,3]",
              "aten.convolution(%x, %w, none, [1], [0], [1], false, [0], 1)",
              "channels that fit");
  ExpectError("%x: f32[2,3,8,8], %w: f32[6,3,3,3]",
              "aten.convolution(%x, %w, none, [0], [0], [1], false, [0], 1)",
              "aten.convolution: wants");
}

constexpr absl::string_view kLstmInputs =
    "%x: f32[5,2,3], %i: f32[16,3], %h: f32[16,4], %b: f32[16], %s: f32[2,4], "
    "%y: f32[5,2,4], %k: f32[5,2,20]";

TEST(LstmTest, KeepsGatesAndCellsForItsBackwardPass) {
  EXPECT_EQ(Types(kLstmInputs,
                  "mica.lstm_layer(%x, %i, %h, %b, %b, %s, %s, false, [], 2, "
                  "4, 1, true, false, false, true)"),
            "f32[5,2,4] f32[2,4] f32[2,4] f32[5,2,20]");
  ExpectError(kLstmInputs,
              "mica.lstm_layer(%x, %i, %h, %b, %b, %s, %s, false, [], 3, 4, 1, "
              "true, false, false, true)",
              "other than an LSTM", absl::StatusCode::kUnimplemented);
  const auto backward = [](absl::string_view grad, absl::string_view tail) {
    return absl::StrCat(
        "mica.lstm_layer_backward(%x, %i, %h, %b, %b, %s, %s, %y, %s, %s, ",
        grad, ", none, %s, true, 2, 4, 1, ", tail);
  };
  EXPECT_EQ(
      Types(kLstmInputs, backward("%y", "true, true, false, [], false, %k)")),
      "f32[5,2,3] f32[16,3] f32[16,4] f32[16] f32[16] f32[2,4] f32[2,4]");
  ExpectError(kLstmInputs, backward("%y", "true, true, false, [], false, %y)"),
              "what was kept[t,b,5h]");
  ExpectError(kLstmInputs, backward("%s", "true, true, false, [], false, %k)"),
              "outputs[t,b,h]");
  ExpectError(kLstmInputs, backward("%y", "false, true, false, [], false, %k)"),
              "with biases", absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace mica
