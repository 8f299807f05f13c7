#include "analysis/sizes/size_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "analysis/lower/tape_testing.h"
#include "framework/base/test_matchers.h"
#include "ops/all.h"

namespace mica {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using MakeTape = std::function<Tape(int64_t rows, int64_t columns)>;

SizedTape Shared(Tape tape) {
  return {.tape = std::make_shared<const Tape>(std::move(tape))};
}

absl::StatusOr<std::shared_ptr<const SizeTemplate>> Make(
    const MakeTape& make, std::vector<std::pair<int64_t, int64_t>> sizes,
    SizeFacts facts = {}) {
  std::vector<SizedTape> runs;
  for (const auto& [rows, columns] : sizes) {
    runs.push_back(Shared(make(rows, columns)));
  }
  return SizeTemplate::Make(std::move(runs), std::move(facts), /*num_args=*/1,
                            AllOps());
}

TensorSizes Matrix(int64_t rows, int64_t columns) {
  return {.sizes = {rows, columns}, .strides = {columns, 1}};
}

// x.relu().view(rows * columns).
Tape Flattened(int64_t rows, int64_t columns) {
  TapeMaker maker;
  const TapeTensorId x = maker.Input({rows, columns}, 0);
  const TapeTensorId y = maker.Made({rows, columns}, 1);
  maker.Call("aten.relu", {TapeTensorRef{x}}, y).arg_names = {"self"};
  maker.MadeByLastCall(y);
  const TapeTensorId z = maker.Window(y, {rows * columns}, {1}, 0);
  TapeCall& call = maker.Call(
      "aten.view", {TapeTensorRef{y}, std::vector<int64_t>{rows * columns}}, z);
  call.arg_names = {"self", "size"};
  call.aliases = {{.output = 0, .arg = 0}};
  maker.MadeByLastCall(z);
  maker.tape().results = {z};
  return maker.tape();
}

TEST(SizeTemplateTest, GivesTheTapeAtOtherSizes) {
  const auto made = Make(Flattened, {{4, 6}, {5, 6}});
  MICA_ASSERT_OK(made);
  EXPECT_THAT((*made)->OpenDims(0), ElementsAre(0));
  const auto tape = (*made)->At({Matrix(9, 6)});
  MICA_ASSERT_OK(tape);
  EXPECT_THAT(tape->tensors[1].sizes, ElementsAre(9, 6));
  EXPECT_THAT(tape->tensors[2].sizes, ElementsAre(54));
  EXPECT_THAT(std::get<std::vector<int64_t>>(tape->calls[1].args[1]),
              ElementsAre(54));
}

TEST(SizeTemplateTest, TellsWhereThereAreGaps) {
  const auto gaps = [](std::vector<int64_t> sizes,
                       std::vector<int64_t> strides) {
    return GapsOf(sizes, strides).value_or(std::vector<bool>{});
  };
  EXPECT_THAT(gaps({2, 3}, {3, 1}), ElementsAre(false, false));
  EXPECT_THAT(gaps({2, 3}, {1, 2}), ElementsAre(false, false));
  EXPECT_THAT(gaps({2, 3}, {4, 1}), ElementsAre(true, false));
  EXPECT_THAT(gaps({2, 3}, {6, 2}), ElementsAre(false, true));
  EXPECT_THAT(gaps({1, 3}, {9, 1}), ElementsAre(false, false));
  EXPECT_FALSE(GapsOf({2, 3}, {0, 1}).has_value());
  EXPECT_FALSE(GapsOf({2, 3}, {2, 1}).has_value());
  EXPECT_FALSE(GapsOf({2, 3}, {1, 1}).has_value());
}

// x.exp(), of an x that is all but the last column of another tensor.
Tape OfAPart(int64_t rows, int64_t columns) {
  TapeMaker maker;
  const TapeTensorId x = maker.Input({rows, columns}, 0);
  maker.tape().tensors[x].strides = {columns + 1, 1};
  const TapeTensorId y = maker.Made({rows, columns}, 1);
  maker.Call("aten.exp", {TapeTensorRef{x}}, y).arg_names = {"self"};
  maker.MadeByLastCall(y);
  maker.tape().results = {y};
  return maker.tape();
}

TEST(SizeTemplateTest, TakesGapsOfAnyWidthWhereThereWereSome) {
  const auto made = Make(OfAPart, {{4, 6}, {4, 7}});
  MICA_ASSERT_OK(made);
  const auto at = [&](std::vector<int64_t> sizes,
                      std::vector<int64_t> strides) {
    return (*made)->At({TensorSizes{.sizes = std::move(sizes),
                                    .strides = std::move(strides)}});
  };
  const auto tape = at({4, 9}, {30, 1});
  MICA_ASSERT_OK(tape);
  EXPECT_THAT(tape->tensors[0].strides, ElementsAre(30, 1));
  EXPECT_THAT(tape->tensors[1].strides, ElementsAre(9, 1));
  for (const auto& strides : std::vector<std::vector<int64_t>>{
           {9, 1}, {8, 1}, {0, 1}, {30, 2}, {1, 30}}) {
    EXPECT_FALSE(at({4, 9}, strides).ok()) << strides[0] << "," << strides[1];
  }
}

TEST(SizeTemplateTest, RefusesOneNoneAndWhatDidNotVary) {
  const auto made = Make(Flattened, {{4, 6}, {5, 6}});
  MICA_ASSERT_OK(made);
  for (const TensorSizes& sizes :
       {Matrix(1, 6), Matrix(0, 6), Matrix(4, 7),
        TensorSizes{.sizes = {4, 6}, .strides = {1, 4}}}) {
    EXPECT_FALSE((*made)->At({sizes}).ok()) << ToString(sizes);
  }
  EXPECT_FALSE(Make(Flattened, {{4, 6}, {1, 6}}).ok());
  EXPECT_THAT(Make(Flattened, {{4, 6}, {4, 6}}).status().message(),
              HasSubstr("no size of an argument differs"));
}

TEST(SizeTemplateTest, WhatMayBeEitherSizeHasToAgree) {
  // rows is columns in both runs.
  const auto made = Make(Flattened, {{4, 4}, {6, 6}});
  MICA_ASSERT_OK(made);
  MICA_EXPECT_OK((*made)->At({Matrix(9, 9)}));
  EXPECT_FALSE((*made)->At({Matrix(9, 5)}).ok());
  const auto more = Make(Flattened, {{4, 4}, {6, 6}, {3, 7}});
  MICA_ASSERT_OK(more);
  MICA_EXPECT_OK((*more)->At({Matrix(9, 5)}));
}

// x[:n], of a number that the program is given.
SizedTape Cut(int64_t rows, int64_t n) {
  TapeMaker maker;
  const TapeTensorId x = maker.Input({rows, 3}, 0);
  const TapeTensorId y = maker.Window(x, {std::min(n, rows), 3}, {3, 1}, 0);
  TapeCall& call =
      maker.Call("aten.slice.Tensor",
                 {TapeTensorRef{x}, int64_t{0}, int64_t{0}, n, int64_t{1}}, y);
  call.arg_names = {"self", "dim", "start", "end", "step"};
  call.aliases = {{.output = 0, .arg = 0}};
  maker.MadeByLastCall(y);
  maker.tape().results = {y};
  TapeHostValue number{.value = static_cast<double>(n), .is_constant = true};
  number.size = 0;
  maker.tape().host_values = {number};
  maker.tape().host_results = {0};
  return {.tape = std::make_shared<const Tape>(maker.tape()),
          .given = {static_cast<double>(n)}};
}

TEST(SizeTemplateTest, ANumberThatIsGivenMayBeASize) {
  SizeFacts facts;
  facts.given = {"n"};
  facts.numbers = {{.given = 0}};
  facts.uses = {{.end_call = 1, .numbers = {0}}};
  const auto made = SizeTemplate::Make({Cut(9, 4), Cut(9, 5)}, facts,
                                       /*num_args=*/1, AllOps());
  MICA_ASSERT_OK(made);
  EXPECT_TRUE((*made)->IsGivenOpen(0));
  const TensorSizes x{.sizes = {9, 3}, .strides = {3, 1}};
  const auto tape = (*made)->At({x}, {7.0});
  MICA_ASSERT_OK(tape);
  EXPECT_THAT(tape->tensors[1].sizes, ElementsAre(7, 3));
  EXPECT_EQ(tape->host_values[0].value, 7);
  // None, one row, and what narrow() rejects.
  for (const double n : {0.0, 1.0, -2.0, 10.0}) {
    EXPECT_FALSE((*made)->At({x}, {n}).ok()) << n;
  }
  EXPECT_THAT(SizeTemplate::Make({Cut(9, 4), Cut(9, 4)}, facts, 1, AllOps())
                  .status()
                  .message(),
              HasSubstr("no size of an argument differs"));
}

TEST(SizeTemplateTest, AnEqualNumberOfElementsTellsNothing) {
  EXPECT_THAT(Make(Flattened, {{4, 6}, {8, 3}}).status().message(),
              HasSubstr("number of elements was the same"));
}

// x[: rows / 2], or what `end` says.
MakeTape Sliced(std::function<int64_t(int64_t)> end) {
  return [end = std::move(end)](int64_t rows, int64_t columns) {
    TapeMaker maker;
    const TapeTensorId x = maker.Input({rows, columns}, 0);
    const TapeTensorId y =
        maker.Window(x, {end(rows), columns}, {columns, 1}, 0);
    TapeCall& call = maker.Call(
        "aten.slice.Tensor",
        {TapeTensorRef{x}, int64_t{0}, int64_t{0}, end(rows), int64_t{1}}, y);
    call.arg_names = {"self", "dim", "start", "end", "step"};
    call.aliases = {{.output = 0, .arg = 0}};
    maker.MadeByLastCall(y);
    maker.tape().results = {y};
    return maker.tape();
  };
}

// The number rows / 2, which Python passed to call 0.
SizeFacts Half() {
  SizeFacts facts;
  facts.numbers.push_back({.tensor = 0, .dim = 0});
  facts.numbers.push_back(
      {.op = "mica.int_floordiv", .operands = {{.id = 0}, {.constant = 2}}});
  facts.uses.push_back({.first_call = 0, .end_call = 1, .numbers = {1}});
  return facts;
}

TEST(SizeTemplateTest, FollowsWhatPythonComputed) {
  const auto half = Sliced([](int64_t rows) { return rows / 2; });
  const auto made = Make(half, {{8, 3}, {13, 3}}, Half());
  MICA_ASSERT_OK(made);
  const auto tape = (*made)->At({Matrix(11, 3)});
  MICA_ASSERT_OK(tape);
  EXPECT_EQ(std::get<int64_t>(tape->calls[0].args[3]), 5);
  EXPECT_THAT(tape->tensors[1].sizes, ElementsAre(5, 3));
}

TEST(SizeTemplateTest, DoesNotGuessWhereADimIsCut) {
  const auto half = Sliced([](int64_t rows) { return rows / 2; });
  EXPECT_THAT(Make(half, {{8, 3}, {13, 3}}).status().message(),
              HasSubstr("nobody knows where end comes from"));
  // The same in both runs, by rounding.
  EXPECT_THAT(Make(half, {{8, 3}, {9, 3}}).status().message(),
              HasSubstr("may follow from a size"));
}

TEST(SizeTemplateTest, NumbersThatWereUsedUnseenStay) {
  SizeFacts facts;
  facts.numbers.push_back({.tensor = 0, .dim = 0});
  facts.exact.push_back({.number = 0, .at = "user.py:7"});
  EXPECT_THAT(Make(Flattened, {{4, 6}, {5, 6}}, facts).status().message(),
              HasSubstr("for what isn't followed (user.py:7)"));
  facts.exact.clear();
  facts.pinned.push_back({.tensor = 1, .at = "user.py:8"});
  EXPECT_THAT(Make(Flattened, {{4, 6}, {5, 6}}, facts).status().message(),
              HasSubstr("in a way that isn't followed (user.py:8)"));
}

TEST(SizeTemplateTest, ComparisonsComeOutAsTheyDid) {
  SizeFacts facts;
  facts.numbers.push_back({.tensor = 0, .dim = 0});
  facts.comparisons.push_back({.op = "mica.scalar_lt",
                               .a = {.id = 0},
                               .b = {.constant = 8},
                               .outcome = true});
  const auto made = Make(Flattened, {{4, 6}, {5, 6}}, facts);
  MICA_ASSERT_OK(made);
  MICA_EXPECT_OK((*made)->At({Matrix(7, 6)}));
  EXPECT_FALSE((*made)->At({Matrix(8, 6)}).ok());
  // One of the runs went the other way, and yet made the same calls.
  EXPECT_FALSE(Make(Flattened, {{9, 6}, {5, 6}}, facts).ok());
}

TEST(SizeTemplateTest, OtherCallsAreNoRunOfTheSameProgram) {
  const MakeTape one_or_other = [](int64_t rows, int64_t columns) {
    Tape tape = Flattened(rows, columns);
    if (rows > 4) tape.calls[0].op = "aten.tanh";
    return tape;
  };
  EXPECT_THAT(Make(one_or_other, {{4, 6}, {5, 6}}).status().message(),
              HasSubstr("the other run called"));
}

}  // namespace
}  // namespace mica
