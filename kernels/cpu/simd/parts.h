#ifndef MICA_KERNELS_CPU_SIMD_PARTS_H_
#define MICA_KERNELS_CPU_SIMD_PARTS_H_

#include "kernels/cpu/simd_table.h"

// What the sources of this folder put into the table of their compilation: the
// functions FillElementwise() and so on, which each namespace has.
#define MICA_SIMD_PARTS(Do)                                                    \
  Do(Elementwise) Do(Unary) Do(Activations) Do(Reduce) Do(Fold) Do(LogSumExp)  \
      Do(HalfSums) Do(ArgExtreme) Do(Norm) Do(Backward) Do(Adam) Do(Gemm)      \
          Do(Dots) Do(Finish) Do(Attention) Do(PlainGemm) Do(Convolution)      \
              Do(Winograd) Do(Window) Do(Depthwise) Do(Training) Do(BatchNorm) \
                  Do(Recurrent) Do(Half) Do(HalfLoops) Do(PoolRows)            \
                      Do(Transpose) Do(OneRow) Do(Gather) Do(Spread)           \
                          Do(RegionTiles) Do(RegionLoops)

#define MICA_DECLARE_PART(Name) void Fill##Name(SimdTable& table);

namespace mica::cpu {

namespace v1 {
MICA_SIMD_PARTS(MICA_DECLARE_PART)
}  // namespace v1

#if defined(__x86_64__)
namespace v3 {
MICA_SIMD_PARTS(MICA_DECLARE_PART)
}  // namespace v3

namespace v4 {
MICA_SIMD_PARTS(MICA_DECLARE_PART)
}  // namespace v4
#endif

}  // namespace mica::cpu

#undef MICA_DECLARE_PART

#endif  // MICA_KERNELS_CPU_SIMD_PARTS_H_
