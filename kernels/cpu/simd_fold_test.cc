#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/simd_table.h"
#include "kernels/cpu/simd_testing.h"

namespace mica::cpu {
namespace {

// A total and, of moments and sums of exponentials, what stands beside it.
struct Folded {
  double total = 0, mean = 0;
};

Folded MomentsOf(const std::vector<double>& x) {
  Folded all;
  for (double value : x) all.mean += value / static_cast<double>(x.size());
  for (double value : x) {
    all.total += (value - all.mean) * (value - all.mean);
  }
  return all;
}

double TotalOf(Fold fold, const std::vector<double>& x) {
  double total = fold == Fold::kProduct                                  ? 1
                 : fold == Fold::kLargest || fold == Fold::kLargestAbs   ? -1e9
                 : fold == Fold::kSmallest || fold == Fold::kSmallestAbs ? 1e9
                                                                         : 0;
  for (double value : x) {
    const double size = std::abs(value);
    switch (fold) {
      case Fold::kSum:
        total += value;
        break;
      case Fold::kSumAbs:
        total += size;
        break;
      case Fold::kSumSquares:
        total += value * value;
        break;
      case Fold::kProduct:
        total *= value;
        break;
      case Fold::kLargest:
        total = std::max(total, value);
        break;
      case Fold::kSmallest:
        total = std::min(total, value);
        break;
      case Fold::kLargestAbs:
        total = std::max(total, size);
        break;
      case Fold::kSmallestAbs:
        total = std::min(total, size);
        break;
      case Fold::kLogSumExp:
        total += std::exp(value);
        break;
      case Fold::kMoments:
        break;
    }
  }
  return total;
}

class FoldTest : public SimdTest {
 protected:
  // Folds rows by n numbers twice, the second time behind the first, by rows
  // and by columns.
  void Check(Fold fold, int64_t rows, int64_t n) {
    const int64_t step = n + 3;
    const std::vector<float> x = RandomFloats(rows * step, 1);
    const int f = static_cast<int>(fold), e = static_cast<int>(Elem::kF32);
    for (const bool by_columns : {false, true}) {
      const int64_t count = by_columns ? n : rows;
      const int64_t length = by_columns ? rows : n;
      std::vector<double> totals(count), means(count);
      FoldArgs args{.x = x.data(),
                    .step = step,
                    .rows = rows,
                    .n = n,
                    .totals = totals.data(),
                    .means = means.data()};
      const FoldFn fn =
          (by_columns ? table().fold_columns : table().fold_rows)[f][e];
      fn(args);
      args.done = length;
      fn(args);
      for (int64_t i = 0; i < count; ++i) {
        std::vector<double> all;
        for (int64_t k = 0; k < 2 * length; ++k) {
          const int64_t j = k % length;
          all.push_back(x[by_columns ? j * step + i : i * step + j]);
        }
        CheckOne(fold, all, totals[i], means[i]);
      }
    }
  }

  static void CheckOne(Fold fold, const std::vector<double>& all, double total,
                       double mean) {
    const double slack = 1e-5 * static_cast<double>(all.size());
    if (fold == Fold::kMoments) {
      const Folded wanted = MomentsOf(all);
      EXPECT_NEAR(mean, wanted.mean, 1e-6);
      EXPECT_NEAR(total, wanted.total, slack);
      return;
    }
    if (fold == Fold::kLogSumExp) total *= std::exp(mean);
    EXPECT_NEAR(total, TotalOf(fold, all), slack)
        << static_cast<int>(fold) << " of " << all.size();
  }
};

TEST_P(FoldTest, TilesBecomeOneForEachRowOrColumn) {
  for (int f = 0; f < kNumFolds; ++f) {
    for (int64_t rows : {1, 3, 33, 130}) {
      for (int64_t n : {1, 7, 16, 40, 129, 600}) {
        Check(static_cast<Fold>(f), rows, n);
      }
    }
    Check(static_cast<Fold>(f), 2, 5000);
  }
}

TEST_P(FoldTest, SizesOfMinusZeroArePlusZero) {
  constexpr int64_t kRows = 5;
  for (const Fold fold :
       {Fold::kLargestAbs, Fold::kSmallestAbs, Fold::kSumAbs}) {
    for (int64_t n : {1, 7, 40, 600}) {
      const std::vector<float> x(kRows * n, -0.0f);
      std::vector<double> rows(kRows, 1), columns(n, 1);
      FoldArgs args{.x = x.data(), .step = n, .rows = kRows, .n = n};
      args.totals = rows.data();
      const int f = static_cast<int>(fold), e = static_cast<int>(Elem::kF32);
      table().fold_rows[f][e](args);
      args.totals = columns.data();
      table().fold_columns[f][e](args);
      for (const auto& totals : {rows, columns}) {
        for (double total : totals) {
          EXPECT_TRUE(total == 0 && !std::signbit(total)) << f << " of " << n;
        }
      }
    }
  }
}

TEST_P(FoldTest, CountsWhatIsNotZero) {
  for (int64_t n : {1, 5, 64, 300, 5000}) {
    std::vector<uint16_t> x(3 * n);
    for (int64_t i = 0; i < 3 * n; ++i) {
      x[i] = i % 3 == 0 ? 0 : i % 3 == 1 ? 0x8000 : 5;
    }
    for (const uint64_t mask : {0x7fff, 0xffff}) {
      std::vector<uint64_t> rows(3), columns(n);
      FoldArgs args{.x = x.data(),
                    .step = n,
                    .rows = 3,
                    .n = n,
                    .totals = rows.data(),
                    .mask = mask};
      table().count_rows[1](args);
      args.totals = columns.data();
      table().count_columns[1](args);
      std::vector<uint64_t> wanted_rows(3), wanted_columns(n);
      for (int64_t i = 0; i < 3 * n; ++i) {
        const bool counts = (x[i] & mask) != 0;
        wanted_rows[i / n] += counts ? 1 : 0;
        wanted_columns[i % n] += counts ? 1 : 0;
      }
      EXPECT_EQ(rows, wanted_rows);
      EXPECT_EQ(columns, wanted_columns);
    }
  }
}

TEST_P(FoldTest, SumsOfSixteenBitsAreThoseOfFloats) {
  for (int64_t n : {1, 15, 16, 70, 300, 5000}) {
    constexpr int64_t kRows = 9;
    std::vector<float> x = RandomFloats(kRows * n, 3);
    std::vector<uint16_t> narrow(x.size());
    for (int half = 0; half < kNumHalves; ++half) {
      const int64_t size = static_cast<int64_t>(x.size());
      table().narrow[half](x.data(), narrow.data(), size);
      table().widen[half](narrow.data(), x.data(), size);
      std::vector<double> rows(kRows), columns(n);
      FoldArgs args{.x = narrow.data(),
                    .step = n,
                    .rows = kRows,
                    .n = n,
                    .totals = rows.data()};
      table().half_sum_rows[half](args);
      args.totals = columns.data();
      table().half_sum_columns[half](args);
      for (int64_t i = 0; i < kRows; ++i) {
        double sum = 0;
        for (int64_t c = 0; c < n; ++c) sum += x[i * n + c];
        EXPECT_NEAR(rows[i], sum, 1e-3);
      }
      for (int64_t c = 0; c < n; ++c) {
        double sum = 0;
        for (int64_t i = 0; i < kRows; ++i) sum += x[i * n + c];
        EXPECT_NEAR(columns[c], sum, 1e-5);
      }
    }
  }
}

TEST_P(FoldTest, TheFirstExtremeOfAColumnIsFound) {
  const int max = static_cast<int>(Reduction::kMax);
  const int e = static_cast<int>(Elem::kF32);
  for (int64_t n : {1, 16, 257}) {
    std::vector<float> x(6 * n, 1.0f);
    x[2 * n] = x[4 * n] = 7;           // Of column 0 the third.
    x[5 * n + n - 1] = std::nanf("");  // Of the last one the nan.
    std::vector<float> values(n);
    std::vector<int64_t> indices(n);
    // In two parts.
    table().arg_columns[max][e](x.data(), n, 3, n, 0, values.data(),
                                indices.data());
    table().arg_columns[max][e](x.data() + 3 * n, n, 3, n, 3, values.data(),
                                indices.data());
    EXPECT_EQ(indices[n - 1], 5);
    EXPECT_TRUE(std::isnan(values[n - 1]));
    if (n == 1) continue;
    EXPECT_EQ(indices[0], 2);
    EXPECT_EQ(values[0], 7);
    for (int64_t c = 1; c + 1 < n; ++c) EXPECT_EQ(indices[c], 0);
  }
}

MICA_INSTANTIATE_SIMD_TEST(FoldTest);

}  // namespace
}  // namespace mica::cpu
