// Vectors wider than a register are passed in this file alone: whatever way is
// theirs.
#pragma GCC diagnostic ignored "-Wpsabi"

#include "kernels/region/lanes.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/region/arithmetic.h"

namespace mica::region {
namespace {

// Of one register, and of more and fewer lanes than one has.
template <class F>
class LanesTest : public testing::Test {
 protected:
  using T = typename F::Element;
  static constexpr int kLanes = sizeof(F) / sizeof(T);

  static std::vector<T> Numbers() {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
    std::vector<T> x = {0};
    for (double size : {0.3, 0.5, 0.7, 1.0, 1.5, 2.5, 9.7, 1e6 + 0.5, 8388607.5,
                        4503599627370495.5, 1e20, kInfinity, kNan}) {
      x.push_back(static_cast<T>(size));
    }
    const size_t n = x.size();
    for (size_t i = 0; i < n; ++i) x.push_back(-x[i]);
    return x;
  }

  // Each lane of `ours` is what `one` is of that lane, of zeros the sign too.
  static void Expect(const std::function<F(F)>& ours,
                     const std::function<T(T)>& one) {
    const std::vector<T> x = Numbers();
    for (size_t first = 0; first < x.size(); ++first) {
      T in[kLanes], out[kLanes];
      for (int i = 0; i < kLanes; ++i) in[i] = x[(first + i) % x.size()];
      StoreLanes(out, ours(LoadLanes<F>(in)));
      for (int i = 0; i < kLanes; ++i) {
        const T wanted = one(in[i]);
        EXPECT_TRUE(std::isnan(wanted)
                        ? std::isnan(out[i])
                        : wanted == out[i] &&
                              std::signbit(wanted) == std::signbit(out[i]))
            << "of " << in[i] << " wants " << wanted << ", got " << out[i];
      }
    }
  }
};
using Types =
    testing::Types<Floats<float, 4>, Floats<double, 2>, Floats<float, 8>,
                   Floats<double, 4>, Floats<float, 16>, Floats<double, 8>>;
TYPED_TEST_SUITE(LanesTest, Types);

TYPED_TEST(LanesTest, RoundAsTheStandardLibraryDoes) {
  using F = TypeParam;
  using T = typename F::Element;
  this->Expect([](F x) { return Round(x); },
               [](T x) { return std::nearbyint(x); });
  this->Expect([](F x) { return Floor(x); }, [](T x) { return std::floor(x); });
  this->Expect([](F x) { return Ceil(x); }, [](T x) { return std::ceil(x); });
  this->Expect([](F x) { return Trunc(x); }, [](T x) { return std::trunc(x); });
}

TYPED_TEST(LanesTest, CalculateLaneByLane) {
  using F = TypeParam;
  using T = typename F::Element;
  this->Expect([](F x) { return Sqrt(x); }, [](T x) { return std::sqrt(x); });
  this->Expect([](F x) { return Abs(x); }, [](T x) { return std::abs(x); });
  this->Expect([](F x) { return -x; }, [](T x) { return -x; });
  this->Expect([](F x) { return CopySign(F::Of(-3), x); },
               [](T x) { return std::copysign(T{3}, x); });
  this->Expect([](F x) { return F::Of(-0.0) + F::Of(0) * x; },
               [](T x) { return T{-0.0} + 0 * x; });
  this->Expect([](F x) { return Fma(x, x, F::Of(0.1)); },
               [](T x) {
                 const T c = static_cast<T>(0.1);
                 return F::Fuses() ? std::fma(x, x, c) : x * x + c;
               });
  // What a product's rounding cut off.
  this->Expect(
      [](F x) {
        const F lo = Product(x, F::Of(0.3)).lo + F::Of(0);
        return Select(Less(Abs(x), F::Of(1e9)), lo, F::Of(0));
      },
      [](T x) {
        const T y = static_cast<T>(0.3);
        return std::abs(x) < T{1e9} ? std::fma(x, y, -(x * y)) + 0 : 0;
      });
}

TYPED_TEST(LanesTest, ChooseByMasks) {
  using F = TypeParam;
  using T = typename F::Element;
  this->Expect([](F x) { return Select(Less(x, F::Of(1)), F::Of(2), x); },
               [](T x) { return x < 1 ? 2 : x; });
  this->Expect(
      [](F x) {
        const auto mask =
            (LessEqual(x, F::Of(1)) & !Equal(x, F::Of(0.5))) | IsNan(x);
        return Select(mask, F::Of(2), F::Of(3));
      },
      [](T x) { return (x <= 1 && x != T{0.5}) || std::isnan(x) ? 2 : 3; });
  this->Expect([](F x) { return Select(F::Mask::Of(true), x, F::Of(1)); },
               [](T x) { return x; });
  this->Expect([](F x) { return Select(F::Mask::Of(false), x, F::Of(1)); },
               [](T) { return 1; });
  // Of a nan and a number the second.
  this->Expect([](F x) { return Min(x, F::Of(1)); },
               [](T x) { return x < 1 ? x : 1; });
  this->Expect([](F x) { return Max(F::Of(1), x); },
               [](T x) { return 1 > x ? 1 : x; });
}

TYPED_TEST(LanesTest, RunWhatIsRareForItsLanesOnly) {
  using F = TypeParam;
  using T = typename F::Element;
  this->Expect([](F x) { return IfAny(IsNan(x), x, [] { return F::Of(7); }); },
               [](T x) { return std::isnan(x) ? 7 : x; });
  bool is_run = false;
  const F one = F::Of(1);
  IfAny(IsNan(one), one, [&] {
    is_run = true;
    return F::Of(0);
  });
  EXPECT_FALSE(is_run);
  this->Expect(
      [](F x) {
        return WhileAny(
            x, [](F y) { return Less(F::Of(3), y) & Less(y, F::Of(100)); },
            [](F y) { return y - F::Of(1); });
      },
      [](T x) {
        while (x > 3 && x < 100) x -= 1;
        return x;
      });
  int rounds = 0;
  WhileAny(
      one, [](F) { return F::Mask::Of(true); },
      [&](F y) {
        ++rounds;
        return y;
      });
  EXPECT_EQ(rounds, 4096);
}

TYPED_TEST(LanesTest, HaveIntsBeside) {
  using F = TypeParam;
  using T = typename F::Element;
  using Int = typename F::Int;
  using I = std::conditional_t<F::kIsDouble, int64_t, int32_t>;
  const auto expect = [&](const std::function<Int(Int)>& ours,
                          const std::function<I(I)>& one) {
    const auto whole = [](F x) {
      return ToInt(Round(Select(Less(Abs(x), F::Of(1e9)), x, F::Of(-3))));
    };
    this->Expect([&](F x) { return ToFloat<F>(ours(whole(x))); },
                 [&](T x) {
                   const T near =
                       std::abs(x) < T{1e9} ? std::nearbyint(x) : T{-3};
                   return static_cast<T>(one(static_cast<I>(near)));
                 });
  };
  expect([](Int i) { return i; }, [](I i) { return i; });
  expect([](Int i) { return i + Int::Of(5) - Int::Of(7) * (i & Int::Of(3)); },
         [](I i) { return i + 5 - 7 * (i & 3); });
  expect([](Int i) { return ~(i | Int::Of(8)) ^ Int::Of(-9); },
         [](I i) { return ~(i | 8) ^ -9; });
  expect([](Int i) { return ShiftRightArithmetic(i, 2); },
         [](I i) { return i >> 2; });
  expect([](Int i) { return ShiftRight(ShiftLeft(i, 20), 22); },
         [](I i) {
           using U = std::make_unsigned_t<I>;
           return static_cast<I>(static_cast<U>(i) << 20 >> 22);
         });
  expect([](Int i) { return Select(LessInt(i, Int::Of(2)), i, Int::Of(-5)); },
         [](I i) { return i < 2 ? i : -5; });
  expect([](Int i) { return Select(EqualInt(i, Int::Of(-2)), i, Int::Of(9)); },
         [](I i) { return i == -2 ? i : 9; });
  this->Expect([](F x) { return FromBits<F>(Bits(x)); }, [](T x) { return x; });
  static constexpr T kTable[] = {3, 1, 4, 1, 5};
  this->Expect(
      [](F x) {
        const auto is_small = Less(Abs(x), F::Of(2.6));
        return Gather<F>(kTable,
                         ToInt(Floor(Select(is_small, Abs(x), F::Of(4)))));
      },
      [](T x) {
        return kTable[std::abs(x) < T{2.6f} ? static_cast<int>(std::abs(x))
                                            : 4];
      });
}

TYPED_TEST(LanesTest, ScaleRoundingOnce) {
  using F = TypeParam;
  using T = typename F::Element;
  const int end = 2 * kExponentBias<F>;
  for (int n = -end; n <= end; ++n) {
    T got[sizeof(F) / sizeof(T)];
    const T x = T{1} + 3 * std::numeric_limits<T>::epsilon();
    const PowerOf2<F> power = NearestPower(F::Of(n), F::Of(1));
    StoreLanes(got, Scale(F::Of(x), power));
    EXPECT_EQ(got[0], std::ldexp(x, n)) << n;
    if (std::abs(n) < kExponentBias<F>) {
      StoreLanes(got, Value(power, 1));
      EXPECT_EQ(got[0], std::ldexp(T{2}, n)) << n;
    }
  }
}

}  // namespace
}  // namespace mica::region
