// A folder of stored Plans that processes of one user share.

#ifndef MICA_ANALYSIS_PLAN_PLAN_STORE_H_
#define MICA_ANALYSIS_PLAN_PLAN_STORE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "framework/base/file_store.h"

namespace mica {

// Where Plans are kept unless told otherwise. InvalidArgument if that isn't
// known.
inline absl::StatusOr<std::string> DefaultPlanFolder() {
  return DefaultCacheFolder("plan cache");
}

inline constexpr int64_t kDefaultPlanStoreBytes = int64_t{256} << 20;

// Says nothing of what the bytes mean: see plan_file.h.
class PlanStore : public FileStore {
 public:
  static absl::StatusOr<std::unique_ptr<PlanStore>> Open(
      std::string folder, int64_t max_bytes = kDefaultPlanStoreBytes) {
    auto store = FileStore::Open(
        std::move(folder),
        {.what = "plan cache", .suffix = ".plan", .max_bytes = max_bytes});
    if (!store.ok()) return std::move(store).status();
    return std::unique_ptr<PlanStore>(new PlanStore(std::move(**store)));
  }

 private:
  explicit PlanStore(FileStore&& store) : FileStore(std::move(store)) {}
};

}  // namespace mica

#endif  // MICA_ANALYSIS_PLAN_PLAN_STORE_H_
