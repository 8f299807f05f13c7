#include "kernels/cpu/machine_code.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace mica::cpu {
namespace {

absl::Status SystemError(int error, absl::string_view what, size_t bytes) {
  const std::string message =
      absl::StrCat("machine code: can't ", what, " ", bytes,
                   " bytes: ", std::strerror(error));
  return error == ENOMEM || error == EAGAIN
             ? absl::ResourceExhaustedError(message)
             : absl::PermissionDeniedError(message);
}

}  // namespace

absl::StatusOr<MachineCode> MachineCode::Load(absl::string_view image,
                                              int64_t entry) {
  if (entry < 0 || entry >= static_cast<int64_t>(image.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("machine code: wants an entry in ", image.size(),
                     " bytes, got ", entry));
  }
  const size_t page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  MachineCode code;
  code.bytes_ = (image.size() + page - 1) / page * page;
  code.entry_ = entry;
  void* pages = ::mmap(nullptr, code.bytes_, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return SystemError(errno, "map", code.bytes_);
  code.pages_ = pages;
  std::memcpy(pages, image.data(), image.size());
  if (::mprotect(pages, code.bytes_, PROT_READ | PROT_EXEC) != 0) {
    return SystemError(errno, "make executable", code.bytes_);
  }
  return code;
}

MachineCode::~MachineCode() {
  if (pages_ != nullptr) ::munmap(pages_, bytes_);
}

}  // namespace mica::cpu
