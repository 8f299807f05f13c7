// A folder of files that processes of one user share: what may be made anew,
// but takes long to.

#ifndef MICA_FRAMEWORK_BASE_FILE_STORE_H_
#define MICA_FRAMEWORK_BASE_FILE_STORE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "framework/base/fingerprint.h"

namespace mica {

// Where such is kept unless told otherwise: $MICA_CACHE_DIR, else
// $XDG_CACHE_HOME/mica, else ~/.cache/mica. InvalidArgument, in the name of
// `what`, if none is known.
absl::StatusOr<std::string> DefaultCacheFolder(absl::string_view what);

// One file an entry, named by fingerprint. Writers in any number of processes
// leave whole files only; what has not been read for longest makes room for
// what is new. Says nothing of what the bytes mean, nor that they are what was
// written: readers have to notice a damaged one.
//
// Thread-safe: it keeps nothing but what it was opened with, and how much may
// be written before it looks at the folder again.
class FileStore {
 public:
  struct Options {
    std::string what;    // What errors begin with: "plan cache".
    std::string suffix;  // Of its files, others in the folder aren't touched.
    int64_t max_bytes = 0;
  };
  struct Entry {
    std::string name;  // The fingerprint's digits.
    int64_t bytes = 0;
    absl::Time used;  // Last written or read.
  };

  // Makes the folder, for its owner alone, unless it is there.
  // PermissionDenied, saying what to do, if it belongs to somebody else, if
  // others can write it, or if it is a link.
  static absl::StatusOr<std::unique_ptr<FileStore>> Open(std::string folder,
                                                         Options options);

  // NotFound if there is none; PermissionDenied if the file or, by now, the
  // folder is a link, another user's, or one that others can write. Counts as a
  // use.
  absl::StatusOr<std::string> Read(const Fingerprint& key) const;
  // The same by an entry's name, without counting as a use.
  absl::StatusOr<std::string> Peek(absl::string_view name) const;
  // Then prunes to max_bytes, if it may be near that.
  absl::Status Write(const Fingerprint& key, absl::string_view bytes) const;
  absl::Status Remove(absl::string_view name) const;
  // Least lately used first.
  absl::StatusOr<std::vector<Entry>> List() const;
  // Removes entries, least lately used first, until the rest take `max_bytes`
  // at most, and what writers that were killed have left. Returns the bytes
  // that it has freed.
  absl::StatusOr<int64_t> Prune(int64_t max_bytes) const;

  const std::string& folder() const { return folder_; }

 private:
  FileStore(std::string folder, Options options)
      : folder_(std::move(folder)), options_(std::move(options)) {}
  // `rest`: what stays.
  absl::StatusOr<int64_t> PruneTo(int64_t max_bytes, int64_t* rest) const;
  std::string PathOf(absl::string_view name) const;
  absl::Status SystemError(absl::string_view action,
                           const std::string& path) const;
  absl::Status MakeFolder() const;
  absl::Status CheckFolder() const;

  const std::string folder_;
  const Options options_;
  // Shared by copies.
  const std::shared_ptr<std::atomic<int64_t>> room_ =
      std::make_shared<std::atomic<int64_t>>(0);
};

}  // namespace mica

#endif  // MICA_FRAMEWORK_BASE_FILE_STORE_H_
