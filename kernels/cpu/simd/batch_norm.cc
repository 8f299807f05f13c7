#include <cmath>
#include <cstdint>

#include "kernels/cpu/simd/parts.h"
#include "kernels/cpu/simd/vec.h"

// Batch norm in training. Sums are kept in double from piece to piece, so that
// their error doesn't grow with the batch.

namespace mica::cpu::MICA_SIMD_NAMESPACE {
namespace {

// Elements, or rows, that are summed in float32.
constexpr int64_t kPiece = 2048;
constexpr int64_t kRows = 64;

// Visits pieces begin..end of a line of n: full(i) and tail(i, mask).
template <typename Full, typename Tail>
MICA_INLINE void ForLine(int64_t n, Full full, Tail tail) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) full(i);
  if (i < n) tail(i, FirstLanes(n - i));
}

MICA_INLINE double SumLine(const float* x, int64_t n) {
  double sum = 0;
  for (int64_t at = 0; at < n; at += kPiece) {
    const int64_t count = n - at < kPiece ? n - at : kPiece;
    const float* p = x + at;
    Vf a = Zero(), b = Zero();
    int64_t i = 0;
    for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
      a += Load(p + i);
      b += Load(p + i + kLanes);
    }
    ForLine(
        count - i, [&](int64_t j) { a += Load(p + i + j); },
        [&](int64_t j, Vm m) { b += Load(p + i + j, m); });
    sum += SumLanes(a + b);
  }
  return sum;
}

// Sum of the squared distances from `mean`.
MICA_INLINE double SquaresOfLine(const float* x, float mean, int64_t n) {
  const Vf mu = Set(mean);
  double sum = 0;
  for (int64_t at = 0; at < n; at += kPiece) {
    const int64_t count = n - at < kPiece ? n - at : kPiece;
    const float* p = x + at;
    Vf a = Zero(), b = Zero();
    int64_t i = 0;
    for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
      const Vf u = Load(p + i) - mu, v = Load(p + i + kLanes) - mu;
      a = Fma(u, u, a);
      b = Fma(v, v, b);
    }
    ForLine(
        count - i,
        [&](int64_t j) {
          const Vf d = Load(p + i + j) - mu;
          a = Fma(d, d, a);
        },
        [&](int64_t j, Vm m) {
          const Vf d = Select(m, Load(p + i + j, m) - mu, Zero());
          b = Fma(d, d, b);
        });
    sum += SumLanes(a + b);
  }
  return sum;
}

// y = (x - mean) * scale + bias.
MICA_INLINE void NormaliseLine(const float* x, float mean, float scale,
                               float bias, float* y, int64_t n) {
  const Vf mu = Set(mean), s = Set(scale), b = Set(bias);
  ForLine(
      n, [&](int64_t i) { Store(y + i, Fma(Load(x + i) - mu, s, b)); },
      [&](int64_t i, Vm m) {
        Store(y + i, Fma(Load(x + i, m) - mu, s, b), m);
      });
}

double Rstd(double variance, double eps) {
  return variance == 0 && eps == 0 ? 0 : 1 / std::sqrt(variance + eps);
}

// Writes the statistics of channel c; `squares` around `mean`.
void KeepStatistics(const BatchNormArgs& a, int64_t c, double mean,
                    double squares) {
  const double count = static_cast<double>(a.images * a.pixels);
  const auto moved = [&](float old, double now) {
    return static_cast<float>(a.momentum * now + (1 - a.momentum) * old);
  };
  if (a.mean != nullptr) a.mean[c] = static_cast<float>(mean);
  if (a.rstd != nullptr) {
    a.rstd[c] = static_cast<float>(Rstd(squares / count, a.eps));
  }
  if (a.new_mean != nullptr) a.new_mean[c] = moved(a.old_mean[c], mean);
  if (a.new_variance != nullptr) {
    a.new_variance[c] = moved(a.old_variance[c], squares / (count - 1));
  }
}

MICA_INLINE float Or(const float* list, int64_t c, float otherwise) {
  return list != nullptr ? list[c] : otherwise;
}

// Pixels are last: a channel at a time, which the cache may hold.
void NormalisePlanes(const BatchNormArgs& a, int64_t begin, int64_t end) {
  const double count = static_cast<double>(a.images * a.pixels);
  for (int64_t c = begin; c < end; ++c) {
    const float* x = a.x + c * a.x_layout.channel_stride;
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < a.images; ++i) {
      sum += SumLine(x + i * a.x_layout.image_stride, a.pixels);
    }
    const double mean = sum / count;
    for (int64_t i = 0; i < a.images; ++i) {
      squares += SquaresOfLine(x + i * a.x_layout.image_stride,
                               static_cast<float>(mean), a.pixels);
    }
    // The mean was rounded: its error counts in each distance.
    const double error = mean - static_cast<float>(mean);
    squares -= count * error * error;
    if (squares < 0) squares = 0;
    KeepStatistics(a, c, mean, squares);
    if (a.y == nullptr) continue;
    const auto scale =
        static_cast<float>(Rstd(squares / count, a.eps) * Or(a.weight, c, 1));
    const float bias = Or(a.bias, c, 0);
    float* y = a.y + c * a.y_layout.channel_stride;
    for (int64_t i = 0; i < a.images; ++i) {
      NormaliseLine(x + i * a.x_layout.image_stride, static_cast<float>(mean),
                    scale, bias, y + i * a.y_layout.image_stride, a.pixels);
    }
  }
}

// Calls visit(image, pixel) for pieces of kRows rows and flush() after each.
template <typename Visit, typename Flush>
MICA_INLINE void ForRows(int64_t images, int64_t pixels, Visit visit,
                         Flush flush) {
  int64_t rows = 0;
  for (int64_t i = 0; i < images; ++i) {
    for (int64_t p = 0; p < pixels; ++p) {
      visit(i, p);
      if (++rows == kRows) {
        flush();
        rows = 0;
      }
    }
  }
  flush();
}

// Adds a vector's lanes to doubles, and clears it.
MICA_INLINE void Spill(Vf& sum, double* to) {
  alignas(64) float lanes[kLanes];
  Store(lanes, sum);
  for (int j = 0; j < kLanes; ++j) to[j] += lanes[j];
  sum = Zero();
}

// Channels are last: a vector of channels at a time.
void NormaliseColumns(const BatchNormArgs& a, int64_t begin, int64_t end) {
  const double count = static_cast<double>(a.images * a.pixels);
  const ChannelLayout& l = a.x_layout;
  for (int64_t c = begin; c < end; c += kLanes) {
    const int64_t width = end - c < kLanes ? end - c : kLanes;
    const Vm m = FirstLanes(width);
    const float* x = a.x + c;
    double sums[kLanes] = {}, squares[kLanes] = {};
    alignas(64) float means[kLanes] = {}, scales[kLanes] = {};
    alignas(64) float biases[kLanes] = {};
    Vf part = Zero();
    ForRows(
        a.images, a.pixels,
        [&](int64_t i, int64_t p) {
          part += Load(x + i * l.image_stride + p * l.pixel_stride, m);
        },
        [&] { Spill(part, sums); });
    for (int j = 0; j < kLanes; ++j) {
      means[j] = static_cast<float>(sums[j] / count);
    }
    const Vf mean = Load(means);
    ForRows(
        a.images, a.pixels,
        [&](int64_t i, int64_t p) {
          const Vf d =
              Load(x + i * l.image_stride + p * l.pixel_stride, m) - mean;
          part = Fma(d, d, part);
        },
        [&] { Spill(part, squares); });
    for (int64_t j = 0; j < width; ++j) {
      const double error = sums[j] / count - means[j];
      squares[j] -= count * error * error;
      if (squares[j] < 0) squares[j] = 0;
      KeepStatistics(a, c + j, sums[j] / count, squares[j]);
      scales[j] = static_cast<float>(Rstd(squares[j] / count, a.eps) *
                                     Or(a.weight, c + j, 1));
      biases[j] = Or(a.bias, c + j, 0);
    }
    if (a.y == nullptr) continue;
    const Vf scale = Load(scales), bias = Load(biases);
    ForRows(
        a.images, a.pixels,
        [&](int64_t i, int64_t p) {
          const Vf d =
              Load(x + i * l.image_stride + p * l.pixel_stride, m) - mean;
          Store(a.y + c + i * a.y_layout.image_stride +
                    p * a.y_layout.pixel_stride,
                Fma(d, scale, bias), m);
        },
        [] {});
  }
}

void BatchNorm(const BatchNormArgs& args, int64_t begin, int64_t end) {
  if (args.innermost == Innermost::kPixels) {
    NormalisePlanes(args, begin, end);
  } else {
    NormaliseColumns(args, begin, end);
  }
}

// Sums of g and of g * (x - mean).
struct Dots {
  double sum = 0, dot = 0;
};

MICA_INLINE void AddLine(const float* g, const float* x, float mean, int64_t n,
                         Dots& dots) {
  const Vf mu = Set(mean);
  for (int64_t at = 0; at < n; at += kPiece) {
    const int64_t count = n - at < kPiece ? n - at : kPiece;
    const float *gp = g + at, *xp = x + at;
    Vf sum = Zero(), dot = Zero(), sum2 = Zero(), dot2 = Zero();
    int64_t i = 0;
    for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
      const Vf u = Load(gp + i), v = Load(gp + i + kLanes);
      sum += u;
      sum2 += v;
      dot = Fma(u, Load(xp + i) - mu, dot);
      dot2 = Fma(v, Load(xp + i + kLanes) - mu, dot2);
    }
    ForLine(
        count - i,
        [&](int64_t j) {
          const Vf u = Load(gp + i + j);
          sum += u;
          dot = Fma(u, Load(xp + i + j) - mu, dot);
        },
        [&](int64_t j, Vm m) {
          const Vf u = Load(gp + i + j, m);
          sum2 += u;
          dot2 = Fma(u, Load(xp + i + j, m) - mu, dot2);
        });
    dots.sum += SumLanes(sum + sum2);
    dots.dot += SumLanes(dot + dot2);
  }
}

// grad_x = (g - shift - (x - mean) * slope) * scale.
MICA_INLINE void FinishLine(const float* g, const float* x, float mean,
                            float shift, float slope, float scale, float* out,
                            int64_t n) {
  const Vf mu = Set(mean), d = Set(shift), k = Set(slope), s = Set(scale);
  ForLine(
      n,
      [&](int64_t i) {
        Store(out + i, Fnma(Load(x + i) - mu, k, Load(g + i) - d) * s);
      },
      [&](int64_t i, Vm m) {
        Store(out + i, Fnma(Load(x + i, m) - mu, k, Load(g + i, m) - d) * s, m);
      });
}

// What the gradient of the input is made of.
struct Line {
  float shift = 0, slope = 0, scale = 0;
};

Line Finished(const BatchNormBackwardArgs& a, int64_t c, const Dots& dots) {
  const double count = static_cast<double>(a.images * a.pixels);
  const double rstd = a.rstd[c];
  if (a.grad_weight != nullptr) {
    a.grad_weight[c] = static_cast<float>(dots.dot * rstd);
  }
  if (a.grad_bias != nullptr) a.grad_bias[c] = static_cast<float>(dots.sum);
  return {.shift = static_cast<float>(dots.sum / count),
          .slope = static_cast<float>(dots.dot * rstd * rstd / count),
          .scale = static_cast<float>(rstd * Or(a.weight, c, 1))};
}

void BackwardPlanes(const BatchNormBackwardArgs& a, int64_t begin,
                    int64_t end) {
  for (int64_t c = begin; c < end; ++c) {
    const float* g = a.grad + c * a.grad_layout.channel_stride;
    const float* x = a.x + c * a.x_layout.channel_stride;
    Dots dots;
    for (int64_t i = 0; i < a.images; ++i) {
      AddLine(g + i * a.grad_layout.image_stride,
              x + i * a.x_layout.image_stride, a.mean[c], a.pixels, dots);
    }
    const Line line = Finished(a, c, dots);
    if (a.grad_x == nullptr) continue;
    float* out = a.grad_x + c * a.grad_x_layout.channel_stride;
    for (int64_t i = 0; i < a.images; ++i) {
      FinishLine(g + i * a.grad_layout.image_stride,
                 x + i * a.x_layout.image_stride, a.mean[c], line.shift,
                 line.slope, line.scale, out + i * a.grad_x_layout.image_stride,
                 a.pixels);
    }
  }
}

MICA_INLINE int64_t At(const ChannelLayout& layout, int64_t i, int64_t p) {
  return i * layout.image_stride + p * layout.pixel_stride;
}

void BackwardColumns(const BatchNormBackwardArgs& a, int64_t begin,
                     int64_t end) {
  for (int64_t c = begin; c < end; c += kLanes) {
    const int64_t width = end - c < kLanes ? end - c : kLanes;
    const Vm m = FirstLanes(width);
    const float *g = a.grad + c, *x = a.x + c;
    const Vf mean = Load(a.mean + c, m);
    double sums[kLanes] = {}, products[kLanes] = {};
    Vf sum = Zero(), dot = Zero();
    ForRows(
        a.images, a.pixels,
        [&](int64_t i, int64_t p) {
          const Vf u = Load(g + At(a.grad_layout, i, p), m);
          sum += u;
          dot = Fma(u, Load(x + At(a.x_layout, i, p), m) - mean, dot);
        },
        [&] {
          Spill(sum, sums);
          Spill(dot, products);
        });
    alignas(64) float shifts[kLanes] = {}, slopes[kLanes] = {};
    alignas(64) float scales[kLanes] = {};
    for (int64_t j = 0; j < width; ++j) {
      const Line line =
          Finished(a, c + j, {.sum = sums[j], .dot = products[j]});
      shifts[j] = line.shift;
      slopes[j] = line.slope;
      scales[j] = line.scale;
    }
    if (a.grad_x == nullptr) continue;
    const Vf shift = Load(shifts), slope = Load(slopes), scale = Load(scales);
    ForRows(
        a.images, a.pixels,
        [&](int64_t i, int64_t p) {
          const Vf d = Load(x + At(a.x_layout, i, p), m) - mean;
          const Vf u = Load(g + At(a.grad_layout, i, p), m) - shift;
          Store(a.grad_x + c + At(a.grad_x_layout, i, p),
                Fnma(d, slope, u) * scale, m);
        },
        [] {});
  }
}

void BatchNormBackward(const BatchNormBackwardArgs& args, int64_t begin,
                       int64_t end) {
  if (args.innermost == Innermost::kPixels) {
    BackwardPlanes(args, begin, end);
  } else {
    BackwardColumns(args, begin, end);
  }
}

}  // namespace

void FillBatchNorm(SimdTable& table) {
  table.training.batch_norm = BatchNorm;
  table.training.batch_norm_backward = BatchNormBackward;
}

}  // namespace mica::cpu::MICA_SIMD_NAMESPACE
