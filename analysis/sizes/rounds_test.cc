#include "analysis/sizes/rounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "analysis/lower/tape_testing.h"
#include "analysis/sizes/size_template.h"
#include "framework/base/test_matchers.h"
#include "ops/all.h"

namespace mica {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Parts of x, joined one after another: h = tanh(h + part), all h in a stack.
// `last` adds the last one again, `times` times.
struct Looped {
  Tape tape;
  RoundBegins begins;
};
//
// `more`: a second loop goes through all h: g = (g + h) * one that is the same
// in each round, the last h or the first.
enum class Second { kNone, kWithLast, kWithFirst };
Looped MakeRun(int64_t count, bool has_last = true, Second more = Second::kNone,
               RoundBegins* second = nullptr) {
  TapeMaker maker;
  int32_t storage = 1;
  const TapeTensorId x = maker.Input({count, 3}, 0);
  std::vector<TapeTensorId> parts;
  for (int64_t i = 0; i < count; ++i) {
    parts.push_back(maker.Window(x, {3}, {1}, 3 * i));
    TapeTensor& part = maker.tape().tensors.back();
    part.input = -1;
    part.name = "";
    part.call = part.output = 0;
    part.item = static_cast<int32_t>(i);
  }
  TapeCall& unbind =
      maker.Call("aten.unbind.int", {TapeTensorRef{x}, int64_t{0}}, x);
  unbind.arg_names = {"self", "dim"};
  unbind.outputs = {TapeTensorList{parts}};
  unbind.aliases = {{.output = 0, .arg = 0}};
  const auto call = [&](std::string op, std::vector<TapeValue> args,
                        std::vector<std::string> names,
                        std::vector<int64_t> sizes) {
    const TapeTensorId made = maker.Made(std::move(sizes), storage++);
    maker.Call(std::move(op), std::move(args), made).arg_names =
        std::move(names);
    maker.MadeByLastCall(made);
    return made;
  };
  Looped run;
  std::vector<TapeTensorId> all;
  TapeTensorId h = call("aten.relu", {TapeTensorRef{parts[0]}}, {"self"}, {3});
  for (const TapeTensorId part : parts) {
    run.begins.push_back(static_cast<int32_t>(maker.tape().calls.size()));
    h = call("aten.add.Tensor",
             {TapeTensorRef{h}, TapeTensorRef{part}, int64_t{1}},
             {"self", "other", "alpha"}, {3});
    h = call("aten.tanh", {TapeTensorRef{h}}, {"self"}, {3});
    all.push_back(h);
  }
  run.begins.push_back(static_cast<int32_t>(maker.tape().calls.size()));
  const TapeTensorId joined =
      call("aten.stack", {TapeTensorList{all}, int64_t{0}}, {"tensors", "dim"},
           {count, 3});
  maker.tape().results = {joined};
  if (has_last) maker.tape().results.push_back(h);
  TapeTensorId g = h;
  for (const TapeTensorId one : all) {
    if (more == Second::kNone) break;
    second->push_back(static_cast<int32_t>(maker.tape().calls.size()));
    g = call("aten.add.Tensor",
             {TapeTensorRef{g}, TapeTensorRef{one}, int64_t{1}},
             {"self", "other", "alpha"}, {3});
    const TapeTensorId same =
        more == Second::kWithLast ? all.back() : all.front();
    g = call("aten.mul.Tensor", {TapeTensorRef{g}, TapeTensorRef{same}},
             {"self", "other"}, {3});
  }
  if (more != Second::kNone) {
    second->push_back(static_cast<int32_t>(maker.tape().calls.size()));
    maker.tape().results.push_back(g);
  }
  run.tape = maker.tape();
  return run;
}

SizeFacts FactsOf(const Looped& run) {
  SizeFacts facts;
  facts.loops = {{.call = 0, .calls = run.begins}};
  return facts;
}

TensorSizes Rows(int64_t rows) {
  return {.sizes = {rows, 3}, .strides = {3, 1}};
}

SizedTape Shared(const Looped& run) {
  return {.tape = std::make_shared<const Tape>(run.tape)};
}

// What calls refer to, so that tapes can be compared.
std::string TextOf(const Tape& tape) {
  std::string text;
  for (const TapeCall& call : tape.calls) {
    text += call.op;
    for (const auto* values : {&call.args, &call.outputs}) {
      for (const TapeValue& value : *values) {
        ForEachTensor(
            value, [&](TapeTensorId id) { text += " " + std::to_string(id); });
      }
      text += ";";
    }
    text += "\n";
  }
  for (const TapeTensorId id : tape.results) text += std::to_string(id) + " ";
  for (const TapeTensor& tensor : tape.tensors) {
    text += "\n" + std::to_string(tensor.call) + " " +
            std::to_string(tensor.item) + " " + std::to_string(tensor.storage);
  }
  return text;
}

TEST(RoundsTest, MoreAndFewerRoundsAreAsThoseRunsMakeThem) {
  for (const int64_t from : {3, 4, 7}) {
    const Looped run = MakeRun(from);
    const Rounds rounds(run.tape, {run.begins});
    EXPECT_EQ(rounds.count(0), from);
    for (const int64_t to : {2, 3, 5, 9}) {
      OtherRounds other(run.tape, rounds, {static_cast<int32_t>(to)});
      MICA_ASSERT_OK(other.Make());
      const Looped wanted = MakeRun(to);
      EXPECT_EQ(TextOf(other.tape()), TextOf(wanted.tape)) << from << to;
      EXPECT_EQ(other.loops()[0], wanted.begins);
    }
  }
}

// In its last (or first) round, what is the same in each is what that one goes
// through.
TEST(RoundsTest, ALoopOverAnotherOneTakesWhatIsTheSameInEachRound) {
  for (const Second more : {Second::kWithLast, Second::kWithFirst}) {
    for (const int64_t from : {3, 4, 7}) {
      RoundBegins second;
      const Looped run = MakeRun(from, true, more, &second);
      const Rounds rounds(run.tape, {run.begins, second});
      for (const int64_t to : {2, 3, 5, 9}) {
        const auto count = static_cast<int32_t>(to);
        OtherRounds other(run.tape, rounds, {count, count});
        MICA_ASSERT_OK(other.Make());
        RoundBegins unused;
        const Looped wanted = MakeRun(to, true, more, &unused);
        EXPECT_EQ(TextOf(other.tape()), TextOf(wanted.tape)) << from << to;
      }
    }
  }
}

TEST(RoundsTest, RoundsMayMakeNoCalls) {
  const Looped run = MakeRun(4);
  const int32_t end = run.begins.back();
  const auto none = [](int32_t call, size_t rounds) {
    return RoundBegins(rounds + 1, call);
  };
  // In front of the calls, between them and at their end.
  const auto calls = static_cast<int32_t>(run.tape.calls.size());
  const Rounds rounds(run.tape,
                      {none(0, 3), run.begins, none(end, 3), none(calls, 3)});
  OtherRounds other(run.tape, rounds, {5, 6, 2, 7});
  MICA_ASSERT_OK(other.Make());
  const Looped wanted = MakeRun(6);
  EXPECT_EQ(TextOf(other.tape()), TextOf(wanted.tape));
  const int32_t moved = wanted.begins.back();
  EXPECT_THAT(other.loops(),
              ElementsAre(none(0, 5), wanted.begins, none(moved, 2),
                          none(calls - end + moved, 7)));
}

TEST(RoundsTest, RoundsThatDifferHaveNoMore) {
  Looped run = MakeRun(4);
  run.tape.calls[run.begins[3]].op = "aten.sub.Tensor";
  const Rounds rounds(run.tape, {run.begins});
  OtherRounds more(run.tape, rounds, {5});
  EXPECT_THAT(more.Make().message(),
              HasSubstr("the rounds of a loop aren't alike"));
  OtherRounds fewer(run.tape, rounds, {2});
  EXPECT_THAT(fewer.Make().message(),
              HasSubstr("the rounds of a loop aren't alike"));
}

TEST(RoundsTest, ATemplateHoldsForAnyNumber) {
  for (const auto& [a, b] : {std::pair(4, 2), std::pair(3, 6)}) {
    const Looped one = MakeRun(a), other = MakeRun(b);
    const auto made = SizeTemplate::Make({Shared(one), Shared(other)},
                                         FactsOf(other), 1, AllOps());
    MICA_ASSERT_OK(made);
    EXPECT_THAT((*made)->OpenDims(0), ElementsAre(0));
    for (const int64_t rows : {2, 3, 5, 8}) {
      const auto tape = (*made)->At({Rows(rows)});
      MICA_ASSERT_OK(tape);
      EXPECT_EQ(TextOf(*tape), TextOf(MakeRun(rows).tape));
      EXPECT_THAT(tape->tensors[tape->results[0]].sizes, ElementsAre(rows, 3));
    }
    EXPECT_FALSE((*made)->At({Rows(1)}).ok());
  }
}

TEST(RoundsTest, ALoopThatSettlesLateGoesAsOftenAtLeast) {
  const Looped one = MakeRun(4), other = MakeRun(6);
  SizeFacts facts = FactsOf(other);
  facts.loops[0].steady = 3;
  const auto made = SizeTemplate::Make({Shared(one), Shared(other)},
                                       std::move(facts), 1, AllOps());
  MICA_ASSERT_OK(made);
  MICA_EXPECT_OK((*made)->At({Rows(3)}).status());
  EXPECT_THAT((*made)->At({Rows(2)}).status().message(),
              HasSubstr("less often than it takes to settle"));
}

TEST(RoundsTest, WithoutTheLoopTheRunsDiffer) {
  EXPECT_FALSE(SizeTemplate::Make({Shared(MakeRun(4)), Shared(MakeRun(6))}, {},
                                  1, AllOps())
                   .ok());
}

// Of which round the result is, another run tells.
TEST(RoundsTest, WhatComesAfterALoopIsOfItsFirstOrLastRound) {
  const auto make = [](int64_t count, int64_t round) {
    Looped run = MakeRun(count, /*has_last=*/false);
    const Rounds rounds(run.tape, {run.begins});
    run.tape.results.push_back(
        rounds.At({0, static_cast<int32_t>(round), /*position=*/1}));
    return run;
  };
  // The second of 3 and of 5; and the last but one of each.
  for (const bool is_last : {false, true}) {
    const Looped one = make(3, 1), other = make(5, is_last ? 3 : 1);
    const auto made = SizeTemplate::Make({Shared(one), Shared(other)},
                                         FactsOf(other), 1, AllOps());
    MICA_ASSERT_OK(made);
    const auto tape = (*made)->At({Rows(8)});
    MICA_ASSERT_OK(tape);
    EXPECT_EQ(TextOf(*tape), TextOf(make(8, is_last ? 6 : 1).tape));
  }
}

}  // namespace
}  // namespace mica
