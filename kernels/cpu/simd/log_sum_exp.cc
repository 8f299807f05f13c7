#include <cmath>
#include <cstdint>

#include "kernels/cpu/simd/math.h"
#include "kernels/cpu/simd/parts.h"
#include "kernels/cpu/simd/reduce_row.h"
#include "kernels/cpu/simd/vec.h"

// Sums of exponentials of float32, each shifted by the largest element of its
// row or column, as Fold::kLogSumExp wants them.

namespace mica::cpu::MICA_SIMD_NAMESPACE {
namespace {

constexpr int kTile = 256;  // Columns that are folded together.
constexpr int64_t kTileRows = 32;

// What the elements are shifted by whose largest one that is: nothing can be
// subtracted from infinite ones.
MICA_INLINE float ShiftOf(float largest) {
  return std::isinf(largest) ? 0.0f : largest;
}

// `sum` of another shift; an infinite one, or none, stays as it is.
MICA_INLINE double Shifted(double sum, double by) {
  return sum == 0 || std::isinf(sum) ? sum : sum * std::exp(by);
}

void Join(double shift, double sum, double& all_shift, double& all_sum) {
  if (sum == 0) return;
  if (all_sum == 0) {
    all_shift = shift;
    all_sum = sum;
    return;
  }
  const double largest = shift > all_shift ? shift : all_shift;
  all_sum =
      Shifted(all_sum, all_shift - largest) + Shifted(sum, shift - largest);
  all_shift = largest;
}

double SumOfExp(const float* x, int64_t n, float shift) {
  const Vf by = Set(shift);
  Vf sum = Zero();
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) sum += Exp(Load(x + i) - by);
  if (i < n) {
    const Vm tail = FirstLanes(n - i);
    sum += Select(tail, Exp(Load(x + i, tail) - by), Zero());
  }
  return SumLanes(sum);
}

void Rows(const FoldArgs& args) {
  constexpr int64_t kBlock = 4096;
  const float* x = static_cast<const float*>(args.x);
  double* sums = static_cast<double*>(args.totals);
  for (int64_t r = 0; r < args.rows; ++r, x += args.step) {
    if (args.done == 0) sums[r] = args.means[r] = 0;
    for (int64_t i = 0; i < args.n; i += kBlock) {
      const int64_t n = args.n - i < kBlock ? args.n - i : kBlock;
      const float shift = ShiftOf(RowMax(x + i, n));
      Join(shift, SumOfExp(x + i, n, shift), args.means[r], sums[r]);
    }
  }
  ClearUpperHalves();
}

// Rows of `width` columns, which is at most kTile; shifts and sums have room
// for whole vectors.
void Tile(const float* x, int64_t step, int64_t rows, int width, float* shifts,
          float* sums) {
  for (int j = 0; j < width; j += kLanes) {
    const Vm some = FirstLanes(width - j < kLanes ? width - j : kLanes);
    Vf largest = Set(-INFINITY), sum = Zero();
    for (int64_t r = 0; r < rows; ++r) {
      largest = Max(largest, Load(x + r * step + j, some));
    }
    const Vf by = Select(Less(Abs(largest), Set(INFINITY)), largest, Zero());
    for (int64_t r = 0; r < rows; ++r) {
      sum += Exp(Load(x + r * step + j, some) - by);
    }
    Store(shifts + j, by);
    Store(sums + j, sum);
  }
}

void Columns(const FoldArgs& args) {
  const float* x = static_cast<const float*>(args.x);
  double* totals = static_cast<double*>(args.totals);
  if (args.done == 0) {
    for (int64_t c = 0; c < args.n; ++c) totals[c] = args.means[c] = 0;
  }
  float shifts[kTile + kLanes], sums[kTile + kLanes];
  for (int64_t r = 0; r < args.rows; r += kTileRows) {
    const int64_t rows = args.rows - r < kTileRows ? args.rows - r : kTileRows;
    for (int64_t c = 0; c < args.n; c += kTile) {
      const int width =
          static_cast<int>(args.n - c < kTile ? args.n - c : kTile);
      Tile(x + r * args.step + c, args.step, rows, width, shifts, sums);
      for (int j = 0; j < width; ++j) {
        Join(shifts[j], sums[j], args.means[c + j], totals[c + j]);
      }
    }
  }
  ClearUpperHalves();
}

}  // namespace

void FillLogSumExp(SimdTable& table) {
  const int f = static_cast<int>(Fold::kLogSumExp);
  table.fold_rows[f][static_cast<int>(Elem::kF32)] = Rows;
  table.fold_columns[f][static_cast<int>(Elem::kF32)] = Columns;
}

}  // namespace mica::cpu::MICA_SIMD_NAMESPACE
