#include "framework/ir/name_index.h"

#include <string>

#include "gtest/gtest.h"

namespace mica {
namespace {

TEST(NameIndexTest, FindsNumbersAndWords) {
  NameIndex index;
  EXPECT_TRUE(index.Insert("x", 0));
  EXPECT_TRUE(index.Insert("0", 1));
  EXPECT_TRUE(index.Insert("1", 2));
  EXPECT_TRUE(index.Insert("01", 3));
  EXPECT_TRUE(index.Insert("7", 4));
  EXPECT_EQ(index.Find("x"), 0);
  EXPECT_EQ(index.Find("0"), 1);
  EXPECT_EQ(index.Find("1"), 2);
  EXPECT_EQ(index.Find("01"), 3);
  EXPECT_EQ(index.Find("7"), 4);
  for (const char* name : {"", "2", "6", "8", "007", "y", "-1", "1x"}) {
    EXPECT_EQ(index.Find(name), kNoValue) << name;
  }
}

TEST(NameIndexTest, ANameIsTakenOnce) {
  NameIndex index;
  // Far off at first, in turn later.
  EXPECT_TRUE(index.Insert("20000", 0));
  EXPECT_TRUE(index.Insert("999999999", 1));
  EXPECT_TRUE(index.Insert("9999999999", 2));
  for (int i = 0; i < 30000; ++i) {
    EXPECT_EQ(index.Insert(std::to_string(i), i + 10), i != 20000);
  }
  EXPECT_EQ(index.Find("20000"), 0);
  EXPECT_EQ(index.Find("19999"), 20009);
  for (const char* name : {"0", "20000", "29999", "999999999", "9999999999"}) {
    EXPECT_FALSE(index.Insert(name, 5)) << name;
  }
}

TEST(NameIndexTest, FindsWordsBesideNumbersFarOff) {
  NameIndex index;
  EXPECT_TRUE(index.Insert("x", 0));
  EXPECT_TRUE(index.Insert("50000", 1));
  EXPECT_EQ(index.Find("50000"), 1);
  EXPECT_EQ(index.Find("50001"), kNoValue);
  EXPECT_EQ(index.Find(""), kNoValue);
  EXPECT_FALSE(index.Insert("x", 2));
  EXPECT_FALSE(index.Insert("50000", 2));
  EXPECT_TRUE(index.Insert("y", 3));
  EXPECT_EQ(index.Find("y"), 3);
}

}  // namespace
}  // namespace mica
