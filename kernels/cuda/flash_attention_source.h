// What the kernels of flash_attention.h do, in CUDA C++.

#ifndef MICA_KERNELS_CUDA_FLASH_ATTENTION_SOURCE_H_
#define MICA_KERNELS_CUDA_FLASH_ATTENTION_SOURCE_H_

namespace mica::cuda {

// Functions that all of them use; needs the definitions that flash_attention.cc
// makes of an operator's sizes and strides.
extern const char* const kFlashTools;

// Bodies, from behind the opening brace to the closing one.
extern const char* const kFlashForward;
extern const char* const kFlashBackwardQ;
extern const char* const kFlashBackwardKV;

}  // namespace mica::cuda

#endif  // MICA_KERNELS_CUDA_FLASH_ATTENTION_SOURCE_H_
