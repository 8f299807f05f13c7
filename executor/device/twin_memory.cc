#include "executor/device/twin_memory.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace mica {
namespace {

constexpr int64_t kPage = 4096;

char* Map(int file, int64_t bytes, int protection) {
  void* at =
      mmap(nullptr, bytes, protection, MAP_SHARED | MAP_NORESERVE, file, 0);
  return at == MAP_FAILED ? nullptr : static_cast<char*>(at);
}

}  // namespace

absl::StatusOr<std::unique_ptr<TwinMemory>> TwinMemory::Create(int64_t bytes) {
  std::unique_ptr<TwinMemory> memory(new TwinMemory);
  memory->bytes_ = bytes / kPage * kPage;
  memory->file_ = memfd_create("mica device", MFD_CLOEXEC);
  if (memory->file_ >= 0 && ftruncate(memory->file_, memory->bytes_) == 0) {
    memory->closed_ = Map(memory->file_, memory->bytes_, PROT_NONE);
    memory->open_ = Map(memory->file_, memory->bytes_, PROT_READ | PROT_WRITE);
  }
  if (memory->closed_ == nullptr || memory->open_ == nullptr) {
    return absl::ErrnoToStatus(
        errno, absl::StrCat("no ", bytes, " bytes for a simulated device"));
  }
  memory->free_[0] = memory->bytes_;
  return memory;
}

TwinMemory::~TwinMemory() {
  if (closed_ != nullptr) munmap(closed_, bytes_);
  if (open_ != nullptr) munmap(open_, bytes_);
  if (file_ >= 0) close(file_);
}

absl::StatusOr<void*> TwinMemory::Allocate(int64_t bytes) {
  const MutexLock lock(&mutex_);
  int64_t num_free = 0;
  if (bytes >= 0 && bytes <= bytes_) {
    const int64_t wanted = std::max((bytes + kPage - 1) / kPage, int64_t{1});
    for (auto it = free_.begin(); it != free_.end(); ++it) {
      const auto [offset, size] = *it;
      num_free += size;
      if (size < wanted * kPage) continue;
      free_.erase(it);
      if (size > wanted * kPage) {
        free_[offset + wanted * kPage] = size - wanted * kPage;
      }
      used_[offset] = wanted * kPage;
      return closed_ + offset;
    }
  }
  return absl::ResourceExhaustedError(
      absl::StrCat("no memory on the simulated device: ", bytes,
                   " bytes asked, ", num_free, " bytes free of ", bytes_));
}

void TwinMemory::Free(void* data) {
  const MutexLock lock(&mutex_);
  const auto used = used_.find(static_cast<char*>(data) - closed_);
  int64_t offset = used->first, size = used->second;
  used_.erase(used);
  fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, size);
  auto after = free_.lower_bound(offset);
  if (after != free_.end() && after->first == offset + size) {
    size += after->second;
    after = free_.erase(after);
  }
  if (after != free_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == offset) {
      before->second += size;
      return;
    }
  }
  free_[offset] = size;
}

}  // namespace mica
