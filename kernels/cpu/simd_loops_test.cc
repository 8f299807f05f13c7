#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <numeric>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/simd_table.h"
#include "kernels/cpu/simd_testing.h"

namespace mica::cpu {
namespace {

class LoopsTest : public SimdTest {
 protected:
  BinaryFn Find(Binary op, Elem elem, Form form) const {
    return table().binary[static_cast<int>(op)][static_cast<int>(elem)]
                         [static_cast<int>(form)];
  }
};

TEST_P(LoopsTest, BinaryFormsReadArraysAndSingleElements) {
  const auto a = RandomFloats(37, 1), b = RandomFloats(37, 2);
  const float alpha = 2.5f;
  std::vector<float> out(37);
  Find(Binary::kAddScaled, Elem::kF32, Form::kVV)(a.data(), b.data(),
                                                  out.data(), 37, &alpha);
  for (int i = 0; i < 37; ++i) EXPECT_FLOAT_EQ(out[i], a[i] + 2.5f * b[i]);
  Find(Binary::kSub, Elem::kF32, Form::kVS)(a.data(), b.data(), out.data(), 37,
                                            nullptr);
  for (int i = 0; i < 37; ++i) EXPECT_EQ(out[i], a[i] - b[0]);
  Find(Binary::kDiv, Elem::kF32, Form::kSV)(a.data(), b.data(), out.data(), 37,
                                            nullptr);
  for (int i = 0; i < 37; ++i) EXPECT_EQ(out[i], a[0] / b[i]);
}

TEST_P(LoopsTest, ASingleElementMayBeTheOutput) {
  std::vector<float> x = {1, 2, 3, 4, 5};
  Find(Binary::kMul, Elem::kF32, Form::kVS)(x.data(), x.data() + 2, x.data(), 5,
                                            nullptr);
  EXPECT_EQ(x, (std::vector<float>{3, 6, 9, 12, 15}));
}

TEST_P(LoopsTest, RowsAreAsOneByOne) {
  constexpr int64_t kRows = 3, kGap = 5;
  const float alpha = -0.5f;
  for (int64_t n : {0, 1, 7, 16, 37, 128, 130, 300}) {
    const int64_t step = n + kGap;
    const auto a = RandomFloats(kRows * step, 1);
    const auto b = RandomFloats(kRows * step, 2);
    for (Form form : {Form::kVV, Form::kVS, Form::kSV}) {
      for (int64_t b_step : {int64_t{0}, step}) {
        std::vector<float> wanted(kRows * step, 7), out = wanted;
        for (int64_t row = 0; row < kRows; ++row) {
          Find(Binary::kAddScaled, Elem::kF32, form)(
              a.data() + row * step, b.data() + row * b_step,
              wanted.data() + row * step, n, &alpha);
        }
        table().binary_rows[static_cast<int>(Binary::kAddScaled)]
                           [static_cast<int>(Elem::kF32)]
                           [static_cast<int>(form)]({.a = a.data(),
                                                     .b = b.data(),
                                                     .out = out.data(),
                                                     .a_step = step * 4,
                                                     .b_step = b_step * 4,
                                                     .out_step = step * 4,
                                                     .rows = kRows,
                                                     .n = n,
                                                     .alpha = &alpha});
        EXPECT_EQ(out, wanted) << n;
      }
    }
  }
}

// Elements of T, of which the last has nothing behind it.
template <typename T>
void CheckGather(GatherFn gather) {
  for (int64_t stride : {-2, -1, 1, 2, 3, 70}) {
    for (int64_t n : {0, 1, 3, 8, 31, 32, 33, 65, 100}) {
      std::vector<T> from(n == 0 ? 0 : (n - 1) * std::abs(stride) + 1);
      std::iota(from.begin(), from.end(), T{0});
      const T* first = stride < 0 ? from.data() + from.size() : from.data();
      if (stride < 0 && n > 0) --first;
      std::vector<T> out(n + 1, T{77}), wanted = out;
      for (int64_t i = 0; i < n; ++i) wanted[i] = first[i * stride];
      gather(first, stride, n, out.data());
      EXPECT_EQ(out, wanted) << sizeof(T) << " bytes, stride " << stride;
    }
  }
}

template <typename T>
void CheckPick(PickFn pick) {
  std::vector<T> from(77);
  std::iota(from.begin(), from.end(), T{1});
  for (int64_t n : {0, 1, 31, 32, 33, 100}) {
    std::vector<int64_t> indices(n);
    for (int64_t i = 0; i < n; ++i) indices[i] = i * 29 % 77;
    std::vector<T> out(n + 1, T{99}), wanted = out;
    for (int64_t i = 0; i < n; ++i) wanted[i] = from[indices[i]];
    EXPECT_EQ(pick(from.data(), 77, indices.data(), n, out.data()), n);
    EXPECT_EQ(out, wanted) << sizeof(T) << " bytes";
    for (const int64_t outside : {int64_t{-1}, int64_t{77}, int64_t{1} << 62,
                                  std::numeric_limits<int64_t>::min()}) {
      for (int64_t at = 0; at < n; at += 7) {
        std::vector<int64_t> wrong = indices;
        wrong[at] = outside;
        EXPECT_EQ(pick(from.data(), 77, wrong.data(), n, out.data()), at);
      }
    }
    EXPECT_EQ(pick(from.data(), 0, indices.data(), n, out.data()), 0);
  }
}

TEST_P(LoopsTest, PicksWhatIndicesName) {
  CheckPick<uint8_t>(table().pick8);
  CheckPick<uint16_t>(table().pick16);
  CheckPick<uint32_t>(table().pick32);
  CheckPick<uint64_t>(table().pick64);
}

TEST_P(LoopsTest, GathersWhatLiesApart) {
  CheckGather<uint8_t>(table().gather8);
  CheckGather<uint16_t>(table().gather16);
  CheckGather<uint32_t>(table().gather32);
  CheckGather<uint64_t>(table().gather64);
}

TEST_P(LoopsTest, MaximumAndMinimumKeepNan) {
  const std::vector<float> a = {kNan, 1, 2, -kInf}, b = {1, kNan, 3, 0};
  std::vector<float> out(4);
  Find(Binary::kMaximum, Elem::kF32, Form::kVV)(a.data(), b.data(), out.data(),
                                                4, nullptr);
  EXPECT_TRUE(std::isnan(out[0]) && std::isnan(out[1]));
  EXPECT_EQ(out[2], 3);
  EXPECT_EQ(out[3], 0);
  Find(Binary::kMinimum, Elem::kF32, Form::kVV)(a.data(), b.data(), out.data(),
                                                4, nullptr);
  EXPECT_TRUE(std::isnan(out[0]) && std::isnan(out[1]));
  EXPECT_EQ(out[2], 2);
  EXPECT_EQ(out[3], -kInf);
}

TEST_P(LoopsTest, ComparisonsGiveBools) {
  std::vector<int64_t> a(41), b(41, 20);
  std::iota(a.begin(), a.end(), 0);
  std::vector<uint8_t> out(41);
  Find(Binary::kLe, Elem::kI64, Form::kVV)(a.data(), b.data(), out.data(), 41,
                                           nullptr);
  for (int i = 0; i < 41; ++i) EXPECT_EQ(out[i], i <= 20);
  const float nan = kNan, one = 1;
  Find(Binary::kNe, Elem::kF32, Form::kVS)(&nan, &one, out.data(), 1, nullptr);
  EXPECT_EQ(out[0], 1);
  Find(Binary::kEq, Elem::kF32, Form::kVS)(&nan, &nan, out.data(), 1, nullptr);
  EXPECT_EQ(out[0], 0);
}

TEST_P(LoopsTest, SelectTakesArraysAndSingleElements) {
  const bool cond[] = {true, false, true, false, true};
  const std::vector<int64_t> a = {1, 2, 3, 4, 5}, b = {10, 20, 30, 40, 50};
  std::vector<int64_t> out(5);
  table().select[3][3](cond, a.data(), b.data(), out.data(), 5);
  EXPECT_EQ(out, (std::vector<int64_t>{1, 20, 3, 40, 5}));
  table().select[3][2](cond, a.data(), b.data(), out.data(), 5);
  EXPECT_EQ(out, (std::vector<int64_t>{1, 20, 1, 40, 1}));
  table().select[3][0](cond, a.data(), b.data(), out.data(), 5);
  EXPECT_EQ(out, (std::vector<int64_t>{1, 10, 1, 10, 1}));
}

TEST_P(LoopsTest, ConvertsBetweenElementTypes) {
  const std::vector<float> x = {-1.5f, 0.0f, 2.9f, kNan};
  std::vector<int64_t> ints(3);
  std::vector<uint8_t> bools(4);
  auto convert = [this](Elem from, Elem to) {
    return table().convert[static_cast<int>(from)][static_cast<int>(to)];
  };
  convert(Elem::kF32, Elem::kI64)(x.data(), ints.data(), 3);
  EXPECT_EQ(ints, (std::vector<int64_t>{-1, 0, 2}));
  convert(Elem::kF32, Elem::kBool)(x.data(), bools.data(), 4);
  EXPECT_EQ(bools, (std::vector<uint8_t>{1, 0, 1, 1}));
  std::vector<float> back(4);
  convert(Elem::kBool, Elem::kF32)(bools.data(), back.data(), 4);
  EXPECT_EQ(back, (std::vector<float>{1, 0, 1, 1}));
}

TEST_P(LoopsTest, ReducesRowsAndColumns) {
  for (int64_t n : {1, 5, 32, 33, 100, 5000}) {
    const int64_t rows = n == 5000 ? 3 : 70;
    const auto x = RandomFloats(rows * n);
    std::vector<float> by_row(rows), by_column(n);
    table().reduce_rows[0][0](x.data(), by_row.data(), rows, n);
    table().reduce_columns[0][0](x.data(), by_column.data(), rows, n);
    for (int64_t r = 0; r < rows; ++r) {
      double sum = 0;
      for (int64_t i = 0; i < n; ++i) sum += x[r * n + i];
      EXPECT_NEAR(by_row[r], sum, 1e-4);
    }
    for (int64_t i = 0; i < n; ++i) {
      double sum = 0;
      for (int64_t r = 0; r < rows; ++r) sum += x[r * n + i];
      EXPECT_NEAR(by_column[i], sum, 1e-5);
    }
    table().reduce_rows[1][0](x.data(), by_row.data(), rows, n);
    EXPECT_EQ(by_row[0], *std::max_element(x.begin(), x.begin() + n));
  }
}

template <typename T>
void CheckRows(const SimdTable& table, Elem elem, int64_t n) {
  constexpr int64_t kRows = 9;
  std::vector<T> x(kRows * n), out(kRows);
  uint32_t state = 1;
  for (T& element : x) {
    state = state * 1664525u + 1013904223u;
    element = static_cast<T>(static_cast<int32_t>(state) >> 8);
  }
  for (Reduction reduction :
       {Reduction::kSum, Reduction::kMax, Reduction::kMin}) {
    table.reduce_rows[static_cast<int>(reduction)][static_cast<int>(elem)](
        x.data(), out.data(), kRows, n);
    for (int64_t r = 0; r < kRows; ++r) {
      const T* row = x.data() + r * n;
      T wanted = *std::max_element(row, row + n);
      if (reduction == Reduction::kMin)
        wanted = *std::min_element(row, row + n);
      if (reduction == Reduction::kSum)
        wanted = std::accumulate(row, row + n, T{});
      EXPECT_EQ(out[r], wanted) << "row " << r << " of " << n;
    }
  }
}

// Whole numbers, whose sums are exact in double in any order.
TEST_P(LoopsTest, ReducesRowsOfAnyLength) {
  for (int64_t n :
       {1, 3, 4, 5, 15, 16, 17, 31, 33, 64, 100, 1023, 1024, 1101}) {
    CheckRows<double>(table(), Elem::kF64, n);
    CheckRows<int64_t>(table(), Elem::kI64, n);
    CheckRows<int32_t>(table(), Elem::kI32, n);
  }
}

// Few different elements, so that equal ones stand in a row; of floats some are
// nans.
template <typename T>
void CheckArgExtremes(const SimdTable& table, Elem elem, int64_t n) {
  constexpr int64_t kRows = 9;
  std::vector<T> x(kRows * n), values(kRows);
  std::vector<int64_t> indices(kRows);
  uint32_t state = 1;
  for (T& element : x) {
    state = state * 1664525u + 1013904223u;
    element = static_cast<T>(static_cast<int32_t>(state >> 24) - 128);
    if (std::is_floating_point_v<T> && state >> 20 == 77) {
      element = std::numeric_limits<T>::quiet_NaN();
    }
  }
  for (Reduction reduction : {Reduction::kMax, Reduction::kMin}) {
    const ArgExtremeFn extremes =
        table.arg_extreme[static_cast<int>(reduction)][static_cast<int>(elem)];
    extremes(x.data(), kRows, n, values.data(), indices.data());
    std::vector<int64_t> alone(kRows);
    extremes(x.data(), kRows, n, nullptr, alone.data());
    EXPECT_EQ(alone, indices);
    for (int64_t r = 0; r < kRows; ++r) {
      const T* row = x.data() + r * n;
      int64_t at = 0;
      for (int64_t i = 1; i < n && row[at] == row[at]; ++i) {
        const bool is_further =
            reduction == Reduction::kMax ? row[i] > row[at] : row[i] < row[at];
        if (is_further || row[i] != row[i]) at = i;
      }
      EXPECT_EQ(indices[r], at) << "row " << r << " of " << n;
      EXPECT_EQ(std::memcmp(&values[r], &row[at], sizeof(T)), 0);
    }
  }
}

TEST_P(LoopsTest, FindsExtremesOfRowsOfAnyLength) {
  for (int64_t n : {1, 3, 8, 16, 17, 31, 32, 33, 64, 65, 100, 1000, 1101}) {
    CheckArgExtremes<float>(table(), Elem::kF32, n);
    CheckArgExtremes<double>(table(), Elem::kF64, n);
    CheckArgExtremes<int64_t>(table(), Elem::kI64, n);
    CheckArgExtremes<int32_t>(table(), Elem::kI32, n);
  }
}

// Whole numbers again: so few columns that rows are joined.
template <typename T>
void CheckColumns(const SimdTable& table, Elem elem, int64_t rows, int64_t n) {
  std::vector<T> x(rows * n), out(n);
  uint32_t state = 1;
  for (T& element : x) {
    state = state * 1664525u + 1013904223u;
    element = static_cast<T>(static_cast<int32_t>(state) >> 20);
  }
  for (Reduction reduction :
       {Reduction::kSum, Reduction::kMax, Reduction::kMin}) {
    table.reduce_columns[static_cast<int>(reduction)][static_cast<int>(elem)](
        x.data(), out.data(), rows, n);
    for (int64_t c = 0; c < n; ++c) {
      T wanted = x[c];
      for (int64_t r = 1; r < rows; ++r) {
        const T next = x[r * n + c];
        wanted = reduction == Reduction::kSum   ? wanted + next
                 : reduction == Reduction::kMax ? std::max(wanted, next)
                                                : std::min(wanted, next);
      }
      EXPECT_EQ(out[c], wanted) << "column " << c << " of " << n;
    }
  }
}

TEST_P(LoopsTest, ReducesAnyNumberOfColumns) {
  for (int64_t n : {1, 2, 3, 7, 22, 31, 32, 33, 600}) {
    for (int64_t rows : {1, 63, 64, 65, 1001}) {
      CheckColumns<float>(table(), Elem::kF32, rows, n);
      CheckColumns<double>(table(), Elem::kF64, rows, n);
      CheckColumns<int64_t>(table(), Elem::kI64, rows, n);
      CheckColumns<int32_t>(table(), Elem::kI32, rows, n);
    }
  }
}

TEST_P(LoopsTest, LongSumsStayExact) {
  const std::vector<float> x(10'000'000, 0.1f);
  float row = 0, column = 0;
  table().reduce_rows[0][0](x.data(), &row, 1, 10'000'000);
  table().reduce_columns[0][0](x.data(), &column, 10'000'000, 1);
  EXPECT_NEAR(row, 1e6, 1);
  EXPECT_NEAR(column, 1e6, 1);
}

TEST_P(LoopsTest, SoftmaxRowsSumToOneAndMayRunInPlace) {
  for (int64_t n : {1, 3, 16, 77}) {
    auto x = RandomFloats(4 * n);
    std::vector<float> y(x.size()), log(x.size());
    table().softmax(x.data(), y.data(), 4, n);
    table().log_softmax(x.data(), log.data(), 4, n);
    for (int r = 0; r < 4; ++r) {
      double sum = 0, total = 0;
      for (int64_t i = 0; i < n; ++i) sum += std::exp(double{x[r * n + i]});
      for (int64_t i = 0; i < n; ++i) {
        const double exact = std::exp(double{x[r * n + i]}) / sum;
        EXPECT_NEAR(y[r * n + i], exact, 1e-6);
        EXPECT_NEAR(log[r * n + i], std::log(exact), 1e-6);
        total += y[r * n + i];
      }
      EXPECT_NEAR(total, 1, 1e-6);
    }
    std::vector<float> logs(4);
    table().log_sum_exp(x.data(), logs.data(), 4, n);
    EXPECT_NEAR(logs[2], x[2 * n] - log[2 * n], 1e-5);
    table().softmax(x.data(), x.data(), 4, n);
    EXPECT_EQ(x, y);
  }
}

TEST_P(LoopsTest, LogSumExpOfInfiniteNumbersAndNans) {
  const float x[] = {-kInf, -kInf, 1, kInf, -kInf, 0, kNan, 1};
  float out[4];
  table().log_sum_exp(x, out, 4, 2);
  EXPECT_EQ(out[0], -kInf);
  EXPECT_EQ(out[1], kInf);
  EXPECT_EQ(out[2], 0);
  EXPECT_TRUE(std::isnan(out[3]));
}

TEST_P(LoopsTest, LayerNormAddsNormalisesAndTellsItsStatistics) {
  for (int64_t n : {1, 7, 64, 100}) {
    const int64_t rows = 5;
    const auto x = RandomFloats(rows * n, 1), a = RandomFloats(rows * n, 2);
    const auto gamma = RandomFloats(n, 3), beta = RandomFloats(n, 4);
    std::vector<float> y(x.size()), sum(x.size()), mean(rows), rstd(rows);
    table().layer_norm({.x = x.data(),
                        .addend = a.data(),
                        .sum = sum.data(),
                        .gamma = gamma.data(),
                        .beta = beta.data(),
                        .y = y.data(),
                        .mean = mean.data(),
                        .rstd = rstd.data(),
                        .rows = rows,
                        .n = n,
                        .eps = 1e-5f});
    for (int64_t r = 0; r < rows; ++r) {
      double mu = 0, variance = 0;
      for (int64_t i = r * n; i < (r + 1) * n; ++i) {
        EXPECT_EQ(sum[i], x[i] + a[i]);
        mu += sum[i] / static_cast<double>(n);
      }
      for (int64_t i = r * n; i < (r + 1) * n; ++i) {
        variance += (sum[i] - mu) * (sum[i] - mu) / static_cast<double>(n);
      }
      EXPECT_NEAR(mean[r], mu, 1e-6);
      EXPECT_NEAR(rstd[r] * std::sqrt(variance + 1e-5), 1, 1e-5);
      for (int64_t i = 0; i < n; ++i) {
        EXPECT_NEAR(y[r * n + i],
                    (sum[r * n + i] - mu) * rstd[r] * gamma[i] + beta[i], 2e-5);
      }
    }
    std::vector<float> in_place = x;
    table().layer_norm({.x = in_place.data(),
                        .addend = a.data(),
                        .gamma = gamma.data(),
                        .beta = beta.data(),
                        .y = in_place.data(),
                        .rows = rows,
                        .n = n,
                        .eps = 1e-5f});
    EXPECT_EQ(in_place, y);
  }
}

MICA_INSTANTIATE_SIMD_TEST(LoopsTest);

}  // namespace
}  // namespace mica::cpu
