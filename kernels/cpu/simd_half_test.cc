#include <cmath>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/simd_table.h"
#include "kernels/cpu/simd_testing.h"

namespace mica::cpu {
namespace {

constexpr int kHalf = static_cast<int>(Half::kHalf);
constexpr int kNumFinite = 0x7c00;  // Positive float16, zero included.

class HalfTest : public SimdTest {
 protected:
  std::vector<float> Widen(const std::vector<uint16_t>& halves) const {
    std::vector<float> wide(halves.size());
    table().widen[kHalf](halves.data(), wide.data(),
                         static_cast<int64_t>(halves.size()));
    return wide;
  }
  std::vector<uint16_t> Narrow(const std::vector<float>& numbers) const {
    std::vector<uint16_t> halves(numbers.size());
    table().narrow[kHalf](numbers.data(), halves.data(),
                          static_cast<int64_t>(numbers.size()));
    return halves;
  }
  std::vector<float> AllFinite() const {
    std::vector<uint16_t> halves(kNumFinite);
    for (int i = 0; i < kNumFinite; ++i) halves[i] = static_cast<uint16_t>(i);
    return Widen(halves);
  }
};

TEST_P(HalfTest, EachHalfIsTheNumberThatItsFieldsSay) {
  const auto wide = AllFinite();
  for (int i = 0; i < kNumFinite; ++i) {
    const int exponent = i >> 10, fraction = i & 0x3ff;
    const double number = exponent == 0
                              ? std::ldexp(fraction, -24)
                              : std::ldexp(fraction + 0x400, exponent - 25);
    ASSERT_EQ(wide[i], number) << i;
  }
  const auto special = Widen({0x8000, 0xbc00, 0x7c00, 0xfc00, 0x7c01, 0xfe00});
  EXPECT_TRUE(special[0] == 0 && std::signbit(special[0]));
  EXPECT_EQ(special[1], -1.0f);
  EXPECT_EQ(special[2], kInf);
  EXPECT_EQ(special[3], -kInf);
  EXPECT_TRUE(std::isnan(special[4]));
  EXPECT_TRUE(std::isnan(special[5]) && std::signbit(special[5]));
}

// Between two neighbours the middle goes to the even one, and the floats beside
// the middle to the nearer one.
TEST_P(HalfTest, RoundsToTheNearestAndOfTwoToTheEvenOne) {
  auto wide = AllFinite();
  wide.push_back(65536.0f);  // What would follow the largest, is infinity.
  std::vector<float> numbers;
  std::vector<uint16_t> wanted;
  const auto add = [&](float number, int half) {
    numbers.push_back(number);
    wanted.push_back(static_cast<uint16_t>(half));
    numbers.push_back(-number);
    wanted.push_back(static_cast<uint16_t>(half | 0x8000));
  };
  for (int i = 0; i < kNumFinite; ++i) {
    const float middle = wide[i] + (wide[i + 1] - wide[i]) / 2;
    add(wide[i], i);
    add(std::nextafter(middle, wide[i]), i);
    add(middle, i % 2 == 0 ? i : i + 1);
    add(std::nextafter(middle, wide[i + 1]), i + 1);
  }
  add(1e30f, 0x7c00);
  add(kInf, 0x7c00);
  add(1e-40f, 0);
  const auto halves = Narrow(numbers);
  for (size_t i = 0; i < numbers.size(); ++i) {
    ASSERT_EQ(halves[i], wanted[i]) << numbers[i];
  }
  const uint16_t nan = Narrow({kNan})[0];
  EXPECT_GT(nan & 0x7fff, 0x7c00);
}

TEST_P(HalfTest, WholeNumbersBesideAHalfKeepItsSign) {
  std::vector<uint16_t> halves;
  for (int i = 0; i < kNumFinite; ++i) {
    halves.push_back(static_cast<uint16_t>(i));
    halves.push_back(static_cast<uint16_t>(i | 0x8000));
  }
  const auto wide = Widen(halves);
  const auto n = static_cast<int64_t>(halves.size());
  const float numbers[2] = {};
  struct Case {
    HalfOp op;
    float (*exact)(float);
  };
  const Case cases[] = {
      {HalfOp::kFloor, [](float x) { return std::floor(x); }},
      {HalfOp::kCeil, [](float x) { return std::ceil(x); }},
      {HalfOp::kRound, [](float x) { return std::nearbyint(x); }},
      {HalfOp::kTrunc, [](float x) { return std::trunc(x); }},
  };
  for (const Case& c : cases) {
    std::vector<uint16_t> out(halves.size());
    table().half_loops[static_cast<int>(c.op)][kHalf](
        halves.data(), 1, halves.data(), 1, out.data(), n, numbers);
    const auto got = Widen(out);
    for (int64_t i = 0; i < n; ++i) {
      const float exact = c.exact(wide[i]);
      ASSERT_EQ(got[i], exact) << wide[i];
      ASSERT_EQ(std::signbit(got[i]), std::signbit(exact)) << wide[i];
    }
  }
}

MICA_INSTANTIATE_SIMD_TEST(HalfTest);

}  // namespace
}  // namespace mica::cpu
