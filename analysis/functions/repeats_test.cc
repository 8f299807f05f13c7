#include "analysis/functions/repeats.h"

#include <string>

#include "framework/base/test_matchers.h"

namespace mica {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<Repeat> RepeatsOf(const std::string& text, int32_t shortest = 2) {
  std::vector<uint64_t> words(text.begin(), text.end());
  return FindRepeats(words, shortest);
}

TEST(RepeatsTest, CopiesBehindOneAnother) {
  EXPECT_THAT(RepeatsOf("xxabcdeabcdeabcdeyy"),
              ElementsAre(Repeat{.begin = 2, .period = 5, .count = 3}));
  EXPECT_THAT(
      RepeatsOf("abcdeabcdeabcdeabc"),
      ElementsAre(Repeat{.begin = 0, .period = 5, .count = 3, .tail = 3}));
}

TEST(RepeatsTest, TheOneThatSavesMostComesFirst) {
  EXPECT_THAT(RepeatsOf("pqrstpqrst.abcdefgabcdefgabcdefg"),
              ElementsAre(Repeat{.begin = 11, .period = 7, .count = 3},
                          Repeat{.begin = 0, .period = 5, .count = 2}));
}

TEST(RepeatsTest, WhatRepeatsInACopyDoesNotHideIt) {
  EXPECT_THAT(RepeatsOf("uvwxyuvwxyabuvwxyuvwxyabuvwxyuvwxyab"),
              ElementsAre(Repeat{.begin = 0, .period = 12, .count = 3}));
}

TEST(RepeatsTest, ARunMayBeginAndEndAnywhere) {
  const std::string layer = "abcde", before = "ABCDEFGHIJKL", behind = "zyxw";
  for (int32_t begin = 0; begin <= 12; ++begin) {
    for (int32_t tail = 0; tail < 5; ++tail) {
      const std::string run = layer + layer + layer.substr(0, tail);
      const std::string text = before.substr(0, begin) + run;
      const Repeat want{.begin = begin, .period = 5, .count = 2, .tail = tail};
      EXPECT_THAT(RepeatsOf(text), ElementsAre(want)) << text;
      EXPECT_THAT(RepeatsOf(text + behind), ElementsAre(want)) << text;
    }
  }
}

TEST(RepeatsTest, NothingWhereNothingRepeats) {
  EXPECT_THAT(RepeatsOf("abcdefghijklm"), IsEmpty());
  EXPECT_THAT(RepeatsOf(""), IsEmpty());
}

TEST(RepeatsTest, NothingShorterThanWanted) {
  EXPECT_THAT(RepeatsOf("abcdeabcdeabcde", 6), ElementsAre());
}

}  // namespace
}  // namespace mica
