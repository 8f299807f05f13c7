// Machine code that was made while the process runs.

#ifndef MICA_KERNELS_CPU_MACHINE_CODE_H_
#define MICA_KERNELS_CPU_MACHINE_CODE_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace mica::cpu {

// A position-independent image, code and what it reads, in pages of its own.
// Pages are written first and executed after, never both. Move-only; the code
// is there as long as this is.
class MachineCode {
 public:
  // `entry` is the offset of the function. InvalidArgument if that isn't in
  // the image; ResourceExhausted or PermissionDenied, with the system's words,
  // if it gives no memory, or none that may be executed.
  static absl::StatusOr<MachineCode> Load(absl::string_view image,
                                          int64_t entry);
  MachineCode() = default;
  MachineCode(MachineCode&& other) noexcept
      : pages_(std::exchange(other.pages_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)),
        entry_(std::exchange(other.entry_, 0)) {}
  MachineCode& operator=(MachineCode&& other) noexcept {
    std::swap(pages_, other.pages_);
    std::swap(bytes_, other.bytes_);
    std::swap(entry_, other.entry_);
    return *this;
  }
  ~MachineCode();

  // Whether there is code.
  explicit operator bool() const { return pages_ != nullptr; }

  // As a pointer to a function; requires that there is code.
  template <typename Fn>
  Fn entry() const {
    return reinterpret_cast<Fn>(static_cast<char*>(pages_) + entry_);
  }

 private:
  void* pages_ = nullptr;
  size_t bytes_ = 0;
  int64_t entry_ = 0;
};

}  // namespace mica::cpu

#endif  // MICA_KERNELS_CPU_MACHINE_CODE_H_
