// The families of fast CPU kernels; kernels/all.cc lists them.

#ifndef MICA_KERNELS_CPU_FAMILIES_H_
#define MICA_KERNELS_CPU_FAMILIES_H_

#include "framework/kernel/kernel_registry.h"

namespace mica::cpu {

void RegisterArithmetic(KernelRegistry& registry);  // Elementwise, one type.
void RegisterLogic(KernelRegistry& registry);       // Comparisons, selection.
void RegisterRegions(KernelRegistry& registry);     // Of many such ops.
void RegisterReduceRegions(KernelRegistry& registry);  // With reductions.
void RegisterLoneRegions(KernelRegistry& registry);
void RegisterOptimizerSteps(KernelRegistry& registry);
void RegisterMatmul(KernelRegistry& registry);
void RegisterFewPixelsConvolution(KernelRegistry& registry);
void RegisterOneDnnConvolution(KernelRegistry& registry);
void RegisterOneDnnHalfConvolution(KernelRegistry& registry);
void RegisterWinograd(KernelRegistry& registry);  // Of 3 by 3 taps.
void RegisterSingleTapConvolution(KernelRegistry& registry);
void RegisterConvolution(KernelRegistry& registry);
void RegisterPoolRows(KernelRegistry& registry);
void RegisterPooling(KernelRegistry& registry);
void RegisterHalves(KernelRegistry& registry);
void RegisterWidened(KernelRegistry& registry);
void RegisterBatchNorm(KernelRegistry& registry);
void RegisterScaleChannels(KernelRegistry& registry);
void RegisterBatchNormTraining(KernelRegistry& registry);
void RegisterGradients(KernelRegistry& registry);  // Of activations.
void RegisterPoolTraining(KernelRegistry& registry);
void RegisterLoss(KernelRegistry& registry);
void RegisterNorm(KernelRegistry& registry);  // Layer norm and softmax.
void RegisterAttention(KernelRegistry& registry);
void RegisterAttentionBackward(KernelRegistry& registry);
void RegisterBackward(KernelRegistry& registry);  // Of norms and embeddings.
void RegisterRecurrent(KernelRegistry& registry);
void RegisterRecurrentBackward(KernelRegistry& registry);
void RegisterRowWrites(KernelRegistry& registry);
void RegisterWindowWrites(KernelRegistry& registry);
void RegisterScatter(KernelRegistry& registry);
void RegisterReduction(KernelRegistry& registry);
void RegisterFold(KernelRegistry& registry);  // Of any axes.
void RegisterArgExtremes(KernelRegistry& registry);
void RegisterScan(KernelRegistry& registry);        // Running sums, products.
void RegisterInterleave(KernelRegistry& registry);  // Joins of single elements.
void RegisterMovement(KernelRegistry& registry);    // Copies, joins, fills.
void RegisterGathers(KernelRegistry& registry);
void RegisterBounded(KernelRegistry& registry);     // Sizes that data decides.
void RegisterSingle(KernelRegistry& registry);      // What takes no time.
void RegisterReorder(KernelRegistry& registry);     // Flips, rolls, triangles.
void RegisterAxisTables(KernelRegistry& registry);  // Nearest pixels, frames.
void RegisterWindows(KernelRegistry& registry);  // Joins of what has strides.

// All of them.
void RegisterAll(KernelRegistry& registry);

}  // namespace mica::cpu

#endif  // MICA_KERNELS_CPU_FAMILIES_H_
