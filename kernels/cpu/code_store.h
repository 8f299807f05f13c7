// Machine code that outlives its process, in a folder on disk.

#ifndef MICA_KERNELS_CPU_CODE_STORE_H_
#define MICA_KERNELS_CPU_CODE_STORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/base/file_store.h"

namespace mica::cpu {

// What MachineCode loads.
struct CodeImage {
  std::string bytes;
  int64_t entry = 0;
};

// Images by what they were made from, a text. Only files that this user alone
// can write are read, in a folder of which the same holds. Thread-safe.
class CodeStore {
 public:
  static absl::StatusOr<std::unique_ptr<CodeStore>> Open(std::string folder,
                                                         int64_t max_bytes);

  // NotFound if there is none. DataLoss if the file isn't, bit for bit, what
  // Write() has made of that text; then what FileStore::Read() says.
  absl::StatusOr<CodeImage> Read(absl::string_view text) const;
  absl::Status Write(absl::string_view text, const CodeImage& image) const;

 private:
  explicit CodeStore(std::unique_ptr<FileStore> files)
      : files_(std::move(files)) {}

  const std::unique_ptr<FileStore> files_;
};

}  // namespace mica::cpu

#endif  // MICA_KERNELS_CPU_CODE_STORE_H_
