// Memory of tensors that calls give to the program.

#ifndef MICA_PYTHON_TORCH_SIDE_TENSORS_RESULT_MEMORY_H_
#define MICA_PYTHON_TORCH_SIDE_TENSORS_RESULT_MEMORY_H_

#include <c10/core/Allocator.h>

namespace mica {

// torch's allocator for the CPU, but for blocks of some size: of those that
// were given back last, 8 MB in all stay for the next call, which finds them
// in the cache. The C library's allocator goes round by turns through as many
// blocks as there are small allocations between two large ones, three where an
// operator of ATen runs: an elementwise one of 2 MB took a fifth more time.
//
// Lives forever. Thread-safe.
c10::Allocator* ResultMemory();

}  // namespace mica

#endif  // MICA_PYTHON_TORCH_SIDE_TENSORS_RESULT_MEMORY_H_
