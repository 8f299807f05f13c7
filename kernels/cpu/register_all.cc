#include "kernels/cpu/families.h"
#include "kernels/cpu/few_bits_kernels.h"

namespace mica::cpu {

void RegisterAll(KernelRegistry& registry) {
  RegisterArithmetic(registry);
  RegisterLogic(registry);
  RegisterRegions(registry);
  RegisterReduceRegions(registry);
  RegisterOptimizerSteps(registry);
  RegisterMatmul(registry);
  RegisterQuantise(registry);
  RegisterInt8Linear(registry);
  RegisterInt4Linear(registry);
  RegisterFewPixelsConvolution(registry);
  RegisterSingleTapConvolution(registry);
  RegisterOneDnnConvolution(registry);
  RegisterOneDnnHalfConvolution(registry);
  RegisterWinograd(registry);
  RegisterConvolution(registry);
  RegisterPoolRows(registry);
  RegisterPooling(registry);
  RegisterBatchNorm(registry);
  RegisterScaleChannels(registry);
  RegisterBatchNormTraining(registry);
  RegisterGradients(registry);
  RegisterPoolTraining(registry);
  RegisterLoss(registry);
  RegisterRecurrent(registry);
  RegisterRecurrentBackward(registry);
  RegisterRowWrites(registry);
  RegisterScatter(registry);
  RegisterWindowWrites(registry);
  RegisterNorm(registry);
  RegisterAttention(registry);
  RegisterAttentionBackward(registry);
  RegisterBackward(registry);
  RegisterReduction(registry);
  RegisterFold(registry);
  RegisterScan(registry);
  RegisterInterleave(registry);
  RegisterMovement(registry);
  RegisterGathers(registry);
  RegisterReorder(registry);
  RegisterAxisTables(registry);
  RegisterWindows(registry);
  RegisterBounded(registry);
  RegisterHalves(registry);
  // Last: what has loops of its own comes before.
  RegisterWidened(registry);
  RegisterArgExtremes(registry);
  RegisterLoneRegions(registry);
  RegisterSingle(registry);
}

}  // namespace mica::cpu
