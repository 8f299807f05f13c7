// Files, with errors as Status: NotFound for a path that isn't there,
// ResourceExhausted for a full disk, Internal for what else the system refuses.

#ifndef MICA_FRAMEWORK_BASE_FILE_H_
#define MICA_FRAMEWORK_BASE_FILE_H_

#include <sys/stat.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace mica {

// What the system says by `error`, an errno: "can't read model.mica: …".
absl::Status ErrnoStatus(int error, absl::string_view action,
                         absl::string_view path);

// What becomes of a path whose last part is a symbolic link.
enum class LinkPolicy { kFollow, kRefuse };

// A file open for reading at any position. Move-only; thread-compatible.
class InputFile {
 public:
  // PermissionDenied for a link that is refused.
  static absl::StatusOr<InputFile> Open(const std::string& path,
                                        LinkPolicy links = LinkPolicy::kFollow);
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;
  ~InputFile();

  // Fills `bytes` bytes at `to` from `offset` on. Returns InvalidArgument if
  // the file ends before that.
  absl::Status ReadAt(int64_t offset, void* to, int64_t bytes) const;

  // The whole file as memory, from a page's begin on; written to, it is the
  // process's own, and the file stays as it is. Null for an empty file. Who
  // makes the file shorter meanwhile ends the process that reads it.
  absl::StatusOr<std::shared_ptr<void>> Map() const;

  // Of the file that is open, whatever its path names by now.
  absl::Status Describe(struct ::stat* info) const;

  int64_t size() const { return size_; }
  const std::string& path() const { return path_; }

 private:
  InputFile(int descriptor, int64_t size, std::string path);

  int descriptor_ = -1;
  int64_t size_ = 0;
  std::string path_;
};

// The longest file that ReadFile() takes: it is for text.
inline constexpr int64_t kMaxTextFileBytes = int64_t{1} << 30;

// All of the file. Returns InvalidArgument past kMaxTextFileBytes.
absl::StatusOr<std::string> ReadFile(const std::string& path);

// The end of a file's name while WriteFile() writes it.
inline constexpr absl::string_view kTemporarySuffix = ".tmp";

enum class Durability {
  // The usual rights; on the disk when WriteFile() returns, so that a power cut
  // leaves the old file or the new one.
  kLasting,
  // For the owner alone, and not waited for: a power cut may leave a damaged
  // file, which its reader must notice.
  kCache,
};

// Replaces the file by the chunks, one after another. Readers see the old file
// or the new one, never half of one; on failure the old one stays.
absl::Status WriteFile(const std::string& path,
                       absl::Span<const absl::string_view> chunks,
                       Durability durability = Durability::kLasting);

}  // namespace mica

#endif  // MICA_FRAMEWORK_BASE_FILE_H_
