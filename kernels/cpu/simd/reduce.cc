#include <cmath>
#include <cstdint>
#include <type_traits>

#include "kernels/cpu/simd/math.h"
#include "kernels/cpu/simd/parts.h"
#include "kernels/cpu/simd/reduce_row.h"
#include "kernels/cpu/simd/vec.h"

namespace mica::cpu::MICA_SIMD_NAMESPACE {
namespace {

// A float32 sum goes on in double after this many elements or rows, so that
// its error doesn't grow with the length.
constexpr int64_t kBlock = 2048;
constexpr int64_t kBlockRows = 128;

constexpr int64_t kFewColumns = 64;

// A sum begins at zero, as ATen's: that of negative zeros is a positive one.
template <typename T, template <typename> class Op>
MICA_INLINE T FromZero(T reduced) {
  return std::is_same_v<Op<T>, SumOp<T>> ? reduced + T{} : reduced;
}

// Lanes whose sum is that of n elements.
MICA_INLINE Vf SumVector(const float* x, int64_t n) {
  Vf a = Zero(), b = Zero(), c = Zero(), d = Zero();
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    a += Load(x + i);
    b += Load(x + i + kLanes);
    c += Load(x + i + 2 * kLanes);
    d += Load(x + i + 3 * kLanes);
  }
  for (; i + kLanes <= n; i += kLanes) a += Load(x + i);
  if (i < n) b += Load(x + i, FirstLanes(n - i));
  return (a + b) + (c + d);
}

// As ReduceRows<float, SumOp>; lanes of as many rows are summed at once.
void SumRows(const void* x, void* out, int64_t rows, int64_t n) {
  const float* in = static_cast<const float*>(x);
  float* to = static_cast<float*>(out);
  int64_t r = 0;
  for (; n <= kBlock && r + kLanes <= rows; r += kLanes) {
    Vf sums[kLanes];
    for (int i = 0; i < kLanes; ++i) sums[i] = SumVector(in + (r + i) * n, n);
    Transpose(sums);
    for (int half = kLanes / 2; half > 0; half /= 2) {
      for (int i = 0; i < half; ++i) sums[i] += sums[i + half];
    }
    Store(to + r, sums[0] + Zero());  // A sum of negative zeros is positive.
  }
  for (; r < rows; ++r) {
    const float* row = in + r * n;
    double sum = 0;
    for (int64_t i = 0; i < n; i += kBlock) {
      sum += SumLanes(SumVector(row + i, n - i < kBlock ? n - i : kBlock));
    }
    to[r] = static_cast<float>(sum);
  }
}

// The largest or smallest of n >= 1 elements; nan if there is one. Nans are
// looked for apart, so that nothing waits for that.
template <bool kLargest>
MICA_INLINE float ExtremeOf(const float* x, int64_t n) {
  const Vf none = Set(kLargest ? -INFINITY : INFINITY);
  const auto more = [](Vf a, Vf b) { return kLargest ? Max(a, b) : Min(a, b); };
  Vf a = none, b = none, c = none, d = none;
  Vm nans = IsNan(none);
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    const Vf e = Load(x + i), f = Load(x + i + kLanes);
    const Vf g = Load(x + i + 2 * kLanes), h = Load(x + i + 3 * kLanes);
    a = more(e, a);
    b = more(f, b);
    c = more(g, c);
    d = more(h, d);
    nans = static_cast<Vm>((nans | IsNan(e)) | (IsNan(f) | IsNan(g)));
    nans = static_cast<Vm>(nans | IsNan(h));
  }
  for (; i + kLanes <= n; i += kLanes) {
    const Vf e = Load(x + i);
    a = more(e, a);
    nans = static_cast<Vm>(nans | IsNan(e));
  }
  if (i < n) {
    const Vm tail = FirstLanes(n - i);
    const Vf e = Select(tail, Load(x + i, tail), none);
    b = more(e, b);
    nans = static_cast<Vm>(nans | IsNan(e));
  }
  if (HasLanes(nans)) return NAN;
  const Vf all = more(more(a, b), more(c, d));
  return kLargest ? MaxLanes(all) : -MaxLanes(Zero() - all);
}

template <bool kLargest>
void ExtremeRows(const void* x, void* out, int64_t rows, int64_t n) {
  const float* in = static_cast<const float*>(x);
  float* to = static_cast<float*>(out);
  for (int64_t r = 0; r < rows; ++r, in += n) {
    to[r] = ExtremeOf<kLargest>(in, n);
  }
}

// Four short rows at once, element by element: nothing is folded at their ends.
// Of whole numbers, whose order is nobody's concern. Returns how many are done.
template <typename T, template <typename> class Op>
int64_t ReduceFours(const T* in, T* to, int64_t rows, int64_t n) {
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) {
    const T *a = in + r * n, *b = a + n, *c = b + n, *d = c + n;
    T w = a[0], x = b[0], y = c[0], z = d[0];
    for (int64_t i = 1; i < n; ++i) {
      w = Op<T>::Do(w, a[i]);
      x = Op<T>::Do(x, b[i]);
      y = Op<T>::Do(y, c[i]);
      z = Op<T>::Do(z, d[i]);
    }
    to[r] = w;
    to[r + 1] = x;
    to[r + 2] = y;
    to[r + 3] = z;
  }
  return r;
}

template <typename T, template <typename> class Op>
void ReduceRows(const void* x, void* out, int64_t rows, int64_t n) {
  constexpr int64_t kShort = 40;
  const T* in = static_cast<const T*>(x);
  T* to = static_cast<T*>(out);
  int64_t r = 0;
  if (std::is_integral_v<T> && n > 0 && n <= kShort) {
    r = ReduceFours<T, Op>(in, to, rows, n);
    in += r * n;
  }
  for (; r < rows; ++r, in += n) {
    // Of an empty sum; the others don't get here.
    to[r] = n == 0 ? T{} : FromZero<T, Op>(ReduceSome<T, Op>(in, n));
  }
}

// Rows r0..r1 of `width` columns, one after the other, into acc.
template <typename T, template <typename> class Op>
MICA_INLINE void ReduceTile(const T* in, int64_t n, int64_t r0, int64_t r1,
                            int width, T* acc) {
  for (int j = 0; j < width; ++j) acc[j] = in[r0 * n + j];
  int64_t r = r0 + 1;
  // Four at a time: more would share a set of the cache where rows are as long
  // as a page.
  for (; std::is_same_v<Op<T>, SumOp<T>> && r + 4 <= r1; r += 4) {
    const T* a = in + r * n;
    const T* b = a + n;
    const T* c = b + n;
    const T* d = c + n;
    for (int j = 0; j < width; ++j) {
      acc[j] = acc[j] + a[j] + b[j] + c[j] + d[j];
    }
  }
  for (; r < r1; ++r) {
    const T* row = in + r * n;
    for (int j = 0; j < width; ++j) acc[j] = Op<T>::Do(acc[j], row[j]);
  }
}

template <typename T, template <typename> class Op>
void ReduceColumns(const void* x, void* out, int64_t rows, int64_t n);

// Few columns: as many rows as make 64 columns or so are one, and what these
// give is reduced in turn. `by` rows are one.
template <typename T, template <typename> class Op>
void ReduceFewColumns(const T* in, T* to, int64_t rows, int64_t n, int64_t by) {
  T some[2 * kFewColumns];
  const int64_t joined = rows / by;
  ReduceColumns<T, Op>(in, some, joined, by * n);
  for (int64_t c = 0; c < n; ++c) to[c] = some[c];
  for (int64_t k = 1; k < by; ++k) {
    for (int64_t c = 0; c < n; ++c) {
      to[c] = Op<T>::Do(to[c], some[k * n + c]);
    }
  }
  for (int64_t r = joined * by; r < rows; ++r) {
    for (int64_t c = 0; c < n; ++c) to[c] = Op<T>::Do(to[c], in[r * n + c]);
  }
}

template <typename T, template <typename> class Op>
void ReduceColumns(const void* x, void* out, int64_t rows, int64_t n) {
  constexpr bool kSums = std::is_same_v<Op<T>, SumOp<T>>;
  constexpr bool kCascade = kSums && std::is_same_v<T, float>;
  // Long pieces of rows, as the processor fetches them ahead; what isn't a sum
  // takes longer to compute, in registers.
  constexpr int kWidth = kSums ? 512 : kAccumulators<T, Op>;
  const T* in = static_cast<const T*>(x);
  T* to = static_cast<T*>(out);
  if (n > 0 && n < kFewColumns / 2 && rows >= kFewColumns) {
    return ReduceFewColumns<T, Op>(in, to, rows, n, kFewColumns / n);
  }
  T acc[kWidth] = {};
  for (int64_t c = 0; c < n; c += kWidth) {
    const int width = static_cast<int>(n - c < kWidth ? n - c : kWidth);
    if (rows > 0 && !(kCascade && rows > kBlockRows)) {
      if (width == kWidth) {
        ReduceTile<T, Op>(in + c, n, 0, rows, kWidth, acc);
      } else {
        ReduceTile<T, Op>(in + c, n, 0, rows, width, acc);
      }
    } else if (rows > 0) {
      double sum[kWidth];
      for (int j = 0; j < width; ++j) sum[j] = 0;
      for (int64_t r = 0; r < rows; r += kBlockRows) {
        const int64_t end = r + kBlockRows < rows ? r + kBlockRows : rows;
        ReduceTile<T, Op>(in + c, n, r, end, width, acc);
        for (int j = 0; j < width; ++j) sum[j] += acc[j];
      }
      for (int j = 0; j < width; ++j) acc[j] = static_cast<T>(sum[j]);
    }
    for (int j = 0; j < width; ++j) to[c + j] = FromZero<T, Op>(acc[j]);
  }
}

template <typename T>
void SetReductions(SimdTable& table, Elem elem) {
  const int e = static_cast<int>(elem);
  table.reduce_rows[static_cast<int>(Reduction::kSum)][e] =
      std::is_same_v<T, float> ? SumRows : ReduceRows<T, SumOp>;
  constexpr bool kIsFloat = std::is_same_v<T, float>;
  table.reduce_rows[static_cast<int>(Reduction::kMax)][e] =
      kIsFloat ? ExtremeRows<true> : ReduceRows<T, MaxOp>;
  table.reduce_rows[static_cast<int>(Reduction::kMin)][e] =
      kIsFloat ? ExtremeRows<false> : ReduceRows<T, MinOp>;
  table.reduce_columns[static_cast<int>(Reduction::kSum)][e] =
      ReduceColumns<T, SumOp>;
  table.reduce_columns[static_cast<int>(Reduction::kMax)][e] =
      ReduceColumns<T, MaxOp>;
  table.reduce_columns[static_cast<int>(Reduction::kMin)][e] =
      ReduceColumns<T, MinOp>;
}

void Softmax(const float* x, float* out, int64_t rows, int64_t n) {
  for (int64_t r = 0; r < rows; ++r, x += n, out += n) {
    const Vf max = Set(RowMax(x, n));
    Vf sum = Zero();
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      const Vf e = Exp(Load(x + i) - max);
      Store(out + i, e);
      sum += e;
    }
    const Vm tail = FirstLanes(n - i);
    if (i < n) {
      const Vf e = Select(tail, Exp(Load(x + i, tail) - max), Zero());
      Store(out + i, e, tail);
      sum += e;
    }
    const Vf scale = Set(1.0f / SumLanes(sum));
    for (i = 0; i + kLanes <= n; i += kLanes) {
      Store(out + i, Load(out + i) * scale);
    }
    if (i < n) Store(out + i, Load(out + i, tail) * scale, tail);
  }
}

void LogSoftmax(const float* x, float* out, int64_t rows, int64_t n) {
  for (int64_t r = 0; r < rows; ++r, x += n, out += n) {
    const float max = RowMax(x, n);
    const Vf max_v = Set(max);
    Vf sum = Zero();
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) sum += Exp(Load(x + i) - max_v);
    const Vm tail = FirstLanes(n - i);
    if (i < n) {
      sum += Select(tail, Exp(Load(x + i, tail) - max_v), Zero());
    }
    // Two subtractions: max + log(sum) in one number would round twice.
    const Vf log_sum = Set(std::log(SumLanes(sum)));
    for (i = 0; i + kLanes <= n; i += kLanes) {
      Store(out + i, Load(x + i) - max_v - log_sum);
    }
    if (i < n) Store(out + i, Load(x + i, tail) - max_v - log_sum, tail);
  }
}

// The logarithm of the sum of exponentials of each row.
void LogSumExp(const void* x, void* out, int64_t rows, int64_t n) {
  const float* in = static_cast<const float*>(x);
  float* to = static_cast<float*>(out);
  for (int64_t r = 0; r < rows; ++r, in += n) {
    const float most = RowMax(in, n);
    // Of infinite ones nothing can be subtracted.
    const float max = std::isinf(most) ? 0.0f : most;
    const Vf max_v = Set(max);
    Vf sum = Zero();
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) sum += Exp(Load(in + i) - max_v);
    if (i < n) {
      const Vm tail = FirstLanes(n - i);
      sum += Select(tail, Exp(Load(in + i, tail) - max_v), Zero());
    }
    to[r] = max + std::log(SumLanes(sum));
  }
}

}  // namespace

void FillReduce(SimdTable& table) {
  SetReductions<float>(table, Elem::kF32);
  SetReductions<double>(table, Elem::kF64);
  SetReductions<int64_t>(table, Elem::kI64);
  SetReductions<int32_t>(table, Elem::kI32);
  table.softmax = Softmax;
  table.log_softmax = LogSoftmax;
  table.log_sum_exp = LogSumExp;
}

}  // namespace mica::cpu::MICA_SIMD_NAMESPACE
