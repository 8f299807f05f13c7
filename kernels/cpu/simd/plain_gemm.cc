#include <cstdint>

#include "kernels/cpu/simd/parts.h"
#include "kernels/cpu/simd/vec.h"

// Products of the element types that have no tiles: loops that the compiler
// vectorises, four rows at a time so that a row of b is read for all of them.

namespace mica::cpu::MICA_SIMD_NAMESPACE {
namespace {

template <typename T>
void AddRows(const T* const* a, int64_t a_step, int64_t k, const T* b,
             int64_t b_row_stride, int64_t b_col_stride, T* const* c,
             int64_t n) {
  T *c0 = c[0], *c1 = c[1], *c2 = c[2], *c3 = c[3];
  for (int64_t x = 0; x < k; ++x, b += b_row_stride) {
    const T a0 = a[0][x * a_step], a1 = a[1][x * a_step];
    const T a2 = a[2][x * a_step], a3 = a[3][x * a_step];
    MICA_IVDEP
    for (int64_t j = 0; j < n; ++j) {
      const T v = b[j * b_col_stride];
      c0[j] += a0 * v;
      c1[j] += a1 * v;
      c2[j] += a2 * v;
      c3[j] += a3 * v;
    }
  }
}

template <typename T>
void AddRow(const T* a, int64_t a_step, int64_t k, const T* b,
            int64_t b_row_stride, int64_t b_col_stride, T* c, int64_t n) {
  for (int64_t x = 0; x < k; ++x, b += b_row_stride) {
    const T v = a[x * a_step];
    MICA_IVDEP
    for (int64_t j = 0; j < n; ++j) c[j] += v * b[j * b_col_stride];
  }
}

template <typename T>
void PlainGemm(const PlainGemmArgs& g) {
  const T* a = static_cast<const T*>(g.a);
  const T* b = static_cast<const T*>(g.b);
  T* c = static_cast<T*>(g.c);
  const int64_t lda = g.a_row_stride, ldc = g.c_row_stride;
  int64_t i = 0;
  for (; i + 4 <= g.m; i += 4, a += 4 * lda, c += 4 * ldc) {
    const T* const rows[] = {a, a + lda, a + 2 * lda, a + 3 * lda};
    T* const to[] = {c, c + ldc, c + 2 * ldc, c + 3 * ldc};
    if (g.b_col_stride == 1) {
      AddRows(rows, g.a_col_stride, g.k, b, g.b_row_stride, 1, to, g.n);
    } else {
      AddRows(rows, g.a_col_stride, g.k, b, g.b_row_stride, g.b_col_stride, to,
              g.n);
    }
  }
  for (; i < g.m; ++i, a += lda, c += ldc) {
    AddRow(a, g.a_col_stride, g.k, b, g.b_row_stride, g.b_col_stride, c, g.n);
  }
}

}  // namespace

void FillPlainGemm(SimdTable& table) {
  table.plain_gemm[static_cast<int>(Elem::kF64)] = PlainGemm<double>;
  table.plain_gemm[static_cast<int>(Elem::kI64)] = PlainGemm<int64_t>;
  table.plain_gemm[static_cast<int>(Elem::kI32)] = PlainGemm<int32_t>;
}

}  // namespace mica::cpu::MICA_SIMD_NAMESPACE
