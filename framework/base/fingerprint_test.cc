#include "framework/base/fingerprint.h"

#include <string>

#include "gtest/gtest.h"

namespace mica {
namespace {

// Files on disks are named by these: a library that gives others is refused.
TEST(FingerprintTest, IsThePublishedXxh3OnEveryMachine) {
  EXPECT_EQ(FingerprintOf("").ToHex(), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(FingerprintOf("mica").ToHex(), "42b1ed97d22c59a5f749732477a7ddb9");
}

TEST(FingerprintTest, TellsBytesApart) {
  EXPECT_EQ(FingerprintOf(std::string(1000, 'a')),
            FingerprintOf(std::string(1000, 'a')));
  EXPECT_FALSE(FingerprintOf(std::string(1000, 'a')) ==
               FingerprintOf(std::string(999, 'a') + "b"));
}

}  // namespace
}  // namespace mica
