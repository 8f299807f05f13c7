#include <cstdint>

#include "kernels/cpu/simd/half.h"
#include "kernels/cpu/simd/parts.h"
#include "kernels/cpu/simd/vec.h"

// Sums of numbers of 16 bits, widened in registers: ATen's own are so fast that
// a tile in float32 between would take twice their time.

namespace mica::cpu::MICA_SIMD_NAMESPACE {
namespace {

// Elements of a row, and rows, between two visits to the totals.
constexpr int64_t kBlock = 4096;
constexpr int64_t kBlockRows = 128;
constexpr int kWidth = 256;  // Columns that are summed together.

struct BFloats {
  static MICA_INLINE Vf Read(const uint16_t* p) { return WidenBFloat(p); }
};
struct Halves {
  static MICA_INLINE Vf Read(const uint16_t* p) { return WidenHalf(p); }
};

template <typename Type>
MICA_INLINE Vf ReadSome(const uint16_t* p, int64_t n) {
  uint16_t some[kLanes] = {};
  for (int64_t i = 0; i < n; ++i) some[i] = p[i];
  return Type::Read(some);
}

template <typename Type>
MICA_INLINE float SumOf(const uint16_t* x, int64_t n) {
  Vf a = Zero(), b = Zero(), c = Zero(), d = Zero();
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    a += Type::Read(x + i);
    b += Type::Read(x + i + kLanes);
    c += Type::Read(x + i + 2 * kLanes);
    d += Type::Read(x + i + 3 * kLanes);
  }
  for (; i + kLanes <= n; i += kLanes) a += Type::Read(x + i);
  if (i < n) b += ReadSome<Type>(x + i, n - i);
  return SumLanes((a + b) + (c + d));
}

template <typename Type>
void Rows(const FoldArgs& args) {
  const auto* x = static_cast<const uint16_t*>(args.x);
  double* totals = static_cast<double*>(args.totals);
  for (int64_t r = 0; r < args.rows; ++r, x += args.step) {
    double total = args.done == 0 ? 0 : totals[r];
    for (int64_t i = 0; i < args.n; i += kBlock) {
      total += SumOf<Type>(x + i, args.n - i < kBlock ? args.n - i : kBlock);
    }
    totals[r] = total;
  }
}

// Adds rows, of whole vectors, to acc; four at a time, so that acc is read and
// written less often.
template <typename Type>
MICA_INLINE void AddRows(const uint16_t* x, int64_t step, int64_t rows,
                         int width, float* acc) {
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4, x += 4 * step) {
    for (int j = 0; j < width; j += kLanes) {
      const Vf low = Type::Read(x + j) + Type::Read(x + step + j);
      const Vf high =
          Type::Read(x + 2 * step + j) + Type::Read(x + 3 * step + j);
      Store(acc + j, Load(acc + j) + (low + high));
    }
  }
  for (; r < rows; ++r, x += step) {
    for (int j = 0; j < width; j += kLanes) {
      Store(acc + j, Load(acc + j) + Type::Read(x + j));
    }
  }
}

// The sums of n columns, less than a vector has lanes. Whole vectors are read
// as far as all of them lies below `end`: what is beside the columns is numbers
// of the same matrix.
template <typename Type>
MICA_INLINE Vf SumBeside(const uint16_t* x, const uint16_t* end, int64_t step,
                         int64_t rows, int64_t n) {
  const Vm is_ours = FirstLanes(n);
  const auto read = [&](int64_t r) MICA_INLINE_LAMBDA {
    return Select(is_ours, Type::Read(x + r * step), Zero());
  };
  int64_t whole = 0;
  if (end - x >= kLanes) {
    whole = step == 0 ? rows : (end - x - kLanes) / step + 1;
  }
  if (whole > rows) whole = rows;
  Vf even = Zero(), odd = Zero();
  int64_t r = 0;
  for (; r + 2 <= whole; r += 2) {
    even += read(r);
    odd += read(r + 1);
  }
  if (r < whole) even += read(r++);
  for (; r < rows; ++r) odd += ReadSome<Type>(x + r * step, n);
  return even + odd;
}

template <typename Type>
void Columns(const FoldArgs& args) {
  const auto* x = static_cast<const uint16_t*>(args.x);
  double* totals = static_cast<double*>(args.totals);
  if (args.done == 0) {
    for (int64_t c = 0; c < args.n; ++c) totals[c] = 0;
  }
  const uint16_t* const end = x + (args.rows - 1) * args.step + args.n;
  float acc[kWidth];
  for (int64_t r = 0; r < args.rows; r += kBlockRows) {
    const int64_t rows =
        args.rows - r < kBlockRows ? args.rows - r : kBlockRows;
    for (int64_t c = 0; c < args.n; c += kWidth) {
      const int width =
          static_cast<int>(args.n - c < kWidth ? args.n - c : kWidth);
      const uint16_t* tile = x + r * args.step + c;
      const int whole = width / kLanes * kLanes;
      for (int j = 0; j < width; ++j) acc[j] = 0;
      AddRows<Type>(tile, args.step, rows, whole, acc);
      if (whole < width) {
        const Vf rest =
            SumBeside<Type>(tile + whole, end, args.step, rows, width - whole);
        float some[kLanes];
        Store(some, rest);
        for (int j = whole; j < width; ++j) acc[j] = some[j - whole];
      }
      for (int j = 0; j < width; ++j) totals[c + j] += acc[j];
    }
  }
}

}  // namespace

void FillHalfSums(SimdTable& table) {
  const int bfloat = static_cast<int>(Half::kBFloat);
  const int half = static_cast<int>(Half::kHalf);
  table.half_sum_rows[bfloat] = Rows<BFloats>;
  table.half_sum_rows[half] = Rows<Halves>;
  table.half_sum_columns[bfloat] = Columns<BFloats>;
  table.half_sum_columns[half] = Columns<Halves>;
}

}  // namespace mica::cpu::MICA_SIMD_NAMESPACE
