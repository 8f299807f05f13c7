// Attention of half precision in one kernel a pass, scores kept in registers.

#ifndef MICA_KERNELS_CUDA_FLASH_ATTENTION_H_
#define MICA_KERNELS_CUDA_FLASH_ATTENTION_H_

#include "kernels/cuda/calls.h"
#include "kernels/cuda/target.h"
#include "kernels/reference/strided.h"

namespace mica::cuda {

// [batch, heads, rows, size] each; log_sum is [batch, heads, queries].
struct FlashOperands {
  Lane q, k, v;
  double scale = 1;
  bool is_causal = false;
};

// Whether the kernels take them: half precision on tensor cores (compute
// capability 8.0 or later), heads of a multiple of 8 and up to 128 elements
// that follow each other, rows that begin at multiples of 8 elements.
bool FitsFlash(const Target& target, const FlashOperands& o);
// The same of an array that goes with them.
bool FitsFlash(const Lane& lane, const FlashOperands& o);

// `log_sum` may be unused: its arg is then -1.
CodeCall MakeFlashForward(const Target& target, const FlashOperands& o,
                          const Lane& out, const Lane& log_sum);

// What the backward passes read beside: `dots`, at `dots_at`, are the sums of
// grad * out of each row, f32[batch, heads, queries].
struct FlashGradient {
  Lane grad, log_sum;
  Ref dots_at;
};
CodeCall MakeFlashBackwardQ(const Target& target, const FlashOperands& o,
                            const FlashGradient& g, const Lane& dq);
// Either result may be unused.
CodeCall MakeFlashBackwardKV(const Target& target, const FlashOperands& o,
                             const FlashGradient& g, const Lane& dk,
                             const Lane& dv);

}  // namespace mica::cuda

#endif  // MICA_KERNELS_CUDA_FLASH_ATTENTION_H_
