#include "kernels/region/operators.h"

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/region/function_testing.h"

namespace mica::region {
namespace {

// A scalar that has what lanes.h asks of ints, to show that no more is needed.
struct ScalarInt {
  struct Mask {
    bool v;
    friend Mask operator!(Mask a) { return {!a.v}; }
  };
  uint64_t v;
  static ScalarInt Of(int64_t x) { return {static_cast<uint64_t>(x)}; }
  int64_t value() const { return static_cast<int64_t>(v); }
  friend ScalarInt operator+(ScalarInt a, ScalarInt b) { return {a.v + b.v}; }
  friend ScalarInt operator-(ScalarInt a, ScalarInt b) { return {a.v - b.v}; }
  friend ScalarInt operator*(ScalarInt a, ScalarInt b) { return {a.v * b.v}; }
  friend ScalarInt operator&(ScalarInt a, ScalarInt b) { return {a.v & b.v}; }
  friend ScalarInt operator|(ScalarInt a, ScalarInt b) { return {a.v | b.v}; }
  friend ScalarInt operator^(ScalarInt a, ScalarInt b) { return {a.v ^ b.v}; }
  friend ScalarInt operator~(ScalarInt a) { return {~a.v}; }
};
ScalarInt::Mask LessInt(ScalarInt a, ScalarInt b) {
  return {a.value() < b.value()};
}
ScalarInt::Mask EqualInt(ScalarInt a, ScalarInt b) { return {a.v == b.v}; }
ScalarInt Select(ScalarInt::Mask m, ScalarInt a, ScalarInt b) {
  return m.v ? a : b;
}

template <class T>
using FloatFn = std::function<T(T, T, T, T)>;
using IntFn = std::function<int64_t(int64_t, int64_t, int64_t, int64_t)>;

// An operator on the first lane; what compares gives 1 or 0.
template <RegionOpId kOp, class T>
void AddFloats(const char* name, std::map<std::string, FloatFn<T>>& all) {
  using F = Tested<T>;
  if constexpr (IsWritten<FloatOperator<kOp>>) {
    all[name] = [](T a, T b, T c, T d) {
      const auto y =
          FloatOperator<kOp>::Of(F::Of(a), F::Of(b), F::Of(c), F::Of(d));
      T lanes[kTestedBytes / sizeof(T)];
      if constexpr (std::is_same_v<decltype(y), const F>) {
        StoreLanes(lanes, y);
      } else {
        StoreLanes(lanes, Select(y, F::Of(1), F::Of(0)));
      }
      return lanes[0];
    };
  }
}
template <class T>
std::map<std::string, FloatFn<T>> FloatOperators() {
  std::map<std::string, FloatFn<T>> all;
#define MICA_ADD_FLOATS(Name, name, arity, domain) \
  AddFloats<RegionOpId::k##Name, T>(name, all);
  MICA_REGION_OPS(MICA_ADD_FLOATS)
#undef MICA_ADD_FLOATS
  return all;
}

template <RegionOpId kOp>
void AddInts(const char* name, std::map<std::string, IntFn>& all) {
  if constexpr (IsWritten<IntOperator<kOp>>) {
    all[name] = [](int64_t a, int64_t b, int64_t c, int64_t d) {
      using Vector = Ints<int64_t, kTestedBytes / 8>;
      const auto run = [&](auto of) {
        return IntOperator<kOp>::Of(of(a), of(b), of(c), of(d));
      };
      const auto scalar = run([](int64_t x) { return ScalarInt::Of(x); });
      const auto lanes = run([](int64_t x) { return Vector::Of(x); });
      int64_t y = 0, first = 0;
      if constexpr (std::is_same_v<decltype(scalar), const ScalarInt>) {
        y = scalar.value(), first = static_cast<int64_t>(lanes.v[0]);
      } else {
        y = scalar.v;
        const Vector chosen = Select(lanes, Vector::Of(1), Vector::Of(0));
        first = static_cast<int64_t>(chosen.v[0]);
      }
      EXPECT_EQ(first, y);
      return y;
    };
  }
}
std::map<std::string, IntFn> IntOperators() {
  std::map<std::string, IntFn> all;
#define MICA_ADD_INTS(Name, name, arity, domain) \
  AddInts<RegionOpId::k##Name>(name, all);
  MICA_REGION_OPS(MICA_ADD_INTS)
#undef MICA_ADD_INTS
  return all;
}

template <class T>
class FloatOperatorsTest : public testing::Test {};
using Elements = testing::Types<float, double>;
TYPED_TEST_SUITE(FloatOperatorsTest, Elements);

TYPED_TEST(FloatOperatorsTest, AreTheFunctionsOfTheirNames) {
  using T = TypeParam;
  const auto all = FloatOperators<T>();
  // At a = 0.3, b = 0.7, c = -1.5 and d = 2; each function has its own test.
  const T a = T{0.3L}, b = T{0.7L}, c = -1.5, d = 2;
  const std::map<std::string, double> wanted = {
      {"neg", -a},
      {"abs", a},
      {"sign", 1},
      {"relu", a},
      {"square", a * a},
      {"cube", a * a * a},
      {"floor", 0},
      {"ceil", 1},
      {"trunc", 0},
      {"round", 0},
      {"reciprocal", 1 / a},
      {"sqrt", std::sqrt(a)},
      {"rsqrt", 1 / std::sqrt(a)},
      {"exp", std::exp(a)},
      {"exp2", std::exp2(a)},
      {"expm1", std::expm1(a)},
      {"log", std::log(a)},
      {"log2", std::log2(a)},
      {"log10", std::log10(a)},
      {"log1p", std::log1p(a)},
      {"sin", std::sin(a)},
      {"cos", std::cos(a)},
      {"tan", std::tan(a)},
      {"asin", std::asin(a)},
      {"acos", std::acos(a)},
      {"atan", std::atan(a)},
      {"sinh", std::sinh(a)},
      {"cosh", std::cosh(a)},
      {"tanh", std::tanh(a)},
      {"asinh", std::asinh(a)},
      {"acosh", std::numeric_limits<double>::quiet_NaN()},
      {"atanh", std::atanh(a)},
      {"erf", std::erf(a)},
      {"erfc", std::erfc(a)},
      {"erfinv", 0.2724627147267543},
      {"lgamma", std::lgamma(a)},
      {"digamma", -3.5025242222001332},
      {"sigmoid", 1 / (1 + std::exp(-a))},
      {"silu", a / (1 + std::exp(-a))},
      {"gelu", a / 2 * std::erfc(-a * std::sqrt(0.5))},
      {"gelu_tanh",
       a / (1 + std::exp(-1.5957691216057308 * (a + 0.044715 * a * a * a)))},
      {"add", a + b},
      {"sub", a - b},
      {"mul", a * b},
      {"div", a / b},
      {"maximum", b},
      {"minimum", a},
      {"fmax", b},
      {"fmin", a},
      {"pow", std::pow(a, b)},
      {"atan2", std::atan2(a, b)},
      {"hypot", std::hypot(a, b)},
      {"fmod", a},
      {"remainder", a},
      {"floor_div", 0},
      {"copysign", a},
      {"tanh_backward", a * (1 - b * b)},
      {"sigmoid_backward", a * (1 - b) * b},
      {"lt", 1},
      {"le", 1},
      {"gt", 0},
      {"ge", 0},
      {"eq", 0},
      {"ne", 1},
      {"add_scaled", a + c * b},
      {"sub_scaled", a - c * b},
      {"lerp", b - (b - a) * (1 - c)},
      {"addcmul", a + d * b * c},
      {"addcdiv", a + d * b / c},
  };
  for (const auto& [name, fn] : all) {
    ASSERT_TRUE(wanted.contains(name)) << name;
    const double y = fn(a, b, c, d), exact = wanted.at(name);
    if (std::isnan(exact)) {
      EXPECT_TRUE(std::isnan(y)) << name;
    } else {
      const double epsilon = std::numeric_limits<T>::epsilon();
      EXPECT_NEAR(y, exact, 4 * epsilon * std::abs(exact)) << name;
    }
  }
  EXPECT_EQ(wanted.size(), all.size());
}

TYPED_TEST(FloatOperatorsTest, NansAndZerosAreAsInPyTorch) {
  using T = TypeParam;
  const auto all = FloatOperators<T>();
  const T nan = std::numeric_limits<T>::quiet_NaN();
  const auto run = [&](const char* name, T a, T b = 0) {
    return all.at(name)(a, b, 0, 0);
  };
  EXPECT_EQ(run("sign", nan), 0);
  EXPECT_EQ(run("sign", T{-0.0}), 0);
  EXPECT_TRUE(std::isnan(run("relu", nan)));
  EXPECT_TRUE(std::signbit(run("relu", T{-0.0})));
  for (const char* name : {"maximum", "minimum"}) {
    EXPECT_TRUE(std::isnan(run(name, nan, 1))) << name;
    EXPECT_TRUE(std::isnan(run(name, 1, nan))) << name;
  }
  for (const char* name : {"fmax", "fmin"}) {
    EXPECT_EQ(run(name, nan, 1), 1) << name;
    EXPECT_EQ(run(name, 1, nan), 1) << name;
    EXPECT_TRUE(std::isnan(run(name, nan, nan))) << name;
  }
  for (const char* name : {"lt", "le", "gt", "ge", "eq"}) {
    EXPECT_EQ(run(name, nan, nan), 0) << name;
  }
  EXPECT_EQ(run("ne", nan, nan), 1);
}

TYPED_TEST(FloatOperatorsTest, LerpStartsAndEndsAtItsEnds) {
  using T = TypeParam;
  const auto lerp = FloatOperators<T>().at("lerp");
  EXPECT_EQ(lerp(T{0.1L}, T{1e9}, 0, 0), T{0.1L});
  EXPECT_EQ(lerp(T{1e9}, T{0.1L}, 1, 0), T{0.1L});
}

TEST(IntOperatorsTest, AreTheFunctionsOfTheirNames) {
  const auto all = IntOperators();
  const int64_t a = -6, b = 5, c = -3, d = 2;
  const std::map<std::string, int64_t> wanted = {
      {"neg", 6},      {"abs", 6},          {"sign", -1},      {"relu", 0},
      {"square", 36},  {"cube", -216},      {"not", 5},        {"add", -1},
      {"sub", -11},    {"mul", -30},        {"maximum", 5},    {"minimum", -6},
      {"and", -6 & 5}, {"or", -6 | 5},      {"xor", -6 ^ 5},   {"lt", 1},
      {"le", 1},       {"gt", 0},           {"ge", 0},         {"eq", 0},
      {"ne", 1},       {"add_scaled", -21}, {"sub_scaled", 9}, {"addcmul", -36},
  };
  for (const auto& [name, fn] : all) {
    ASSERT_TRUE(wanted.contains(name)) << name;
    EXPECT_EQ(fn(a, b, c, d), wanted.at(name)) << name;
  }
  EXPECT_EQ(wanted.size(), all.size());
}

TEST(IntOperatorsTest, WrapAround) {
  const auto all = IntOperators();
  EXPECT_EQ(all.at("neg")(INT64_MIN, 0, 0, 0), INT64_MIN);
  EXPECT_EQ(all.at("abs")(INT64_MIN, 0, 0, 0), INT64_MIN);
  EXPECT_EQ(all.at("add")(INT64_MAX, 1, 0, 0), INT64_MIN);
  EXPECT_EQ(all.at("mul")(INT64_MAX, 2, 0, 0), -2);
  EXPECT_EQ(all.at("sub")(INT64_MIN, 1, 0, 0), INT64_MAX);
  EXPECT_EQ(all.at("le")(7, 7, 0, 0), 1);
  EXPECT_EQ(all.at("ge")(7, 7, 0, 0), 1);
}

}  // namespace
}  // namespace mica::region
