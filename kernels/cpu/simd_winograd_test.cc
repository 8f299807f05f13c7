#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/cpu/simd_table.h"
#include "kernels/cpu/simd_testing.h"

namespace mica::cpu {
namespace {

struct Shape {
  int64_t images, rows, cols, channels, columns;
  int64_t row_padding = 1, col_padding = 1;

  int64_t out_rows() const { return rows + 2 * row_padding - 2; }
  int64_t out_cols() const { return cols + 2 * col_padding - 2; }
  int64_t pixels() const { return images * out_rows() * out_cols(); }
  int64_t patches() const {
    return images * ((out_rows() + 1) / 2) * ((out_cols() + 1) / 2);
  }
  std::string ToString() const {
    return absl::StrCat(images, "x", rows, "x", cols, "x", channels, " to ",
                        columns, " padded ", row_padding, ",", col_padding);
  }
};

// A layer with all its operands, dense.
struct Layer {
  explicit Layer(const Shape& shape)
      : shape(shape),
        x(RandomFloats(shape.images * shape.rows * shape.cols * shape.channels,
                       1)),
        weight(RandomFloats(shape.columns * shape.channels * 9, 2)),
        bias(RandomFloats(shape.columns, 3)),
        residual(RandomFloats(shape.pixels() * shape.columns, 4)) {}

  float& X(int64_t image, int64_t row, int64_t col, int64_t channel) {
    return x[((image * shape.rows + row) * shape.cols + col) * shape.channels +
             channel];
  }

  // In double precision, without an activation. The padding takes no part.
  std::vector<double> Exact() const {
    std::vector<double> sums;
    for (int64_t n = 0; n < shape.images; ++n) {
      for (int64_t r = 0; r < shape.out_rows(); ++r) {
        for (int64_t q = 0; q < shape.out_cols(); ++q) {
          for (int64_t k = 0; k < shape.columns; ++k) {
            sums.push_back(ExactOne(n, r, q, k) + bias[k] +
                           residual[sums.size()]);
          }
        }
      }
    }
    return sums;
  }

  Shape shape;
  std::vector<float> x, weight, bias, residual;

 private:
  double ExactOne(int64_t n, int64_t r, int64_t q, int64_t k) const {
    double sum = 0;
    for (int64_t tap = 0; tap < 9; ++tap) {
      const int64_t row = r + tap / 3 - shape.row_padding;
      const int64_t col = q + tap % 3 - shape.col_padding;
      if (row < 0 || row >= shape.rows || col < 0 || col >= shape.cols) {
        continue;
      }
      const float* pixel =
          x.data() +
          ((n * shape.rows + row) * shape.cols + col) * shape.channels;
      for (int64_t c = 0; c < shape.channels; ++c) {
        sum += static_cast<double>(pixel[c]) *
               weight[(k * shape.channels + c) * 9 + tap];
      }
    }
    return sum;
  }
};

class WinogradTest : public SimdTest {
 protected:
  // As it is called: with `activation`, in place of the residual.
  std::vector<float> Run(const Layer& layer, Activation activation,
                         int64_t block = 0) const {
    const Shape& s = layer.shape;
    std::vector<float> out = layer.residual;
    WinogradArgs args = {.conv = Plain(layer, activation, out)};
    const auto plain = PackPlain(layer);
    std::vector<float> weight(16 * table().PackedFloats(s.columns, s.channels));
    table().pack_winograd(plain.data(), s.columns, s.channels, weight.data());
    const std::vector<float> zeros(s.channels);
    args.conv.zeros = zeros.data();
    args.conv.weight = plain.data();
    args.weight = weight.data();
    args.block =
        block > 0 ? block : table().winograd_block(s.channels, s.patches());
    std::vector<float> scratch(
        table().winograd_scratch_bytes(args.conv.window, args.block) /
        sizeof(float));
    args.conv.scratch = scratch.data();
    // In two parts, as two threads do it.
    args.end = s.patches() / 3;
    table().winograd(args);
    args.begin = args.end;
    args.end = s.patches();
    table().winograd(args);
    return out;
  }

  std::vector<float> RunPlain(const Layer& layer, Activation activation) const {
    std::vector<float> out = layer.residual;
    ConvolutionArgs args = Plain(layer, activation, out);
    const auto plain = PackPlain(layer);
    const std::vector<float> zeros(layer.shape.channels);
    std::vector<float> scratch(table().convolution_scratch_bytes(args.window) /
                               sizeof(float));
    args.weight = plain.data();
    args.zeros = zeros.data();
    args.scratch = scratch.data();
    table().convolution(args);
    return out;
  }

 private:
  std::vector<float> PackPlain(const Layer& layer) const {
    const Shape& s = layer.shape;
    std::vector<float> plain(table().PackedFloats(s.columns, 9 * s.channels));
    table().pack_convolution(layer.weight.data(), s.columns, s.channels, 9,
                             plain.data());
    return plain;
  }

  ConvolutionArgs Plain(const Layer& layer, Activation activation,
                        std::vector<float>& out) const {
    const Shape& s = layer.shape;
    return {.window = {.x = layer.x.data(),
                       .x_image_stride = s.rows * s.cols * s.channels,
                       .x_row_stride = s.cols * s.channels,
                       .x_col_stride = s.channels,
                       .in_rows = s.rows,
                       .in_cols = s.cols,
                       .out_rows = s.out_rows(),
                       .out_cols = s.out_cols(),
                       .kernel_rows = 3,
                       .kernel_cols = 3,
                       .row_padding = s.row_padding,
                       .col_padding = s.col_padding,
                       .channels = s.channels,
                       .out = out.data(),
                       .out_pixel_stride = s.columns,
                       .end = s.pixels()},
            .columns = s.columns,
            .bias = layer.bias.data(),
            .residual = out.data(),
            .residual_pixel_stride = s.columns,
            .activation = activation};
  }
};

TEST_P(WinogradTest, EveryShapeGivesTheSums) {
  for (const Shape& shape : std::vector<Shape>{{1, 1, 1, 1, 1},
                                               {1, 4, 4, 16, 32},
                                               {2, 7, 7, 40, 70},
                                               {1, 3, 9, 33, 17, 0, 1},
                                               {3, 8, 5, 17, 31, 1, 0},
                                               {1, 5, 6, 64, 8, 2, 2},
                                               {2, 6, 6, 130, 33, 0, 0},
                                               {1, 1, 40, 5, 48, 1, 3},
                                               {5, 2, 3, 20, 15}}) {
    const Layer layer(shape);
    const std::vector<double> want = layer.Exact();
    for (const int64_t block : {0, 1, 5}) {
      const auto got = Run(layer, Activation::kNone, block);
      const auto positive = Run(layer, Activation::kRelu, block);
      const auto bounded = Run(layer, Activation::kRelu6, block);
      const auto sigmoid = Run(layer, Activation::kSigmoid, block);
      for (size_t i = 0; i < want.size(); ++i) {
        ASSERT_NEAR(got[i], want[i], 1e-6 * (10 + shape.channels))
            << shape.ToString() << " in blocks of " << block << " at " << i;
        ASSERT_EQ(positive[i], std::fmax(got[i], 0.0f));
        ASSERT_EQ(bounded[i], std::fmin(std::fmax(got[i], 0.0f), 6.0f));
        ASSERT_NEAR(sigmoid[i], 1 / (1 + std::exp(-got[i])), 1e-6);
      }
    }
  }
}

TEST_P(WinogradTest, ErrorStaysNearThePlainOnes) {
  const Layer layer({1, 14, 14, 256, 32});
  const std::vector<double> exact = layer.Exact();
  auto error = [&exact](const std::vector<float>& got) {
    double sum = 0;
    for (size_t i = 0; i < exact.size(); ++i) {
      sum += (got[i] - exact[i]) * (got[i] - exact[i]);
    }
    return std::sqrt(sum / static_cast<double>(exact.size()));
  };
  EXPECT_LE(error(Run(layer, Activation::kNone)),
            2 * error(RunPlain(layer, Activation::kNone)));
}

// Of one kind, and near each other where they are finite; `size` is that of
// the terms that are summed.
void ExpectAlike(const std::vector<float>& got, const std::vector<float>& want,
                 const std::string& what, double size = 10) {
  for (size_t i = 0; i < want.size(); ++i) {
    if (std::isfinite(want[i])) {
      ASSERT_NEAR(got[i], want[i], 1e-6 * size + 1e-5 * std::fabs(want[i]))
          << what << " at " << i;
    } else if (std::isnan(want[i])) {
      ASSERT_TRUE(std::isnan(got[i])) << what << " at " << i;
    } else {
      ASSERT_EQ(got[i], want[i]) << what << " at " << i;
    }
  }
}

TEST_P(WinogradTest, WhatIsNotFiniteStaysInItsWindows) {
  for (const float value : {kInf, -kInf, kNan}) {
    for (const int64_t place : {0, 3, 4, 8}) {
      Layer layer({2, 9, 9, 24, 40});
      layer.X(0, place, 8 - place, 23) = value;
      layer.X(1, place, place, 0) = value;
      layer.X(1, 8, place, 7) = -value;
      for (const Activation activation :
           {Activation::kNone, Activation::kRelu, Activation::kSilu}) {
        ExpectAlike(Run(layer, activation), RunPlain(layer, activation),
                    absl::StrCat(value, " at ", place));
      }
    }
  }
}

TEST_P(WinogradTest, NothingFiniteAtAll) {
  for (const float value : {kInf, kNan}) {
    Layer layer({2, 7, 9, 24, 40});
    for (float& x : layer.x) x = value;
    ExpectAlike(Run(layer, Activation::kNone),
                RunPlain(layer, Activation::kNone), "all");
  }
}

TEST_P(WinogradTest, SumsOfLargeNumbersDoNotOverflow) {
  Layer layer({1, 8, 8, 16, 33});
  for (float& w : layer.weight) w *= 1e-3f;
  for (int64_t c = 0; c < 16; ++c) {
    layer.X(0, 3, 3, c) = 3e38f;
    layer.X(0, 3, 4, c) = c % 2 ? 3e38f : -3e38f;
    layer.X(0, 4, 3, c) = -3e38f;
  }
  const auto got = Run(layer, Activation::kNone);
  for (const float y : got) ASSERT_TRUE(std::isfinite(y));
  ExpectAlike(got, RunPlain(layer, Activation::kNone), "large x", 3e35);
}

TEST_P(WinogradTest, LargeWeightsDoNotOverflow) {
  Layer layer({1, 8, 8, 16, 33});
  for (float& x : layer.x) x *= 1e-3f;
  for (int64_t tap = 0; tap < 9; ++tap) layer.weight[tap] = 3e38f;
  layer.weight[9 * 16 * 20 + 4] = kInf;  // The middle tap.
  ExpectAlike(Run(layer, Activation::kNone), RunPlain(layer, Activation::kNone),
              "large weights");
}

MICA_INSTANTIATE_SIMD_TEST(WinogradTest);

}  // namespace
}  // namespace mica::cpu
