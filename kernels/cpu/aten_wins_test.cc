#include "kernels/cpu/aten_wins.h"

#include "framework/kernel/kernel_registry.h"
#include "gmock/gmock.h"
#include "kernels/all.h"

namespace mica::cpu {
namespace {

using testing::Contains;
using testing::Field;
using testing::Not;

// x[m, k] by a weight [n, k].
ProductSpec Linear(int64_t m, int64_t n, int64_t k) {
  return {.m = m,
          .n = n,
          .k = k,
          .a_row_stride = k,
          .b_row_stride = 1,
          .b_col_stride = k,
          .c_row_stride = n};
}

TEST(AtenWinsTest, FewRowsOfFloat16) {
  EXPECT_TRUE(AtenWinsProduct(DType::kF16, Linear(1, 768, 768)).has_value());
  EXPECT_TRUE(AtenWinsProduct(DType::kF16, Linear(8, 768, 768)).has_value());
  EXPECT_FALSE(AtenWinsProduct(DType::kF16, Linear(9, 768, 768)).has_value());
  EXPECT_FALSE(AtenWinsProduct(DType::kF16, Linear(1, 64, 64)).has_value());
  EXPECT_FALSE(AtenWinsProduct(DType::kBF16, Linear(1, 768, 768)).has_value());
}

TEST(AtenWinsTest, NoPackedWeights) {
  ProductSpec spec = Linear(1, 768, 768);
  spec.is_frozen = true;
  EXPECT_FALSE(AtenWinsProduct(DType::kF16, spec).has_value());
}

// Where there is no ATen ours has to be found.
TEST(AtenWinsTest, WhatSaysNoIsPlainToo) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    for (const char* op : {"aten.mm", "aten.addmm", "mica.linear"}) {
      const KernelKey key = {.op = op, .dtype = dtype};
      EXPECT_THAT(AllKernels().FindPlain(key),
                  Contains(Field(&Kernel::name, "cpu.widened")))
          << key.ToString();
    }
    const KernelKey attention = {
        .op = "aten._scaled_dot_product_flash_attention_for_cpu",
        .dtype = dtype};
    EXPECT_THAT(AllKernels().FindFast(attention), Not(testing::IsEmpty()));
    EXPECT_THAT(AllKernels().FindPlain(attention), Not(testing::IsEmpty()));
  }
}

}  // namespace
}  // namespace mica::cpu
