#include "analysis/sizes/backward_loops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/lower/tape_testing.h"

namespace mica {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class LoopedTape {
 public:
  // Some h = tanh(h), then the gradient of the last one.
  explicit LoopedTape(int32_t rounds) {
    h_ = {maker_.Input({3}, storage_++)};
    for (int32_t i = 0; i < rounds; ++i) {
      calls_.push_back(NumCalls());
      h_.push_back(Call("aten.tanh", {TapeTensorRef{h_.back()}}));
    }
    calls_.push_back(NumCalls());
    gradient_ = maker_.Input({3}, storage_++);
  }

  // One round back, with `sum` of the gradients, if there is one yet.
  void GoBack(int32_t round, const std::string& add = "aten.add.Tensor") {
    gradient_ = Backward("aten.tanh_backward", {TapeTensorRef{gradient_},
                                                TapeTensorRef{h_[round + 1]}});
    const TapeTensorId part =
        Backward("aten.mul.Tensor",
                 {TapeTensorRef{gradient_}, TapeTensorRef{h_[round]}});
    sum_ = sum_.has_value() ? Backward(add, {TapeTensorRef{*sum_},
                                             TapeTensorRef{part}, int64_t{1}})
                            : part;
  }
  void TakeApart(int64_t from, int64_t step) {
    for (size_t i = 0; i + 1 < calls_.size(); ++i) {
      const auto index = from + step * static_cast<int64_t>(i);
      Backward("aten.select.int",
               {TapeTensorRef{gradient_}, int64_t{0}, index});
    }
  }

  SizeFacts Facts() const {
    SizeFacts facts;
    facts.numbers = {{.tensor = 0, .dim = 0}};
    facts.loops = {{.stop = {.id = 0}, .step = 1, .calls = calls_}};
    AddBackwardLoops(maker_.tape(), facts);
    return facts;
  }
  int32_t NumCalls() const {
    return static_cast<int32_t>(maker_.tape().calls.size());
  }

 private:
  TapeTensorId Call(std::string op, std::vector<TapeValue> args) {
    const TapeTensorId made = maker_.Made({3}, storage_++);
    maker_.Call(std::move(op), std::move(args), made);
    maker_.MadeByLastCall(made);
    return made;
  }
  TapeTensorId Backward(std::string op, std::vector<TapeValue> args) {
    const TapeTensorId made = Call(std::move(op), std::move(args));
    maker_.tape().calls.back().is_backward = true;
    return made;
  }

  mutable TapeMaker maker_;
  int32_t storage_ = 0;
  std::vector<TapeTensorId> h_;
  std::vector<int32_t> calls_;
  TapeTensorId gradient_ = 0;
  std::optional<TapeTensorId> sum_;
};

TEST(BackwardLoopsTest, ALoopIsGoneThroughFromItsLastRoundOn) {
  LoopedTape tape(6);
  for (int32_t round = 5; round >= 0; --round) tape.GoBack(round);
  const SizeFacts facts = tape.Facts();
  ASSERT_THAT(facts.loops, SizeIs(2));
  const SizeFacts::Loop& back = facts.loops[1];
  EXPECT_EQ(back.like, 0);
  // The first one adds nothing.
  EXPECT_EQ(back.less, 1);
  EXPECT_THAT(back.calls, ElementsAre(8, 11, 14, 17, 20, 23));
  EXPECT_EQ(facts.loops[0].like, -1);
}

TEST(BackwardLoopsTest, SumsMayBeginOutOfPlace) {
  LoopedTape tape(7);
  tape.GoBack(6);
  tape.GoBack(5);
  for (int32_t round = 4; round >= 0; --round) {
    tape.GoBack(round, "aten.add_.Tensor");
  }
  const SizeFacts facts = tape.Facts();
  ASSERT_THAT(facts.loops, SizeIs(2));
  EXPECT_EQ(facts.loops[1].less, 2);
  EXPECT_THAT(facts.loops[1].calls, SizeIs(6));
}

TEST(BackwardLoopsTest, WhatDiffersFromRoundToRoundIsNoLoop) {
  LoopedTape tape(6);
  for (int32_t round = 5; round >= 0; --round) {
    tape.GoBack(round, round % 2 == 0 ? "aten.add.Tensor" : "aten.add_.Tensor");
  }
  EXPECT_THAT(tape.Facts().loops, SizeIs(1));
}

TEST(BackwardLoopsTest, FewRoundsDontTell) {
  LoopedTape tape(3);
  for (int32_t round = 2; round >= 0; --round) tape.GoBack(round);
  EXPECT_THAT(tape.Facts().loops, SizeIs(1));
}

TEST(BackwardLoopsTest, WhatWasStackedIsTakenApart) {
  LoopedTape tape(5);
  const int32_t begin = tape.NumCalls();
  tape.TakeApart(0, 1);
  const SizeFacts facts = tape.Facts();
  ASSERT_THAT(facts.loops, SizeIs(2));
  const SizeFacts::Loop& apart = facts.loops[1];
  EXPECT_EQ(apart.less, 0);
  EXPECT_EQ(apart.calls.front(), begin);
  ASSERT_THAT(apart.numbers, SizeIs(5));
  // Each call is passed the number of its round.
  ASSERT_THAT(facts.uses, SizeIs(5));
  EXPECT_EQ(facts.uses[3].first_call, begin + 3);
  ASSERT_THAT(facts.uses[3].numbers, SizeIs(1));
  EXPECT_EQ(facts.numbers[facts.uses[3].numbers[0]].op, "mica.int_add");
}

TEST(BackwardLoopsTest, EqualNumbersAreNone) {
  LoopedTape tape(5);
  tape.TakeApart(2, 0);
  EXPECT_THAT(tape.Facts().uses, IsEmpty());
}

}  // namespace
}  // namespace mica
