#ifndef MICA_KERNELS_CPU_SIMD_CONVOLUTION_H_
#define MICA_KERNELS_CPU_SIMD_CONVOLUTION_H_

#include <cstdint>

#include "kernels/cpu/simd_table.h"

namespace mica::cpu::MICA_SIMD_NAMESPACE {

// As SimdTable::convolution and convolution_scratch_bytes.
void Convolution(const ConvolutionArgs& args);
int64_t ConvolutionScratchBytes(const WindowArgs& window);

}  // namespace mica::cpu::MICA_SIMD_NAMESPACE

#endif  // MICA_KERNELS_CPU_SIMD_CONVOLUTION_H_
