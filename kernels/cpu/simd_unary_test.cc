#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/simd_table.h"
#include "kernels/cpu/simd_testing.h"

namespace mica::cpu {
namespace {

using Exact = std::function<double(double)>;

class UnaryTest : public SimdTest {
 protected:
  std::vector<float> Run(Unary op, const std::vector<float>& x) const {
    std::vector<float> y(x.size());
    table().unary[static_cast<int>(op)][static_cast<int>(Elem::kF32)](
        x.data(), y.data(), static_cast<int64_t>(x.size()));
    return y;
  }
  float Run(Unary op, float x) const {
    return Run(op, std::vector<float>{x})[0];
  }
};

// Every 1021st of all finite floats, both signs, denormals among them.
std::vector<float> FloatsOfAllSizes() {
  std::vector<float> x;
  for (uint32_t bits = 0; bits < 0x7f800000u; bits += 1021) {
    x.push_back(std::bit_cast<float>(bits));
    x.push_back(-x.back());
  }
  return x;
}

// Units in the last place of the exact value as a float32; of a denormal, of
// the smallest denormal.
double UlpError(float got, double exact) {
  const float rounded = static_cast<float>(exact);
  if (got == rounded) return 0;
  if (!std::isfinite(rounded) || !std::isfinite(got)) return 1e30;
  int exponent = 0;
  std::frexp(exact, &exponent);
  const double ulp = std::ldexp(1.0, std::max(exponent - 24, -149));
  return std::abs(static_cast<double>(got) - exact) / ulp;
}

// The odd x below 2^bits with x x = -j mod 2^bits, for a j = 7 mod 8: by bits
// from the lowest, 1, where each root gives those of one bit more.
std::vector<uint64_t> RootsOfMinus(int64_t j, int bits) {
  const auto target = static_cast<uint64_t>(-j);
  std::vector<uint64_t> roots = {1};
  for (int known = 1; known < bits; ++known) {
    const uint64_t mask = (uint64_t{2} << known) - 1;
    std::vector<uint64_t> longer;
    for (const uint64_t root : roots) {
      for (const uint64_t x : {root, root | (uint64_t{1} << known)}) {
        if (((x * x - target) & mask) == 0) longer.push_back(x);
      }
    }
    roots = std::move(longer);
  }
  return roots;
}

// Those of [1, 4) whose root is next to the middle m 2^-53 of two doubles: m is
// odd, and m m = x 2^106 - j for a small j. All others' are further away than
// any step is wrong.
std::vector<double> NextToMiddles() {
  std::vector<double> x;
  for (int64_t j = -4097; j <= 4096; j += 8) {
    for (const int bits : {54, 55}) {  // x < 2, and x >= 2.
      for (const uint64_t m : RootsOfMinus(j, bits)) {
        if (m >> 53 != 1) continue;
        const auto square = static_cast<unsigned __int128>(m) * m;
        const auto digits = static_cast<uint64_t>((square + j) >> bits);
        if (digits >> 52 != 1) continue;
        x.push_back(std::ldexp(static_cast<double>(digits), bits - 106));
      }
    }
  }
  return x;
}

double WorstUlp(const std::vector<float>& x, const std::vector<float>& y,
                const Exact& exact) {
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    worst = std::max(worst, UlpError(y[i], exact(x[i])));
  }
  return worst;
}

// Of one exponent or the other all roots have the same digits.
TEST_P(UnaryTest, EveryRootIsToTheNearest) {
  constexpr uint32_t kOne = 0x3f800000u, kFour = 0x40800000u, kPiece = 4096;
  std::vector<float> x(kPiece);
  for (uint32_t bits = kOne; bits < kFour; bits += kPiece) {
    for (uint32_t i = 0; i < kPiece; ++i) x[i] = std::bit_cast<float>(bits + i);
    const std::vector<float> y = Run(Unary::kSqrt, x);
    for (uint32_t i = 0; i < kPiece; ++i) ASSERT_EQ(y[i], std::sqrt(x[i]));
  }
  // Where steps from an estimate would lose digits.
  for (const float v : {0.0f, 1e-45f, 1.2e-38f, 7.9e-31f, 3.4e38f, INFINITY}) {
    EXPECT_EQ(Run(Unary::kSqrt, std::vector<float>(16, v))[3], std::sqrt(v));
  }
  EXPECT_TRUE(std::signbit(Run(Unary::kSqrt, -0.0f)));
  EXPECT_TRUE(std::isnan(Run(Unary::kSqrt, -1.0f)));
}

TEST_P(UnaryTest, FunctionsAreExactToAFewUlpOverAllFloats) {
  const std::vector<float> x = FloatsOfAllSizes();
  const struct {
    Unary op;
    Exact exact;
    double ulp;
  } cases[] = {
      {Unary::kExp, [](double v) { return std::exp(v); }, 2},
      {Unary::kErf, [](double v) { return std::erf(v); }, 6},
      {Unary::kTanh, [](double v) { return std::tanh(v); }, 6},
      {Unary::kSqrt, [](double v) { return std::sqrt(std::abs(v)); }, 0.51},
      {Unary::kAbs, [](double v) { return std::abs(v); }, 0},
      {Unary::kNeg, [](double v) { return -v; }, 0},
      {Unary::kRelu, [](double v) { return v > 0 ? v : 0; }, 0},
  };
  for (const auto& c : cases) {
    std::vector<float> in = x;
    if (c.op == Unary::kSqrt) {
      for (float& v : in) v = std::abs(v);
    }
    EXPECT_LE(WorstUlp(in, Run(c.op, in), c.exact), c.ulp)
        << static_cast<int>(c.op);
  }
}

// Of what is about as small as a normal number, in all orders of those that are
// and those that aren't.
TEST_P(UnaryTest, ExpIsTheSameWhateverIsBesideIt) {
  std::vector<float> x;
  for (const float near :
       {-87.3f, -87.33f, -87.33654f, -87.3366f, -87.5f, -88.0f, -95.0f, -103.2f,
        -103.97f, -104.0f, -1e4f, -kInf, -86.0f, 0.0f, kNan, 88.0f}) {
    x.push_back(near);
  }
  std::vector<float> alone;
  for (const float one : x) alone.push_back(Run(Unary::kExp, one));
  for (size_t i = 0; i < x.size(); ++i) {
    const double exact = std::exp(static_cast<double>(x[i]));
    if (!std::isnan(x[i])) EXPECT_LE(UlpError(alone[i], exact), 2.0) << x[i];
    for (size_t k = 0; k < x.size(); ++k) {
      std::vector<float> mixed(37, x[i]);
      for (size_t at = 0; at < mixed.size(); at += 2) mixed[at] = x[k];
      const std::vector<float> y = Run(Unary::kExp, mixed);
      for (size_t at = 0; at < mixed.size(); ++at) {
        EXPECT_EQ(std::bit_cast<uint32_t>(y[at]),
                  std::bit_cast<uint32_t>(alone[at % 2 == 0 ? k : i]))
            << x[i] << " beside " << x[k];
      }
    }
  }
}

TEST_P(UnaryTest, SigmoidAndSiluFollowTheirFormulas) {
  std::vector<float> x = RandomFloats(1000);
  for (float& v : x) v *= 20;
  EXPECT_LE(WorstUlp(x, Run(Unary::kSigmoid, x),
                     [](double v) { return 1 / (1 + std::exp(-v)); }),
            6);
  EXPECT_LE(WorstUlp(x, Run(Unary::kSilu, x),
                     [](double v) { return v / (1 + std::exp(-v)); }),
            6);
}

TEST_P(UnaryTest, GeluIsAsExactAsItsFormulaInFloats) {
  std::vector<float> x = RandomFloats(4099);
  for (float& v : x) v *= 8;
  const auto erf = Run(Unary::kGeluErf, x);
  const auto tanh = Run(Unary::kGeluTanh, x);
  for (size_t i = 0; i < x.size(); ++i) {
    const double v = x[i];
    EXPECT_NEAR(erf[i], 0.5 * v * (1 + std::erf(v * M_SQRT1_2)), 1.2e-6);
    const double inner = std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v);
    EXPECT_NEAR(tanh[i], 0.5 * v * (1 + std::tanh(inner)), 2e-6);
  }
}

TEST_P(UnaryTest, InfinityAndNanAreAsInTheStandardLibrary) {
  EXPECT_EQ(Run(Unary::kExp, kInf), kInf);
  EXPECT_EQ(Run(Unary::kExp, -kInf), 0.0f);
  EXPECT_EQ(Run(Unary::kErf, kInf), 1.0f);
  EXPECT_EQ(Run(Unary::kErf, -kInf), -1.0f);
  EXPECT_EQ(Run(Unary::kTanh, kInf), 1.0f);
  EXPECT_EQ(Run(Unary::kTanh, -kInf), -1.0f);
  EXPECT_EQ(Run(Unary::kSigmoid, -kInf), 0.0f);
  EXPECT_EQ(Run(Unary::kReciprocal, kInf), 0.0f);
  EXPECT_EQ(Run(Unary::kRsqrt, 0.0f), kInf);
  EXPECT_TRUE(std::isnan(Run(Unary::kSqrt, -1.0f)));
  for (Unary op : {Unary::kExp, Unary::kErf, Unary::kTanh, Unary::kSigmoid,
                   Unary::kSilu, Unary::kGeluErf, Unary::kGeluTanh,
                   Unary::kRelu, Unary::kAbs, Unary::kSqrt}) {
    EXPECT_TRUE(std::isnan(Run(op, kNan))) << static_cast<int>(op);
  }
}

TEST_P(UnaryTest, TailsAreWrittenAndNothingBehindThem) {
  for (int64_t n = 0; n <= 40; ++n) {
    std::vector<float> x = RandomFloats(n + 1), y(x.size(), 7.0f);
    table().unary[static_cast<int>(Unary::kNeg)][0](x.data(), y.data(), n);
    for (int64_t i = 0; i < n; ++i) EXPECT_EQ(y[i], -x[i]);
    EXPECT_EQ(y[n], 7.0f);
  }
}

TEST_P(UnaryTest, RunsInPlaceOnEveryElementType) {
  for (int op = 0; op < kNumUnary; ++op) {
    for (int elem = 0; elem < kNumElems; ++elem) {
      const UnaryFn fn = table().unary[op][elem];
      if (fn == nullptr) continue;
      alignas(64) char from[8 * 37], to[8 * 37], same[8 * 37];
      for (size_t i = 0; i < sizeof(from); ++i)
        from[i] = i % 8 == 0 ? i % 2 : 0;
      std::copy(from, from + sizeof(from), same);
      fn(from, to, 37);
      fn(same, same, 37);
      for (int64_t i = 0; i < 37 * kElemBytes[elem]; ++i) {
        EXPECT_EQ(to[i], same[i]) << op << " " << elem;
      }
    }
  }
}

TEST_P(UnaryTest, RootsOfDoublesAreTheNearest) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::vector<double> x = NextToMiddles();
  ASSERT_GT(x.size(), 1400u);
  const size_t hard = x.size();
  for (size_t i = 0; i < hard; ++i) {
    for (const int exponent : {-1022, -901, -900, 600, 1020}) {
      x.push_back(std::ldexp(x[i], exponent));
    }
  }
  uint64_t bits = 1;
  for (int i = 0; i < 1000000; ++i) {  // Denormals, nans and both signs, too.
    bits = bits * 6364136223846793005u + 1442695040888963407u;
    x.push_back(std::bit_cast<double>(bits));
  }
  x.insert(x.end(), {0.0, -0.0, kInfinity, -kInfinity, -1.0, 5e-324, 1.0, 4.0});
  std::vector<double> y(x.size());
  table().unary[static_cast<int>(Unary::kSqrt)][static_cast<int>(Elem::kF64)](
      x.data(), y.data(), static_cast<int64_t>(x.size()));
  int64_t wrong = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double root = std::sqrt(x[i]);
    const bool is_right = std::isnan(root) ? std::isnan(y[i])
                                           : std::bit_cast<uint64_t>(root) ==
                                                 std::bit_cast<uint64_t>(y[i]);
    if (!is_right && wrong++ < 5) {
      ADD_FAILURE() << "of " << x[i] << " wants " << root << ", got " << y[i];
    }
  }
  EXPECT_EQ(wrong, 0);
}

MICA_INSTANTIATE_SIMD_TEST(UnaryTest);

}  // namespace
}  // namespace mica::cpu
