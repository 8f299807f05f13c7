#include "kernels/reference/element.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"
#include "kernels/reference/numbers.h"

namespace mica {
namespace {

TEST(ElementTest, EveryHalfSurvivesARoundTrip) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = HalfToFloat(static_cast<uint16_t>(bits));
    if (std::isnan(value)) continue;
    EXPECT_EQ(FloatToHalf(value), bits) << value;
  }
}

TEST(ElementTest, EveryBFloat16SurvivesARoundTrip) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = BFloat16ToFloat(static_cast<uint16_t>(bits));
    if (std::isnan(value)) continue;
    EXPECT_EQ(FloatToBFloat16(value), bits) << value;
  }
}

TEST(ElementTest, HalvesRoundToEvenAndOverflow) {
  EXPECT_EQ(FloatToHalf(1.0f + 1.0f / 2048), FloatToHalf(1.0f));
  EXPECT_EQ(FloatToHalf(1.0f + 3.0f / 2048), FloatToHalf(1.0f + 4.0f / 2048));
  EXPECT_EQ(FloatToHalf(65519.0f), FloatToHalf(65504.0f));
  EXPECT_EQ(FloatToHalf(65520.0f), 0x7c00);
  EXPECT_EQ(FloatToHalf(-1e9f), 0xfc00);
  EXPECT_EQ(FloatToHalf(std::ldexp(1.0f, -25)), 0);
  EXPECT_EQ(FloatToHalf(std::ldexp(1.5f, -25)), 1);
  EXPECT_TRUE(std::isnan(HalfToFloat(FloatToHalf(NAN))));
}

TEST(ElementTest, ConvertsAsTorchDoes) {
  const double values[] = {2.9, -2.9, 0.5, std::nan(""), 1e300};
  EXPECT_EQ(LoadElement<int64_t>(values, DType::kF64, 0), 2);
  EXPECT_EQ(LoadElement<int64_t>(values, DType::kF64, 1), -2);
  EXPECT_TRUE(LoadTruth(values, DType::kF64, 2));
  EXPECT_TRUE(LoadTruth(values, DType::kF64, 3));
  EXPECT_EQ(LoadElement<int64_t>(values, DType::kF64, 4),
            std::numeric_limits<int64_t>::min());
  uint8_t byte = 0;
  StoreElement<int64_t>(&byte, DType::kU8, 0, 300);
  EXPECT_EQ(byte, 44);
  StoreElement<double>(&byte, DType::kBool, 0, 0.25);
  EXPECT_EQ(byte, 1);
}

TEST(NumbersTest, QuotientsRoundTowardsTheirSide) {
  EXPECT_EQ(FlooredQuotient<int64_t>(-7, 2), -4);
  EXPECT_EQ(TruncatedQuotient<int64_t>(-7, 2), -3);
  EXPECT_EQ(FlooredRemainder<int64_t>(-7, 2), 1);
  EXPECT_EQ(FlooredRemainder<int64_t>(7, -2), -1);
  EXPECT_EQ(TruncatedRemainder<int64_t>(-7, 2), -1);
  EXPECT_EQ(FlooredQuotient(-7.0, 2.0), -4.0);
  EXPECT_EQ(FlooredRemainder(-7.5, 2.0), 0.5);
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(FlooredQuotient<int64_t>(kLeast, -1), kLeast);
  EXPECT_EQ(FlooredRemainder<int64_t>(kLeast, -1), 0);
}

TEST(NumbersTest, IntegerPowersWrapAndInvert) {
  EXPECT_EQ(IntegerPower(-3, 3), -27);
  EXPECT_EQ(IntegerPower(2, 64), 0);
  EXPECT_EQ(IntegerPower(-1, -3), -1);
  EXPECT_EQ(IntegerPower(5, -1), 0);
}

TEST(NumbersTest, ExtremesKeepNan) {
  EXPECT_TRUE(std::isnan(Larger(NAN, 1.0f)));
  EXPECT_TRUE(std::isnan(Smaller(1.0f, NAN)));
  EXPECT_EQ(Larger(1.0f, 2.0f), 2.0f);
}

}  // namespace
}  // namespace mica
