#include "python/torch_side/tensors/result_memory.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>

#include <cstring>
#include <deque>
#include <mutex>
#include <utility>

namespace mica {
namespace {

// Smaller ones are in the cache anyway; larger ones don't stay there.
constexpr size_t kLeast = size_t{64} << 10;
constexpr size_t kMost = size_t{4} << 20;
constexpr size_t kMostInAll = 2 * kMost;

// A block's size stands with its tensor: it may be given back by any thread.
struct Block {
  void* data = nullptr;
  size_t bytes = 0;
};

class KeepingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes < kLeast || bytes > kMost) return plain_->allocate(bytes);
    void* data = TakeKept(bytes);
    if (data == nullptr) data = c10::alloc_cpu(bytes);
    c10::profiledCPUMemoryReporter().New(data, bytes);
    return {data, new Block{data, bytes}, GiveBack, c10::DeviceType::CPU};
  }

  // None: a block isn't its own context.
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }

  void copy_data(void* to, const void* from, size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }

  static KeepingAllocator& Get() {
    static KeepingAllocator& allocator = *new KeepingAllocator;
    return allocator;
  }

 private:
  static void GiveBack(void* context) {
    const Block block = *static_cast<Block*>(context);
    delete static_cast<Block*>(context);
    c10::profiledCPUMemoryReporter().Delete(block.data);
    if (!Get().Keep(block)) c10::free_cpu(block.data);
  }

  // The one that was given back last. Nobody waits, neither here nor below: a
  // process forked while another thread was here would forever.
  void* TakeKept(size_t bytes) {
    const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return nullptr;
    for (auto block = kept_.rbegin(); block != kept_.rend(); ++block) {
      if (block->bytes != bytes) continue;
      void* const data = block->data;
      kept_.erase(std::next(block).base());
      kept_bytes_ -= bytes;
      return data;
    }
    return nullptr;
  }

  bool Keep(const Block& block) {
    const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return false;
    DropDownTo(kMostInAll - block.bytes);
    kept_.push_back(block);
    kept_bytes_ += block.bytes;
    return true;
  }

  // The oldest first.
  void DropDownTo(size_t bytes) {
    while (kept_bytes_ > bytes) {
      kept_bytes_ -= kept_.front().bytes;
      c10::free_cpu(kept_.front().data);
      kept_.pop_front();
    }
  }

  c10::Allocator* const plain_ = c10::GetCPUAllocator();
  std::mutex mutex_;
  std::deque<Block> kept_;  // In the order in which they came back.
  size_t kept_bytes_ = 0;
};

}  // namespace

c10::Allocator* ResultMemory() { return &KeepingAllocator::Get(); }

}  // namespace mica
