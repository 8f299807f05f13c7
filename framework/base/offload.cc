#include "framework/base/offload.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "framework/base/file.h"
#include "framework/base/status.h"
#include "glog/logging.h"

namespace mica {
namespace {

#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21  // Linux 5.4; older ones refuse it, which is fine.
#endif

// A file that has no name from the start or, where the file system has no such
// files, loses it at once. A descriptor.
absl::StatusOr<int> OpenNameless(const std::string& folder) {
  int file = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file < 0 && (errno == EOPNOTSUPP || errno == EISDIR)) {
    std::string name = folder + "/mica_offload_XXXXXX";
    file = ::mkostemp(name.data(), O_CLOEXEC);
    if (file >= 0) ::unlink(name.c_str());
  }
  if (file < 0) return ErrnoStatus(errno, "make a file in", folder);
  return file;
}

absl::Status WriteAt(int file, int64_t offset, MemoryRange range,
                     const std::string& folder) {
  for (int64_t done = 0; done < range.bytes;) {
    const ssize_t written =
        ::pwrite(file, range.data + done, range.bytes - done, offset + done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrnoStatus(errno, "write a file in", folder);
    done += written;
  }
  return absl::OkStatus();
}

bool MakePlain(MemoryRange pages) {
  return ::mmap(pages.data, pages.bytes, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
}

// What the file holds of `pages`, in plain memory. Without it the process has
// lost bytes of the user's.
void ReadBack(int file, int64_t offset, MemoryRange pages) {
  CHECK(MakePlain(pages)) << "the system takes memory away: "
                          << std::strerror(errno);
  for (int64_t done = 0; done < pages.bytes;) {
    const ssize_t got =
        ::pread(file, pages.data + done, pages.bytes - done, offset + done);
    if (got < 0 && errno == EINTR) continue;
    CHECK_GT(got, 0) << "can't read back what was offloaded: "
                     << std::strerror(errno);
    done += got;
  }
}

}  // namespace

std::vector<MemoryRange> WholePages(MemoryRange range,
                                    absl::Span<const MemoryRange> kept) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto up = [page](char* at) {
    return at + (page - reinterpret_cast<uintptr_t>(at) % page) % page;
  };
  const auto down = [page](char* at) {
    return at - reinterpret_cast<uintptr_t>(at) % page;
  };
  std::vector<MemoryRange> pages;
  char* begin = up(range.data);
  const auto add_until = [&](char* end) {
    if (begin < end) pages.push_back({begin, end - begin});
  };
  for (const MemoryRange& one : kept) {
    if (one.bytes == 0) continue;
    add_until(down(one.data));
    begin = std::max(begin, up(one.end()));
  }
  add_until(down(range.end()));
  return pages;
}

absl::Status CheckOffloadFolder(const std::string& folder) {
  MICA_ASSIGN_OR_RETURN(const int file, OpenNameless(folder));
  const absl::Cleanup close = [file] { ::close(file); };
  struct statfs info;
  if (::fstatfs(file, &info) != 0) {
    return ErrnoStatus(errno, "look at", folder);
  }
  if (info.f_type == TMPFS_MAGIC || info.f_type == RAMFS_MAGIC) {
    return absl::FailedPreconditionError(
        absl::StrCat(folder, " is in memory itself, wants a folder on a disk"));
  }
  return absl::OkStatus();
}

absl::Status OffloadPages(absl::Span<const MemoryRange> pages,
                          const std::string& folder) {
  int64_t bytes = 0;
  for (const MemoryRange& range : pages) bytes += range.bytes;
  if (bytes == 0) return absl::OkStatus();
  MICA_RETURN_IF_ERROR(CheckOffloadFolder(folder));
  MICA_ASSIGN_OR_RETURN(const int file, OpenNameless(folder));
  const absl::Cleanup close = [file] { ::close(file); };
  // A page that had no place on the disk would be missed when it is read.
  if (const int error = ::posix_fallocate(file, 0, bytes)) {
    return ErrnoStatus(error, "make a file in", folder);
  }
  std::vector<int64_t> offsets;
  int64_t offset = 0;
  for (const MemoryRange& range : pages) {
    MICA_RETURN_IF_ERROR(WriteAt(file, offset, range, folder));
    offsets.push_back(offset);
    offset += range.bytes;
  }
  // Only what is on the disk can be dropped from memory; not waited for.
  ::sync_file_range(file, 0, 0, SYNC_FILE_RANGE_WRITE);
  for (size_t i = 0; i < pages.size(); ++i) {
    if (::mmap(pages[i].data, pages[i].bytes, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_FIXED, file, offsets[i]) != MAP_FAILED) {
      continue;
    }
    const int error = errno;
    for (size_t j = 0; j <= i; ++j) ReadBack(file, offsets[j], pages[j]);
    return ErrnoStatus(error, "map a file in", folder);
  }
  return absl::OkStatus();
}

void DropPages(absl::Span<const MemoryRange> pages) {
  for (const MemoryRange& range : pages) {
    ::madvise(range.data, range.bytes, MADV_PAGEOUT);
  }
}

bool DiscardOffloadedPages(absl::Span<const MemoryRange> pages) {
  bool ok = true;
  for (const MemoryRange& range : pages) ok = MakePlain(range) && ok;
  return ok;
}

void ReturnFreeMemory() { ::malloc_trim(0); }

}  // namespace mica
