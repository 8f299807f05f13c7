#include "framework/base/large_vector.h"

#include <sys/mman.h>

#include <cstdlib>

#include "glog/logging.h"

namespace mica {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

size_t RoundUp(size_t bytes) {
  return (bytes + kHugePage - 1) / kHugePage * kHugePage;
}

}  // namespace

void* AllocateLarge(size_t bytes) {
  void* memory = std::aligned_alloc(kHugePage, RoundUp(bytes));
  CHECK(memory != nullptr) << "no memory for " << bytes << " bytes";
  // If it doesn't, small pages are as good, only slower.
  madvise(memory, RoundUp(bytes), MADV_HUGEPAGE);
  return memory;
}

void FreeLarge(void* memory) { std::free(memory); }

}  // namespace mica
