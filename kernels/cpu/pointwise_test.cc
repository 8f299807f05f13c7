#include "kernels/cpu/pointwise.h"

#include <array>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/pointwise_tiles.h"
#include "kernels/cpu/simd_testing.h"

namespace mica::cpu {
namespace {

void AddRow(const PointwiseLoop&, const void* const* in, void* out, int64_t n) {
  const auto* a = static_cast<const float*>(in[0]);
  const auto* b = static_cast<const float*>(in[1]);
  for (int64_t i = 0; i < n; ++i) static_cast<float*>(out)[i] = a[i] + b[i];
}

struct Sum {
  KernelRequest request;
  std::vector<Source> sources;
  std::shared_ptr<PointwiseLoop> loop = std::make_shared<PointwiseLoop>();
  Prepared prepared;
};

// Prepares a + b in float32.
Sum PrepareSum(const TensorType& a, const TensorType& b, const TensorType& out,
               int num_threads) {
  Sum sum;
  sum.request.operands = {{.type = a}, {.type = b}};
  sum.request.results = {{.type = out}};
  sum.request.num_threads = num_threads;
  sum.sources = {{.arg = 0, .type = &sum.request.operands[0].type},
                 {.arg = 1, .type = &sum.request.operands[1].type}};
  sum.loop->row = AddRow;
  constexpr bool kKeeps[] = {false, false};
  EXPECT_EQ(LayOut(sum.request, sum.sources, Elem::kF32, kKeeps, *sum.loop),
            std::nullopt);
  sum.prepared = Finish(sum.request, sum.sources, sum.loop);
  return sum;
}

TEST(PointwiseTest, EqualLayoutsAreOneRowInPlace) {
  const TensorType type = {.dims = {4, 5, 6}, .strides = {1, 24, 4}};
  const Sum sum = PrepareSum(type, type, type, 1);
  EXPECT_TRUE(sum.loop->IsFlat());
  EXPECT_EQ(sum.loop->inner, 120);
  EXPECT_EQ(sum.prepared.inplace_operands, 3u);
}

TEST(PointwiseTest, ABroadcastRowIsReadAgain) {
  const Sum sum = PrepareSum({.dims = {4, 5, 100}}, {.dims = {100}},
                             {.dims = {4, 5, 100}}, 1);
  EXPECT_EQ(sum.loop->inner, 100);
  EXPECT_EQ(sum.loop->outer_sizes, (absl::InlinedVector<int64_t, 4>{20}));
  EXPECT_EQ(sum.prepared.inplace_operands, 1u);
}

TEST(PointwiseTest, ShortRowsAreOneRow) {
  const Sum sum =
      PrepareSum({.dims = {4, 5, 6}}, {.dims = {6}}, {.dims = {4, 5, 6}}, 1);
  EXPECT_EQ(sum.loop->inner, 120);
  EXPECT_EQ(sum.loop->short_row, 6);
  EXPECT_TRUE(sum.loop->outer_sizes.empty());
  EXPECT_EQ(sum.prepared.inplace_operands, 1u);
}

TEST(PointwiseTest, ShortRowsAreGathered) {
  for (const auto& [planes, rows, cols] : {std::array<int64_t, 3>{1, 700, 5},
                                           {3, 33, 64},
                                           {2, 1200, 1},
                                           {1, 4000, 16},
                                           {3, 50, 20},
                                           {2, 40, 130},
                                           {5, 7, 9}}) {
    // A whole one; a row, a column and an element again and again; parts.
    const Dims kinds[] = {{rows * cols, cols, 1}, {cols, 0, 1},
                          {rows, 1, 0},           {1, 0, 0},
                          {0, 3 * cols, 2},       {0, 1, rows}};
    for (const Dims& a : kinds) {
      for (const Dims& b : kinds) {
        const Dims dims = {planes, rows, cols};
        const Sum sum =
            PrepareSum({.dims = dims, .strides = a},
                       {.dims = dims, .strides = b}, {.dims = dims}, 3);
        // The row function takes arrays only.
        if (sum.loop->inputs[1].is_single) continue;
        const auto x = RandomFloats(planes * rows * cols * 4, 1);
        const auto y = RandomFloats(planes * rows * cols * 4, 2);
        std::vector<float> out(planes * rows * cols);
        void* args[] = {const_cast<float*>(x.data()),
                        const_cast<float*>(y.data()), out.data()};
        LaunchContext context;
        if (sum.loop->inputs[0].is_single) continue;
        ASSERT_TRUE(
            sum.prepared.launch(sum.prepared.state.get(), args, context));
        for (int64_t i = 0; i < planes * rows * cols; ++i) {
          const int64_t c = i % cols, r = i / cols % rows, p = i / cols / rows;
          ASSERT_EQ(out[i], x[p * a[0] + r * a[1] + c * a[2]] +
                                y[p * b[0] + r * b[1] + c * b[2]]);
        }
      }
    }
  }
}

TEST(PointwiseTest, ThreadsShareTheRows) {
  const int64_t rows = 300, cols = 400;
  // Column-major, so that each row is gathered; and one that is broadcast.
  const TensorType a = {.dims = {3, 100, cols}, .strides = {100, 1, rows}};
  const TensorType b = {.dims = {100, 1}};
  const Sum sum = PrepareSum(a, b, {.dims = {3, 100, cols}}, 3);
  EXPECT_EQ(sum.loop->num_threads, 3);
  const auto x = RandomFloats(rows * cols, 1), y = RandomFloats(100, 2);
  std::vector<float> out(rows * cols);
  void* args[] = {const_cast<float*>(x.data()), const_cast<float*>(y.data()),
                  out.data()};
  // A row of one b is gathered too: this row function takes arrays only.
  sum.loop->inputs[1].is_gathered = true;
  LaunchContext context;
  ASSERT_TRUE(sum.prepared.launch(sum.prepared.state.get(), args, context));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      ASSERT_EQ(out[r * cols + c], x[r + c * rows] + y[r % 100]);
    }
  }
}

TEST(PointwiseTest, OperandsThatLieTheOtherWayRoundGoByTiles) {
  const TensorType turned = {.dims = {70, 300}, .strides = {1, 70}};
  const TensorType plain = {.dims = {70, 300}};
  const Sum sum = PrepareSum(turned, plain, plain, 1);
  EXPECT_EQ(sum.prepared.launch, TiledLaunch(*sum.loop));
  EXPECT_NE(TiledLaunch(*sum.loop), nullptr);
  EXPECT_EQ(TiledLaunch(*PrepareSum(plain, plain, plain, 1).loop), nullptr);
  EXPECT_EQ(TiledLaunch(*PrepareSum(turned, turned, turned, 1).loop), nullptr);
}

TEST(PointwiseTest, AResultWithGapsIsScattered) {
  constexpr int64_t kRows = 5, kCols = 700;
  const TensorType gaps = {.dims = {kRows, kCols}, .strides = {3000, 3}};
  const TensorType plain = {.dims = {kRows, kCols}};
  for (const TensorType& a : {gaps, plain}) {
    const Sum sum = PrepareSum(a, plain, gaps, 1);
    EXPECT_FALSE(sum.loop->IsFlat());
    EXPECT_EQ(sum.prepared.inplace_operands, a == gaps ? 1u : 0u);
    auto x = RandomFloats(kRows * 3000, 1);
    const auto was = x, y = RandomFloats(kRows * kCols, 2);
    std::vector<float> other(kRows * 3000, 7);
    // In place if it may be.
    std::vector<float>& out = a == gaps ? x : other;
    const std::vector<float> before = out;
    void* args[] = {x.data(), const_cast<float*>(y.data()), out.data()};
    LaunchContext context;
    ASSERT_TRUE(sum.prepared.launch(sum.prepared.state.get(), args, context));
    const Dims strides = a.EffectiveStrides();
    for (int64_t i = 0; i < kRows * 3000; ++i) {
      const int64_t r = i / 3000, c = i % 3000 / 3;
      const bool is_element = i % 3000 % 3 == 0 && c < kCols;
      ASSERT_EQ(out[i], is_element ? was[r * strides[0] + c * strides[1]] +
                                         y[r * kCols + c]
                                   : before[i]);
    }
  }
}

TEST(PointwiseTest, EmptyResultsRunNothing) {
  const TensorType empty = {.dims = {0, 3}};
  const Sum sum = PrepareSum(empty, {.dims = {3}}, empty, 2);
  float value = 1;
  void* args[] = {&value, &value, &value};
  LaunchContext context;
  EXPECT_TRUE(sum.prepared.launch(sum.prepared.state.get(), args, context));
  EXPECT_EQ(value, 1);
}

}  // namespace
}  // namespace mica::cpu
