#include <cmath>
#include <cstdint>

#include "kernels/cpu/simd/math.h"
#include "kernels/cpu/simd/parts.h"
#include "kernels/cpu/simd/vec.h"

namespace mica::cpu::MICA_SIMD_NAMESPACE {
namespace {

// Operators of a gradient g, an input x and the constants.
struct ThresholdOp {
  static MICA_INLINE Vf Do(Vf g, Vf x, Vf low, Vf) {
    return Select(LessEqual(x, low), Zero(), g);
  }
};
struct HardtanhOp {
  static MICA_INLINE Vf Do(Vf g, Vf x, Vf low, Vf high) {
    const Vf above = Select(LessEqual(x, low), Zero(), g);
    return Select(LessEqual(high, x), Zero(), above);
  }
};
struct LeakyReluOp {
  static MICA_INLINE Vf Do(Vf g, Vf x, Vf low, Vf) {
    return Select(Less(Zero(), x), g, g * low);
  }
};
struct HardswishOp {
  static MICA_INLINE Vf Do(Vf g, Vf x, Vf, Vf) {
    const Vf middle = g * Fma(x, Set(1.0f / 3), Set(0.5f));
    const Vf upper = Select(Less(x, Set(3.0f)), middle, g);
    return Select(LessEqual(x, Set(-3.0f)), Zero(), upper);
  }
};
struct HardsigmoidOp {
  static MICA_INLINE Vf Do(Vf g, Vf x, Vf, Vf) {
    const Vf above = Select(Less(Set(-3.0f), x), g * Set(1.0f / 6), Zero());
    return Select(Less(x, Set(3.0f)), above, Zero());
  }
};
struct SiluOp {
  static MICA_INLINE Vf Do(Vf g, Vf x, Vf, Vf) {
    const Vf s = Sigmoid(x);
    return g * (s * Fma(x, Set(1.0f) - s, Set(1.0f)));
  }
};
struct SigmoidOp {
  static MICA_INLINE Vf Do(Vf g, Vf y, Vf, Vf) {
    return g * ((Set(1.0f) - y) * y);
  }
};
struct TanhOp {
  static MICA_INLINE Vf Do(Vf g, Vf y, Vf, Vf) {
    return g * Fnma(y, y, Set(1.0f));
  }
};

template <typename Op>
void GradientLoop(const float* g, const float* x, float* out, int64_t n,
                  float low, float high) {
  const Vf lo = Set(low), hi = Set(high);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    Store(out + i, Op::Do(Load(g + i), Load(x + i), lo, hi));
  }
  if (i == n) return;
  const Vm m = FirstLanes(n - i);
  Store(out + i, Op::Do(Load(g + i, m), Load(x + i, m), lo, hi), m);
}

template <typename Op>
void SetGradient(SimdTable& table, Gradient gradient) {
  table.training.gradient[static_cast<int>(gradient)] = GradientLoop<Op>;
}

// The window's tap at `row[first]`, seen from out columns begin..end.
template <int kStep>
MICA_INLINE void MaxTap(const float* row, int64_t step, int32_t place,
                        int64_t begin, int64_t end, float* best,
                        int32_t* places) {
  const int64_t by = kStep > 0 ? kStep : step;
  for (int64_t i = begin; i < end; ++i) {
    const float x = row[(i - begin) * by];
    const bool wins = (x > best[i]) | (x != x);
    best[i] = wins ? x : best[i];
    places[i] =
        wins ? place + static_cast<int32_t>((i - begin) * by) : places[i];
  }
}

int64_t CeilDiv(int64_t a, int64_t b) { return a <= 0 ? 0 : (a + b - 1) / b; }

void MaxPoolRow(const MaxPoolArgs& a, int64_t out_row) {
  float* best = a.out + out_row * a.out_cols;
  int32_t* places = a.scratch;
  const int64_t top = out_row * a.row_step - a.row_padding;
  bool is_first = true;
  for (int64_t i = 0; i < a.kernel_rows; ++i) {
    const int64_t row = top + i * a.row_dilation;
    if (row < 0 || row >= a.rows) continue;
    if (is_first) {
      // Each window starts with its first pixel, which any other beats.
      for (int64_t c = 0; c < a.out_cols; ++c) {
        int64_t col = c * a.col_step - a.col_padding;
        if (col < 0) col += CeilDiv(-col, a.col_dilation) * a.col_dilation;
        best[c] = -INFINITY;
        places[c] = static_cast<int32_t>(row * a.cols + col);
      }
      is_first = false;
    }
    for (int64_t j = 0; j < a.kernel_cols; ++j) {
      const int64_t shift = j * a.col_dilation - a.col_padding;
      int64_t begin = CeilDiv(-shift, a.col_step);
      int64_t end = CeilDiv(a.cols - shift, a.col_step);
      if (end > a.out_cols) end = a.out_cols;
      if (begin >= end) continue;
      const int64_t first = begin * a.col_step + shift;
      const float* from = a.x + row * a.cols + first;
      const auto place = static_cast<int32_t>(row * a.cols + first);
      if (a.col_step == 2) {
        MaxTap<2>(from, 2, place, begin, end, best, places);
      } else if (a.col_step == 1) {
        MaxTap<1>(from, 1, place, begin, end, best, places);
      } else {
        MaxTap<0>(from, a.col_step, place, begin, end, best, places);
      }
    }
  }
  int64_t* to = a.places + out_row * a.out_cols;
  for (int64_t c = 0; c < a.out_cols; ++c) to[c] = places[c];
}

// Windows of 2 by 2 that neither overlap nor leave the plane.
void MaxPoolQuarters(const MaxPoolArgs& a) {
  const auto cols = static_cast<int32_t>(a.cols);
  for (int64_t row = 0; row < a.out_rows; ++row) {
    const float* x = a.x + 2 * row * a.cols;
    const float* below = x + a.cols;
    float* out = a.out + row * a.out_cols;
    int64_t* places = a.places + row * a.out_cols;
    const auto first = static_cast<int32_t>(2 * row) * cols;
    MICA_IVDEP
    for (int32_t c = 0; c < a.out_cols; ++c) {
      const int32_t place = first + 2 * c;
      float best = x[2 * c];
      int32_t at = place;
      const auto meet = [&](float v, int32_t where) MICA_INLINE_LAMBDA {
        const bool wins = (v > best) | (v != v);
        best = wins ? v : best;
        at = wins ? where : at;
      };
      meet(x[2 * c + 1], place + 1);
      meet(below[2 * c], place + cols);
      meet(below[2 * c + 1], place + cols + 1);
      out[c] = best;
      places[c] = at;
    }
  }
}

bool HasQuarters(const MaxPoolArgs& a) {
  return a.kernel_rows == 2 && a.kernel_cols == 2 && a.row_step == 2 &&
         a.col_step == 2 && a.row_padding == 0 && a.col_padding == 0 &&
         a.row_dilation == 1 && a.col_dilation == 1 &&
         2 * a.out_rows <= a.rows && 2 * a.out_cols <= a.cols;
}

void MaxPool(const MaxPoolArgs& args) {
  if (HasQuarters(args)) return MaxPoolQuarters(args);
  for (int64_t row = 0; row < args.out_rows; ++row) MaxPoolRow(args, row);
}

}  // namespace

void FillTraining(SimdTable& table) {
  SetGradient<ThresholdOp>(table, Gradient::kThreshold);
  SetGradient<HardtanhOp>(table, Gradient::kHardtanh);
  SetGradient<LeakyReluOp>(table, Gradient::kLeakyRelu);
  SetGradient<HardswishOp>(table, Gradient::kHardswish);
  SetGradient<HardsigmoidOp>(table, Gradient::kHardsigmoid);
  SetGradient<SiluOp>(table, Gradient::kSilu);
  SetGradient<SigmoidOp>(table, Gradient::kSigmoid);
  SetGradient<TanhOp>(table, Gradient::kTanh);
  table.training.max_pool = MaxPool;
}

}  // namespace mica::cpu::MICA_SIMD_NAMESPACE
