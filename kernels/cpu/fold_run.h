// How a reduction to one total for each result runs, tile by tile.

#ifndef MICA_KERNELS_CPU_FOLD_RUN_H_
#define MICA_KERNELS_CPU_FOLD_RUN_H_

#include <cstdint>

#include "framework/kernel/kernel.h"
#include "kernels/cpu/fold_plan.h"
#include "kernels/cpu/simd_table.h"

namespace mica::cpu {

// What a total becomes.
enum class FoldEnding : uint8_t {
  kItself,
  kMean,
  kRoot,
  kLogarithm,  // Of a sum of exponentials, plus what those were shifted by.
  kVariance,
  kDeviation,
  kAny,  // These three of a count.
  kAll,
  kCount,
};

// Rows of so few elements are short.
inline constexpr int64_t kShortFold = 32;

struct FoldState {
  FoldPlan plan;
  FoldFn fold = nullptr;
  // If set, rows are short: they are turned to columns, which this one folds.
  FoldFn fold_turned = nullptr;
  FoldEnding ending = FoldEnding::kItself;
  double divisor = 1;  // Of a mean or a variance.
  uint64_t mask = 0;
  int64_t bytes = 0;          // Of an element.
  ConvertFn widen = nullptr;  // Of one of 16 bits.
  ConvertFn narrow = nullptr;
  DType out = DType::kF32;  // The result's, f32 where it is narrowed.
  int64_t out_bytes = 0;    // Of the result itself.
  bool is_whole = false;    // Totals are whole numbers.
  bool gives_mean = false;  // As the second result.
  int num_threads = 1;
};

// Operand 0 is reduced, to the first result and, where `gives_mean`, a second.
bool LaunchFold(const void* state, void* const* args, LaunchContext& context);

}  // namespace mica::cpu

#endif  // MICA_KERNELS_CPU_FOLD_RUN_H_
