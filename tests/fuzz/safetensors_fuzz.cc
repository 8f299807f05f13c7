// ReadSafetensors() on any bytes: it returns, and what it takes accounts for
// every byte of the file. A bounded run:
//
//   build-fuzz/bin/safetensors_fuzz -max_total_time=60 -rss_limit_mb=2048
//       -dict=tests/fuzz/safetensors.dict /tmp/corpus
//       tests/fuzz/safetensors_corpus
//
// tests/fuzz/make_safetensors_corpus.py makes the seeds.

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "framework/tensor/safetensors.h"
#include "glog/logging.h"

namespace {

// A file in memory, by its path.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    PCHECK(descriptor_ >= 0);
  }
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  void Write(const uint8_t* data, size_t size) {
    PCHECK(::ftruncate(descriptor_, 0) == 0);
    PCHECK(::pwrite(descriptor_, data, size, 0) == static_cast<ssize_t>(size));
  }
  std::string path() const {
    return absl::StrCat("/proc/self/fd/", descriptor_);
  }

 private:
  int descriptor_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static auto* file = new MemoryFile;
  file->Write(data, size);
  const auto contents = mica::ReadSafetensors(file->path());
  if (!contents.ok()) return 0;
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, data, sizeof(header_bytes));
  uint64_t total = sizeof(header_bytes) + header_bytes;
  for (const mica::NamedTensor& named : contents->tensors) {
    total += static_cast<uint64_t>(named.tensor.type().num_bytes());
  }
  CHECK_EQ(total, size);
  return 0;
}
