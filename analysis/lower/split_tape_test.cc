#include "analysis/lower/split_tape.h"

#include <string>

#include "analysis/lower/lower.h"
#include "analysis/lower/tape_testing.h"
#include "framework/base/test_matchers.h"
#include "framework/text/text.h"
#include "ops/all.h"

namespace mica {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string Text(const Tape& tape) {
  absl::StatusOr<LoweredTape> lowered = LowerTape(tape, AllOps());
  return lowered.ok() ? ToText(lowered->program, {.print_sources = false})
                      : std::string(lowered.status().message());
}

// y = tanh(x) * w, and back from y with g: the gradient of x.
class SplitTapeTest : public testing::Test {
 protected:
  SplitTapeTest() {
    x_ = maker_.Input({2, 3}, 0);
    g_ = maker_.Input({2, 3}, 1);
    w_ = maker_.Made({2, 3}, 2);
    maker_.tape().tensors[w_].origin = TapeOrigin::kState;
    maker_.tape().tensors[w_].name = "w";
    maker_.tape().states = {w_};
    t_ = Call("aten.tanh", {TapeTensorRef{x_}}, 3);
    y_ = Call("aten.mul.Tensor", {TapeTensorRef{t_}, TapeTensorRef{w_}}, 4);
    d_ = Call("aten.mul.Tensor", {TapeTensorRef{g_}, TapeTensorRef{w_}}, 5);
    Last().later_part = 0;
    dx_ = Call("aten.tanh_backward", {TapeTensorRef{d_}, TapeTensorRef{t_}}, 6);
    Last().later_part = 0;
    maker_.tape().results = {y_, dx_};
  }

  TapeTensorId Call(const std::string& op, std::vector<TapeValue> args,
                    int32_t storage) {
    const TapeTensorId made = maker_.Made({2, 3}, storage);
    maker_.Call(op, std::move(args), made);
    maker_.MadeByLastCall(made);
    return made;
  }
  absl::StatusOr<SplitTape> Split() {
    return SplitAtBackward(maker_.tape(), 1, 1,
                           {{.roots = {1}, .gradients = {1}}});
  }
  TapeCall& Last() { return maker_.tape().calls.back(); }

  TapeMaker maker_;
  TapeTensorId x_, g_, w_, t_, y_, d_, dx_;
};

TEST_F(SplitTapeTest, TheFirstPartKeepsWhatTheLaterReads) {
  MICA_ASSERT_OK_AND_ASSIGN(const SplitTape split, Split());
  EXPECT_THAT(split.first.results, ElementsAre(y_, t_));
  ASSERT_EQ(split.later[0].kept.size(), 1u);
  EXPECT_TRUE(split.later[0].kept[0].is_result);
  EXPECT_EQ(split.later[0].kept[0].index, 1);
  EXPECT_THAT(split.later[0].states, ElementsAre(0));
  EXPECT_EQ(Text(split.first), R"(program @f(%x: f32[2,3]) {
  %w = variable "w" : f32[2,3]
  %0 = aten.tanh(%x) : f32[2,3]
  %1 = aten.mul.Tensor(%0, %w) : f32[2,3]
  return %1, %0
}
)");
  EXPECT_EQ(Text(split.later[0].tape),
            R"(program @f_backward(%x: f32[2,3], %kept1: f32[2,3]) {
  %w = variable "w" : f32[2,3]
  %0 = aten.mul.Tensor(%x, %w) : f32[2,3]
  %1 = aten.tanh_backward(%0, %kept1) : f32[2,3]
  return %1
}
)");
}

TEST_F(SplitTapeTest, AResultThatIsReadIsNotKeptTwice) {
  maker_.tape().results = {t_, dx_};
  MICA_ASSERT_OK_AND_ASSIGN(const SplitTape split, Split());
  EXPECT_THAT(split.first.results, ElementsAre(t_));
  EXPECT_EQ(split.later[0].kept[0].index, 0);
}

TEST_F(SplitTapeTest, AnArgumentIsKeptAsItself) {
  maker_.tape().calls[3].args[1] = TapeTensorRef{x_};
  MICA_ASSERT_OK_AND_ASSIGN(const SplitTape split, Split());
  EXPECT_THAT(split.first.results, ElementsAre(y_));
  ASSERT_EQ(split.later[0].kept.size(), 1u);
  EXPECT_FALSE(split.later[0].kept[0].is_result);
  EXPECT_EQ(split.later[0].kept[0].index, 0);
}

TEST_F(SplitTapeTest, ANumberThatVariesIsToldAndFed) {
  Tape& tape = maker_.tape();
  tape.host_values = {{.input = 0, .name = "scale", .value = 2}};
  TapeTensor number{.dtype = "f64",
                    .storage = 7,
                    .is_wrapped_number = true,
                    .origin = TapeOrigin::kConstant,
                    .numbers = {{.id = 0}}};
  tape.tensors.push_back(number);
  const auto id = static_cast<TapeTensorId>(tape.tensors.size()) - 1;
  tape.calls[1].args[1] = TapeTensorRef{id};
  tape.calls[2].args[1] = TapeTensorRef{id};
  MICA_ASSERT_OK_AND_ASSIGN(const SplitTape split, Split());
  EXPECT_THAT(split.later[0].numbers, ElementsAre(0));
  EXPECT_THAT(split.first.host_results, ElementsAre(0));
  ASSERT_EQ(split.later[0].tape.host_values.size(), 1u);
  EXPECT_EQ(split.later[0].tape.host_values[0].kind,
            TapeHostValue::Kind::kInput);
  EXPECT_TRUE(split.later[0].tape.host_results.empty());
}

// Going back goes in two parts: through the product, then through the tanh.
TEST_F(SplitTapeTest, PartsTakeEachTheirOwn) {
  Tape& tape = maker_.tape();
  const TapeTensorId root = maker_.Input({2, 3}, 9);
  tape.calls[3].later_part = 1;
  tape.calls[3].args[0] = TapeTensorRef{root};
  tape.results = {y_, d_, dx_};
  const std::vector<LaterPart> parts = {{.roots = {1}, .gradients = {1}},
                                        {.roots = {2}, .gradients = {2}}};
  MICA_ASSERT_OK_AND_ASSIGN(const SplitTape split,
                            SplitAtBackward(tape, 1, 1, parts));
  ASSERT_EQ(split.later.size(), 2u);
  EXPECT_THAT(split.first.results, ElementsAre(y_, t_));
  EXPECT_TRUE(split.later[0].kept.empty());
  EXPECT_THAT(split.later[0].states, ElementsAre(0));
  EXPECT_THAT(split.later[0].tape.results, ElementsAre(d_));
  ASSERT_EQ(split.later[1].kept.size(), 1u);
  EXPECT_EQ(split.later[1].kept[0].index, 1);
  EXPECT_TRUE(split.later[1].states.empty());
  EXPECT_THAT(split.later[1].tape.inputs, ElementsAre(root, t_));

  tape.calls[3].args[0] = TapeTensorRef{d_};
  EXPECT_THAT(SplitAtBackward(tape, 1, 1, parts).status().message(),
              HasSubstr("reads what another one makes"));
}

TEST_F(SplitTapeTest, WhatTheLaterPartDidNotMakeItMayNotWrite) {
  maker_.tape().calls[3].mutated_args = {1};
  EXPECT_THAT(Split().status().message(),
              HasSubstr("aten.tanh_backward: the backward pass writes what it "
                        "didn't make"));
  maker_.tape().calls[3].mutated_args = {0};
  MICA_EXPECT_OK(Split().status());
}

TEST_F(SplitTapeTest, ANumberReadOnTheHostIsRefused) {
  maker_.tape().host_reads = {{.call = 3, .output = 0}};
  EXPECT_THAT(Split().status().message(),
              HasSubstr("reads a number on the host"));
}

}  // namespace
}  // namespace mica
