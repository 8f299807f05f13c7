#ifndef MICA_KERNELS_CPU_SIMD_PARTS_H_
#define MICA_KERNELS_CPU_SIMD_PARTS_H_

#include "kernels/cpu/simd_table.h"

// What each source of this folder puts into the table of its compilation.

namespace mica::cpu {

namespace v3 {
void FillElementwise(SimdTable& table);
void FillUnary(SimdTable& table);
void FillReduce(SimdTable& table);
void FillArgExtreme(SimdTable& table);
void FillNorm(SimdTable& table);
void FillBackward(SimdTable& table);
void FillRegion(SimdTable& table);
void FillGemm(SimdTable& table);
void FillDots(SimdTable& table);
void FillFinish(SimdTable& table);
void FillAttention(SimdTable& table);
void FillPlainGemm(SimdTable& table);
void FillConvolution(SimdTable& table);
void FillWinograd(SimdTable& table);
void FillWindow(SimdTable& table);
void FillTraining(SimdTable& table);
void FillBatchNorm(SimdTable& table);
void FillRecurrent(SimdTable& table);
void FillHalf(SimdTable& table);
void FillHalfLoops(SimdTable& table);
void FillPoolRows(SimdTable& table);
void FillTranspose(SimdTable& table);
void FillOneRow(SimdTable& table);
void FillGather(SimdTable& table);
void FillSpread(SimdTable& table);
}  // namespace v3

namespace v4 {
void FillElementwise(SimdTable& table);
void FillUnary(SimdTable& table);
void FillReduce(SimdTable& table);
void FillArgExtreme(SimdTable& table);
void FillNorm(SimdTable& table);
void FillBackward(SimdTable& table);
void FillRegion(SimdTable& table);
void FillGemm(SimdTable& table);
void FillDots(SimdTable& table);
void FillFinish(SimdTable& table);
void FillAttention(SimdTable& table);
void FillPlainGemm(SimdTable& table);
void FillConvolution(SimdTable& table);
void FillWinograd(SimdTable& table);
void FillWindow(SimdTable& table);
void FillTraining(SimdTable& table);
void FillBatchNorm(SimdTable& table);
void FillRecurrent(SimdTable& table);
void FillHalf(SimdTable& table);
void FillHalfLoops(SimdTable& table);
void FillPoolRows(SimdTable& table);
void FillTranspose(SimdTable& table);
void FillOneRow(SimdTable& table);
void FillGather(SimdTable& table);
void FillSpread(SimdTable& table);
}  // namespace v4

}  // namespace mica::cpu

#endif  // MICA_KERNELS_CPU_SIMD_PARTS_H_
