// Tensors' memory in files: framework/base/offload.h for what torch allocated.

#ifndef MICA_PYTHON_TORCH_SIDE_TENSORS_OFFLOADED_MEMORY_H_
#define MICA_PYTHON_TORCH_SIDE_TENSORS_OFFLOADED_MEMORY_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/base/offload.h"
#include "python/interpreter/py_ref.h"

namespace mica {

// Offloads `range`, of the tensor's memory, but for pages with bytes of `kept`,
// which is in order: how many bytes then lie in a file. Addresses stay, so
// whoever has one needn't know; torch frees the memory as ever.
//
// Where that is done already, and nothing was written since as far as torch
// counts writes, has the system drop what was read. Memory that somebody else
// allocated, such as other processes that share it, is never changed: of that,
// too, the system may drop what a file of its own backs, and 0 is the answer.
// Fails as OffloadPages(). Needs the GIL.
absl::StatusOr<int64_t> OffloadMemory(PyObject* tensor, MemoryRange range,
                                      absl::Span<const MemoryRange> kept,
                                      const std::string& folder);

}  // namespace mica

#endif  // MICA_PYTHON_TORCH_SIDE_TENSORS_OFFLOADED_MEMORY_H_
