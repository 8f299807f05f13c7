#include "framework/base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"

namespace mica {
namespace {

absl::Status WriteAll(int descriptor, absl::string_view bytes,
                      absl::string_view path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return ErrnoStatus(errno, "write", path);
    }
    bytes.remove_prefix(written);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ErrnoStatus(int error, absl::string_view action,
                         absl::string_view path) {
  const std::string message =
      absl::StrCat("can't ", action, " ", path, ": ", std::strerror(error));
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(message);
    case ENOSPC:
    case EDQUOT:
    case ENOMEM:
      return absl::ResourceExhaustedError(message);
    case EISDIR:
    case ENAMETOOLONG:
      return absl::InvalidArgumentError(message);
    default:
      return absl::InternalError(message);
  }
}

InputFile::InputFile(int descriptor, int64_t size, std::string path)
    : descriptor_(descriptor), size_(size), path_(std::move(path)) {}

InputFile::InputFile(InputFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_),
      path_(std::move(other.path_)) {}

InputFile& InputFile::operator=(InputFile&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_, other.size_);
  std::swap(path_, other.path_);
  return *this;
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

absl::StatusOr<InputFile> InputFile::Open(const std::string& path,
                                          LinkPolicy links) {
  // Nor is a pipe waited for, which the path may be by now.
  const int no_link =
      links == LinkPolicy::kRefuse ? O_NOFOLLOW | O_NONBLOCK : 0;
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | no_link);
  if (descriptor < 0 && errno == ELOOP && no_link != 0) {
    return absl::PermissionDeniedError(absl::StrCat(path, ": is a link"));
  }
  if (descriptor < 0) return ErrnoStatus(errno, "open", path);
  struct stat info;
  if (::fstat(descriptor, &info) != 0) {
    const int error = errno;
    ::close(descriptor);
    return ErrnoStatus(error, "open", path);
  }
  InputFile file(descriptor, info.st_size, path);
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": wants a regular file"));
  }
  return file;
}

absl::Status InputFile::Describe(struct ::stat* info) const {
  if (::fstat(descriptor_, info) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, "look at", path_);
}

absl::Status InputFile::ReadAt(int64_t offset, void* to, int64_t bytes) const {
  char* out = static_cast<char*>(to);
  int64_t done = 0;
  while (done < bytes) {
    const ssize_t got =
        ::pread(descriptor_, out + done, bytes - done, offset + done);
    if (got < 0) {
      if (errno == EINTR) continue;
      return ErrnoStatus(errno, "read", path_);
    }
    if (got == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(path_, ": truncated: wants ", bytes, " bytes at ",
                       offset, ", got ", done));
    }
    done += got;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<void>> InputFile::Map() const {
  if (size_ == 0) return nullptr;
  void* data = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE,
                      descriptor_, 0);
  if (data == MAP_FAILED) return ErrnoStatus(errno, "map", path_);
  return std::shared_ptr<void>(
      data, [size = size_](void* mapped) { ::munmap(mapped, size); });
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  MICA_ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path));
  if (file.size() > kMaxTextFileBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": wants at most ", kMaxTextFileBytes,
                     " bytes, got ", file.size()));
  }
  std::string text(file.size(), '\0');
  MICA_RETURN_IF_ERROR(file.ReadAt(0, text.data(), file.size()));
  return text;
}

absl::Status WriteFile(const std::string& path,
                       absl::Span<const absl::string_view> chunks,
                       Durability durability) {
  std::string temporary = absl::StrCat(path, ".XXXXXX", kTemporarySuffix);
  const int descriptor = ::mkostemps(
      temporary.data(), static_cast<int>(kTemporarySuffix.size()), O_CLOEXEC);
  if (descriptor < 0) return ErrnoStatus(errno, "write", path);
  absl::Cleanup remove = [&temporary] { ::unlink(temporary.c_str()); };
  absl::Cleanup close = [descriptor] { ::close(descriptor); };
  const bool is_lasting = durability == Durability::kLasting;
  if (is_lasting) {
    // mkostemps() makes the file private.
    const mode_t mask = ::umask(0);
    ::umask(mask);
    ::fchmod(descriptor, 0666 & ~mask);
  }
  for (absl::string_view chunk : chunks) {
    MICA_RETURN_IF_ERROR(WriteAll(descriptor, chunk, path));
  }
  // On the disk before it takes the old one's place: else a power cut could
  // leave neither.
  if (is_lasting && ::fsync(descriptor) != 0)
    return ErrnoStatus(errno, "write", path);
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    return ErrnoStatus(errno, "write", path);
  }
  std::move(remove).Cancel();
  return absl::OkStatus();
}

}  // namespace mica
