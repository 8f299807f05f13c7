// Operands of benchmarks.

#ifndef MICA_KERNELS_CPU_BENCHMARK_FLOATS_H_
#define MICA_KERNELS_CPU_BENCHMARK_FLOATS_H_

#include <cstdint>
#include <cstdlib>
#include <memory>

#include "benchmark/benchmark.h"

namespace mica::cpu {

// Floats at a cache line's start, as in an arena.
struct Free {
  void operator()(float* p) const { std::free(p); }
};
using Floats = std::unique_ptr<float, Free>;

inline Floats MakeFloats(int64_t n) {
  const size_t bytes = (static_cast<size_t>(n) * sizeof(float) + 127) / 64 * 64;
  Floats floats(static_cast<float*>(std::aligned_alloc(64, bytes)));
  for (int64_t i = 0; i < n; ++i) {
    floats.get()[i] = static_cast<float>(i % 17) / 17.0f - 0.5f;
  }
  return floats;
}

// `flops` of each iteration.
inline void CountFlops(benchmark::State& state, int64_t flops) {
  state.counters["GFLOP/s"] =
      benchmark::Counter(static_cast<double>(flops) *
                             static_cast<double>(state.iterations()) / 1e9,
                         benchmark::Counter::kIsRate);
}

}  // namespace mica::cpu

#endif  // MICA_KERNELS_CPU_BENCHMARK_FLOATS_H_
