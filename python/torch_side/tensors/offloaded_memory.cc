#include "python/torch_side/tensors/offloaded_memory.h"

// Before the others: torch's own order of Python.h and these.
#include <c10/core/CPUAllocator.h>
#include <torch/csrc/autograd/python_variable.h>

#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "framework/base/mutex.h"
#include "framework/base/status.h"
#include "python/torch_side/tensors/tensor_access.h"

namespace mica {
namespace {

constexpr int64_t kNever = -2;  // No tensor's count of writes.

// Pages of some memory, and the tensor's count of writes at that time.
struct Part {
  std::vector<MemoryRange> pages;
  int64_t version = kNever;
};

// By the address that torch allocated. Threads that free memory need no GIL.
struct Registry {
  Mutex mutex;
  absl::flat_hash_map<const void*, std::vector<Part>> parts
      ABSL_GUARDED_BY(mutex);
};

Registry& Offloaded() {
  static auto& registry = *new Registry;
  return registry;
}

at::DeleterFnPtr TorchsDeleter() {
  static const at::DeleterFnPtr deleter =
      c10::GetDefaultCPUAllocator()->raw_deleter();
  return deleter;
}

// What frees memory of which parts are offloaded: an allocator gets back what
// it gave, plain memory.
void Free(void* data) {
  std::vector<Part> parts;
  {
    Registry& registry = Offloaded();
    MutexLock lock(&registry.mutex);
    if (auto node = registry.parts.extract(data)) {
      parts = std::move(node.mapped());
    }
  }
  bool is_plain = true;
  for (const Part& part : parts) {
    is_plain = DiscardOffloadedPages(part.pages) && is_plain;
  }
  if (is_plain) TorchsDeleter()(data);
}

// True if memory is torch's own, and is now freed by Free().
bool Claim(at::DataPtr& memory) {
  if (memory.get() == nullptr || memory.get_context() != memory.get()) {
    return false;
  }
  return memory.get_deleter() == &Free ||
         memory.compare_exchange_deleter(TorchsDeleter(), &Free);
}

}  // namespace

absl::StatusOr<int64_t> OffloadMemory(PyObject* tensor, MemoryRange range,
                                      absl::Span<const MemoryRange> kept,
                                      const std::string& folder) {
  std::vector<MemoryRange> pages = WholePages(range, kept);
  if (pages.empty()) return 0;
  const c10::Storage& storage =
      THPVariable_Unpack(tensor).unsafeGetTensorImpl()->unsafe_storage();
  at::DataPtr& memory =
      storage.unsafeGetStorageImpl()->_mutable_data_ptr_no_checks();
  if (!memory.device().is_cpu() || !Claim(memory)) {
    DropPages(pages);
    return 0;
  }
  int64_t bytes = 0;
  for (const MemoryRange& one : pages) bytes += one.bytes;
  Registry& registry = Offloaded();
  MutexLock lock(&registry.mutex);
  std::vector<Part>& parts = registry.parts[memory.get()];
  auto part = absl::c_find_if(
      parts, [&](const Part& one) { return one.pages == pages; });
  const int64_t version = VersionOf(tensor);
  if (part != parts.end() && part->version == version) {
    DropPages(pages);
    return bytes;
  }
  // Noted first: whether or not it comes to be offloaded, it can be discarded.
  if (part == parts.end()) {
    part = parts.insert(part, {.pages = pages, .version = kNever});
  }
  MICA_RETURN_IF_ERROR(OffloadPages(pages, folder));
  part->version = version;
  return bytes;
}

}  // namespace mica
