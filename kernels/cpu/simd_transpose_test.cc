#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/simd_table.h"
#include "kernels/cpu/simd_testing.h"

namespace mica::cpu {
namespace {

using TransposeTest = SimdTest;

constexpr unsigned char kUntouched = 0xee;

std::vector<unsigned char> Bytes(int64_t count) {
  std::vector<unsigned char> bytes(count);
  uint32_t state = 1;
  for (unsigned char& byte : bytes) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<unsigned char>(state >> 24);
  }
  return bytes;
}

// With so many elements between rows.
void CheckTranspose(TransposeFn transpose, int64_t bytes, int64_t rows,
                    int64_t cols, int64_t from_gap, int64_t to_gap) {
  const int64_t from_stride = cols + from_gap, to_stride = rows + to_gap;
  const auto from = Bytes(rows * from_stride * bytes);
  std::vector<unsigned char> to(cols * to_stride * bytes, kUntouched);
  auto wanted = to;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) {
      std::memcpy(&wanted[(c * to_stride + r) * bytes],
                  &from[(r * from_stride + c) * bytes], bytes);
    }
  }
  transpose(from.data(), from_stride, to.data(), to_stride, rows, cols);
  EXPECT_EQ(to, wanted) << bytes << " bytes, " << rows << " x " << cols;
}

TEST_P(TransposeTest, MovesElementsOfAnySizeBitForBitAndNothingElse) {
  const std::pair<int64_t, TransposeFn> sizes[] = {{1, table().transpose8},
                                                   {2, table().transpose16},
                                                   {4, table().transpose32},
                                                   {8, table().transpose64},
                                                   {16, table().transpose128}};
  for (const auto& [bytes, transpose] : sizes) {
    for (int64_t rows : {0, 1, 2, 3, 4, 8, 15, 33, 64, 130}) {
      for (int64_t cols : {0, 1, 2, 3, 4, 16, 31, 50, 64, 128}) {
        CheckTranspose(transpose, bytes, rows, cols, 3, 2);
        CheckTranspose(transpose, bytes, rows, cols, 0, 2);
        CheckTranspose(transpose, bytes, rows, cols, 3, 0);
        CheckTranspose(transpose, bytes, rows, cols, 0, 0);
      }
    }
  }
}

MICA_INSTANTIATE_SIMD_TEST(TransposeTest);

}  // namespace
}  // namespace mica::cpu
