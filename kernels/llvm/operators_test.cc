// Emitted operators against the same expressions as GCC compiles them for
// vectors of the same level: bit by bit. That's what lets machine code take the
// place of the vector loops in the midst of a run.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "framework/base/test_matchers.h"
#include "framework/op/region_ops.h"
#include "kernels/llvm/operator_testing.h"
#include "kernels/llvm/region_testing.h"

namespace mica::region {
namespace {

constexpr int64_t kRandom = 4096;  // Elements of random bits.

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Every pair of them is tried: limits, steps, and where functions turn.
const std::vector<double>& Specials() {
  static const auto& specials = *[] {
    auto* all = new std::vector<double>;
    for (const double size :
         {0.0,      4.9e-324,  1e-310, 2.3e-308,     1e-45,    1e-40,
          1.2e-38,  1e-20,     1e-8,   1e-3,         0.1,      0.25,
          0.5,      0.7,       0.9,    0.999999,     1.0,      1.000001,
          1.5,      2.0,       2.5,    3.0,          M_PI / 2, M_PI,
          5.0,      10.0,      17.0,   88.8,         104.0,    127.0,
          128.5,    255.0,     709.8,  746.0,        1e4,      65504.0,
          65520.0,  8388608.0, 1e8,    2147483648.0, 1e10,     4.6e18,
          1e19,     1e30,      3.4e38, 3.5e38,       1e100,    1.7e308,
          kInfinity}) {
      all->push_back(size);
      all->push_back(-size);
    }
    all->push_back(std::nan(""));
    return all;
  }();
  return specials;
}

template <class T>
T As(double x) {
  if (std::is_floating_point_v<T>) return static_cast<T>(x);
  if (std::isnan(x)) return 0;
  const double limit = std::ldexp(1, 8 * sizeof(T) - 1);
  return x >= limit    ? std::numeric_limits<T>::max()
         : x <= -limit ? std::numeric_limits<T>::min()
                       : static_cast<T>(static_cast<int64_t>(x));
}

// Operands: all pairs of specials, with the third and fourth some others; then
// random bits, and random numbers of usual sizes.
template <class T>
std::vector<std::vector<T>> Operands() {
  std::vector<std::vector<T>> in(kMostRegionOperands);
  const std::vector<double>& specials = Specials();
  const size_t count = specials.size();
  for (size_t i = 0; i < count; ++i) {
    for (size_t k = 0; k < count; ++k) {
      in[0].push_back(As<T>(specials[i]));
      in[1].push_back(As<T>(specials[k]));
      in[2].push_back(As<T>(specials[(i * 7 + k) % count]));
      in[3].push_back(As<T>(specials[(i + k * 5) % count]));
    }
  }
  std::mt19937_64 random(1);
  for (std::vector<T>& column : in) {
    for (int64_t i = 0; i < kRandom; ++i) {
      const uint64_t bits = random();
      T x;
      std::memcpy(&x, &bits, sizeof(x));
      column.push_back(x);
    }
    std::normal_distribution<double> usual(0, 3);
    for (int64_t i = 0; i < kRandom; ++i) {
      column.push_back(As<T>(usual(random) * (i % 2 == 0 ? 1 : 100)));
    }
  }
  return in;
}

// Nans of other bits are equal: of two nans that meet, which stays depends on
// which operand comes first, and compilers may swap those.
template <class T>
bool IsSame(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) && std::isnan(b)) return true;
  }
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

std::string TextOf(const RegionOp& op, DType dtype) {
  const std::string type(DTypeName(dtype));
  std::string text = absl::StrCat(op.name, ".", type);
  std::string arrays;
  for (int i = 0; i < op.arity; ++i) {
    absl::StrAppend(&text, " %", i);
    absl::StrAppend(&arrays, " ", type, ".dense");
  }
  return absl::StrCat(text, " -> $0 |", arrays, " | ",
                      op.compares() ? "bool" : type, ".dense");
}

template <class T, class Result>
void Compare(const RegionOp& op, DType dtype, const std::string& level,
             EvaluateFn* evaluate) {
  static const auto& in = *new std::vector<std::vector<T>>(Operands<T>());
  const std::string text = TextOf(op, dtype);
  SCOPED_TRACE(absl::StrCat(text, " at ", level));
  MICA_ASSERT_OK_AND_ASSIGN(const cpu::MachineCode code,
                            CompileText(text, level));
  const auto n = static_cast<int64_t>(in[0].size());
  std::vector<Result> got(n), want(n);
  const char* from[kMostRegionOperands];
  std::vector<char*> at;
  for (int i = 0; i < kMostRegionOperands; ++i) {
    from[i] = reinterpret_cast<const char*>(in[i].data());
    if (i < op.arity) at.push_back(const_cast<char*>(from[i]));
  }
  at.push_back(reinterpret_cast<char*>(got.data()));
  const std::vector<int64_t> steps(at.size(), 0);
  code.entry<RegionFn>()({.at = at.data(),
                          .row_steps = steps.data(),
                          .steps = steps.data(),
                          .rows = 1,
                          .n = n});
  ASSERT_TRUE(
      evaluate(op.id, dtype, from, n, reinterpret_cast<char*>(want.data())));
  int64_t differing = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (IsSame(got[i], want[i])) continue;
    if (++differing > 3) continue;
    ADD_FAILURE() << absl::StrFormat(
        "of %.17g, %.17g, %.17g, %.17g: wants %.17g, got %.17g",
        static_cast<double>(in[0][i]), static_cast<double>(in[1][i]),
        static_cast<double>(in[2][i]), static_cast<double>(in[3][i]),
        static_cast<double>(want[i]), static_cast<double>(got[i]));
  }
  EXPECT_EQ(differing, 0) << "of " << n;
}

template <class T>
void CompareAll(DType dtype) {
  for (const EvaluatedLevel& level : EvaluatedLevels()) {
    for (const RegionOp& op : RegionOps()) {
      // Between types, and no expressions: see emitter_test.cc.
      const bool is_between =
          op.id == RegionOpId::kCast || op.id == RegionOpId::kWhere;
      if (is_between || !op.Has(dtype)) continue;
      if (op.compares()) {
        Compare<T, uint8_t>(op, dtype, level.name, level.evaluate);
      } else {
        Compare<T, T>(op, dtype, level.name, level.evaluate);
      }
    }
  }
}

TEST(OperatorsTest, AreTheExpressionsOfFloats) {
  CompareAll<float>(DType::kF32);
}
TEST(OperatorsTest, AreTheExpressionsOfDoubles) {
  CompareAll<double>(DType::kF64);
}
TEST(OperatorsTest, AreTheExpressionsOfInts) {
  CompareAll<int32_t>(DType::kI32);
  CompareAll<int64_t>(DType::kI64);
}

// Each row of a truth table.
TEST(OperatorsTest, AreThoseOfBools) {
  struct Row {
    const char* name;
    uint8_t of[4];  // (0, 0), (0, 1), (1, 0), (1, 1).
  };
  for (const Row& row : std::vector<Row>{{"maximum", {0, 1, 1, 1}},
                                         {"minimum", {0, 0, 0, 1}},
                                         {"and", {0, 0, 0, 1}},
                                         {"or", {0, 1, 1, 1}},
                                         {"xor", {0, 1, 1, 0}},
                                         {"not", {1, 1, 0, 0}},
                                         {"lt", {0, 1, 0, 0}},
                                         {"le", {1, 1, 0, 1}},
                                         {"gt", {0, 0, 1, 0}},
                                         {"ge", {1, 0, 1, 1}},
                                         {"eq", {1, 0, 0, 1}},
                                         {"ne", {0, 1, 1, 0}}}) {
    for (const std::string& level : LevelsHere()) {
      const RegionOp& op = *FindRegionOp(row.name);
      MICA_ASSERT_OK_AND_ASSIGN(const cpu::MachineCode code,
                                CompileText(TextOf(op, DType::kBool), level));
      char a[] = {0, 0, 1, 1}, b[] = {0, 1, 0, 1}, to[4];
      std::vector<char*> at = {a, b, to};
      if (op.arity == 1) at = {a, to};
      const int64_t steps[] = {0, 0, 0};
      code.entry<RegionFn>()({.at = at.data(),
                              .row_steps = steps,
                              .steps = steps,
                              .rows = 1,
                              .n = 4});
      EXPECT_EQ(std::memcmp(to, row.of, 4), 0) << row.name << " at " << level;
    }
  }
}

// Those of ints of 8 and 16 bits are what those of 64 bits are, cut off, of all
// that don't compare; and of those that do, of the same numbers.
template <class T>
void CompareNarrow(DType dtype) {
  const EvaluatedLevel level = EvaluatedLevels()[0];
  std::mt19937_64 random(2);
  constexpr int64_t kCount = 2000;
  std::vector<T> in[kMostRegionOperands];
  std::vector<int64_t> wide[kMostRegionOperands];
  const char* from[kMostRegionOperands];
  for (int k = 0; k < kMostRegionOperands; ++k) {
    for (int64_t i = 0; i < kCount; ++i) {
      in[k].push_back(static_cast<T>(random()));
      wide[k].push_back(in[k].back());
    }
    from[k] = reinterpret_cast<const char*>(wide[k].data());
  }
  for (const RegionOp& op : RegionOps()) {
    const bool is_between =
        op.id == RegionOpId::kCast || op.id == RegionOpId::kWhere;
    if (is_between || !op.Has(dtype)) continue;
    std::vector<int64_t> want(kCount);
    ASSERT_TRUE(level.evaluate(op.id, DType::kI64, from, kCount,
                               reinterpret_cast<char*>(want.data())));
    for (const std::string& here : LevelsHere()) {
      SCOPED_TRACE(absl::StrCat(TextOf(op, dtype), " at ", here));
      MICA_ASSERT_OK_AND_ASSIGN(const cpu::MachineCode code,
                                CompileText(TextOf(op, dtype), here));
      std::vector<T> got(kCount);
      std::vector<char*> at;
      for (int k = 0; k < op.arity; ++k) {
        at.push_back(reinterpret_cast<char*>(in[k].data()));
      }
      at.push_back(reinterpret_cast<char*>(got.data()));
      const std::vector<int64_t> steps(at.size(), 0);
      code.entry<RegionFn>()({.at = at.data(),
                              .row_steps = steps.data(),
                              .steps = steps.data(),
                              .rows = 1,
                              .n = kCount});
      const auto* const bools = reinterpret_cast<const uint8_t*>(got.data());
      const auto* const want_bools =
          reinterpret_cast<const uint8_t*>(want.data());
      for (int64_t i = 0; i < kCount; ++i) {
        if (op.compares()) {
          ASSERT_EQ(bools[i], want_bools[i]) << "element " << i;
        } else {
          ASSERT_EQ(got[i], static_cast<T>(want[i])) << "element " << i;
        }
      }
    }
  }
}

TEST(OperatorsTest, AreThoseOfNarrowInts) {
  CompareNarrow<int16_t>(DType::kI16);
  CompareNarrow<int8_t>(DType::kI8);
  CompareNarrow<uint8_t>(DType::kU8);
}

}  // namespace
}  // namespace mica::region
