// A folder of stored Plans that processes of one user share.

#ifndef MICA_ANALYSIS_PLAN_PLAN_STORE_H_
#define MICA_ANALYSIS_PLAN_PLAN_STORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "framework/base/fingerprint.h"

namespace mica {

// Where Plans are kept unless told otherwise: $MICA_CACHE_DIR, else
// $XDG_CACHE_HOME/mica, else ~/.cache/mica. InvalidArgument if none is known.
absl::StatusOr<std::string> DefaultPlanFolder();

inline constexpr int64_t kDefaultPlanStoreBytes = int64_t{256} << 20;

// One file an entry, named by fingerprint. Writers in any number of processes
// leave whole files only; what has not been read for longest makes room for
// what is new. Says nothing of what the bytes mean: see plan_file.h.
//
// Thread-safe: it keeps nothing but the folder's name.
class PlanStore {
 public:
  struct Entry {
    std::string name;  // The fingerprint's digits.
    int64_t bytes = 0;
    absl::Time used;  // Last written or read.
  };

  // Makes the folder, for its owner alone, unless it is there.
  // PermissionDenied, saying what to do, if it belongs to somebody else, if
  // others can write it, or if it is a link.
  static absl::StatusOr<std::unique_ptr<PlanStore>> Open(
      std::string folder, int64_t max_bytes = kDefaultPlanStoreBytes);

  // NotFound if there is none. Counts as a use.
  absl::StatusOr<std::string> Read(const Fingerprint& key) const;
  // The same by an entry's name, without counting as a use.
  absl::StatusOr<std::string> Peek(absl::string_view name) const;
  // Then prunes to max_bytes.
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
  PlanStore(std::string folder, int64_t max_bytes)
      : folder_(std::move(folder)), max_bytes_(max_bytes) {}
  std::string PathOf(absl::string_view name) const;

  const std::string folder_;
  const int64_t max_bytes_;
};

}  // namespace mica

#endif  // MICA_ANALYSIS_PLAN_PLAN_STORE_H_
