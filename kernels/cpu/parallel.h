// Cuts a kernel's work for several threads.

#ifndef MICA_KERNELS_CPU_PARALLEL_H_
#define MICA_KERNELS_CPU_PARALLEL_H_

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/team.h"

namespace mica::cpu {

// Below this many elements a thread isn't worth waking.
inline constexpr int64_t kElementsPerThread = 32 * 1024;

// How many of `num_threads` `elements` of work can use, 1 at least.
inline int UsefulThreads(int num_threads, int64_t elements) {
  return static_cast<int>(std::clamp<int64_t>(elements / kElementsPerThread, 1,
                                              std::max(num_threads, 1)));
}

// The same of that many multiplications of a product or a convolution.
inline int UsefulThreadsOfProduct(int num_threads, double multiplications) {
  constexpr double kMultiplicationsPerThread = 256 * 1024;
  return static_cast<int>(
      std::clamp(multiplications / kMultiplicationsPerThread, 1.0,
                 static_cast<double>(std::max(num_threads, 1))));
}

// Calls run(piece, begin, end) for pieces of 0..count, on the threads of this
// one's team, or each on one of OpenMP's. With one thread it is a plain call.
template <typename Run>
void ParallelPieces(int num_threads, int64_t count, const Run& run) {
  if (num_threads <= 1 || count < 2) {
    run(0, int64_t{0}, count);
    return;
  }
  const int pieces = static_cast<int>(std::min<int64_t>(num_threads, count));
  if (Team* team = CurrentTeam(); team != nullptr) {
    const auto piece = [&](int i) {
      run(i, count * i / pieces, count * (i + 1) / pieces);
    };
    team->Run(
        pieces,
        [](const void* state, int i) {
          (*static_cast<const decltype(piece)*>(state))(i);
        },
        &piece);
    return;
  }
#pragma omp parallel for num_threads(pieces) schedule(static, 1)
  for (int i = 0; i < pieces; ++i) {
    run(i, count * i / pieces, count * (i + 1) / pieces);
  }
}

// The same for a run(begin, end) that keeps nothing for its piece.
template <typename Run>
void Parallel(int num_threads, int64_t count, const Run& run) {
  ParallelPieces(num_threads, count,
                 [&run](int, int64_t begin, int64_t end) { run(begin, end); });
}

}  // namespace mica::cpu

#endif  // MICA_KERNELS_CPU_PARALLEL_H_
