#ifndef MICA_KERNELS_CPU_SIMD_GEMM_H_
#define MICA_KERNELS_CPU_SIMD_GEMM_H_

#include <cstdint>

#include "kernels/cpu/simd/vec.h"
#include "kernels/cpu/simd_table.h"

namespace mica::cpu::MICA_SIMD_NAMESPACE {

// A tile of c stays in registers over the whole of k: rows times two vectors,
// with two more registers for b and one for a.
#if defined(__AVX512F__)
inline constexpr int kTileRows = 14;
#else
inline constexpr int kTileRows = 6;
#endif
inline constexpr int kPanelCols = 2 * kLanes;

// As described in simd_table.h.
void Gemm(const GemmArgs& args);
void PackTransposed(const float* b, int64_t row_stride, int64_t n, int64_t k,
                    float scale, float* dst);
// As described in simd_table.h.
void DotProducts(const DotArgs& args);
// As SimdTable::activate.
void ActivateRows(Activation activation, float* c, int64_t row_stride,
                  int64_t rows, int64_t n);
// As SimdTable::finish.
void FinishRows(const FinishArgs& args);

}  // namespace mica::cpu::MICA_SIMD_NAMESPACE

#endif  // MICA_KERNELS_CPU_SIMD_GEMM_H_
