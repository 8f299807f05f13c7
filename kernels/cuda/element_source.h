// The source of a kernel that computes each element from those at its place.

#ifndef MICA_KERNELS_CUDA_ELEMENT_SOURCE_H_
#define MICA_KERNELS_CUDA_ELEMENT_SOURCE_H_

#include <cstdint>
#include <string>

#include "kernels/cuda/element_kernel.h"

namespace mica::cuda {

// Its parameters are the inputs, their picks, and the outputs, in order; then,
// if there are picks, kErrorParameters.
struct ElementSource {
  static constexpr int64_t kThreads = 256;  // Of a block.
  std::string text;
  int64_t num_blocks = 0;
};

// Elements are moved as vectors where they follow each other, one by one else.
// The dims hold no 0.
ElementSource MakeElementSource(const ElementLoop& loop);

// Calls `visit(pick)` for each index, in the order of parameters.
template <typename F>
void ForEachPick(const ElementLoop& loop, F&& visit) {
  for (const ElementArray& input : loop.inputs) {
    for (const Pick& pick : input.picks) visit(pick);
  }
}

}  // namespace mica::cuda

#endif  // MICA_KERNELS_CUDA_ELEMENT_SOURCE_H_
