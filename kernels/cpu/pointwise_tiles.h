// Elementwise loops with operands that lie the other way round.

#ifndef MICA_KERNELS_CPU_POINTWISE_TILES_H_
#define MICA_KERNELS_CPU_POINTWISE_TILES_H_

#include "framework/kernel/kernel.h"
#include "kernels/cpu/pointwise.h"

namespace mica::cpu {

// Runs such a loop, a finished one, tile by tile: an operand whose columns are
// dense is turned over into a buffer. Null if there is none.
LaunchFn TiledLaunch(const PointwiseLoop& loop);

}  // namespace mica::cpu

#endif  // MICA_KERNELS_CPU_POINTWISE_TILES_H_
