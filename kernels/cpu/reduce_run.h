// A region with reductions as it runs: block by block, so that what a block's
// phases leave for later ones stays in the caches.

#ifndef MICA_KERNELS_CPU_REDUCE_RUN_H_
#define MICA_KERNELS_CPU_REDUCE_RUN_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "framework/tensor/tensor.h"
#include "kernels/cpu/reduce_layout.h"
#include "kernels/cpu/reduce_loop.h"
#include "kernels/cpu/region_phases.h"
#include "kernels/cpu/simd_table.h"

namespace mica::cpu {

inline constexpr int kMostReduceArrays = 64;

struct ReadyReduction {
  PhaseReduction what;
  int64_t bytes = 4;              // Of an element.
  ReduceRowsFn reduce = nullptr;  // Each row to one, or each column.
  bool is_float_sum = false;      // That joins in double.
};

struct ReadyPhase {
  ReduceLoop kept, elements;
  std::vector<ReadyReduction> reductions;
};

// Made once, run by any number of threads.
struct ReduceRegion {
  ReduceLayout layout;
  std::vector<ReadyPhase> phases;
  size_t num_arrays = 0;
  // Kept places of a block, and how much of what is reduced it takes at once.
  int64_t kept_block = 1, reduced_block = 1;
  int64_t blocks_per_place = 1, parts_per_place = 1;
  int64_t blocks = 1, parts = 1;
  double count = 1;
  // Scratch memory of a thread.
  std::vector<int64_t> tile_offsets, kept_offsets;
  int64_t kept_area = 0, sums_area = 0, sums_bytes = 0, scratch = 0;
  int num_threads = 1;
  // Results that nothing reads again, if they are worth streaming.
  std::vector<int> streamed;
};

ReadyReduction MakeReady(const PhaseReduction& reduction, bool reduces_columns);

// `args` are the addresses of operands, then results; `scratch` has
// `region.scratch` bytes for each thread.
void RunReduceRegion(const ReduceRegion& region, void* const* args,
                     char* scratch);

}  // namespace mica::cpu

#endif  // MICA_KERNELS_CPU_REDUCE_RUN_H_
