// One Plan for all Programs that are equal.

#ifndef MICA_ANALYSIS_PLAN_PLAN_CACHE_H_
#define MICA_ANALYSIS_PLAN_PLAN_CACHE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "analysis/plan/plan.h"
#include "analysis/plan/plan_key.h"
#include "analysis/plan/plan_store.h"
#include "framework/base/mutex.h"
#include "framework/ir/content.h"
#include "framework/ir/program.h"
#include "framework/kernel/kernel_registry.h"
#include "framework/op/op_registry.h"

namespace mica {

// Plans in use, by content: Programs that are equal but for labels (names, the
// user's lines) and are planned under equal options get the same object. A Plan
// lives as long as somebody uses it; the cache keeps none alive.
//
// A shared Plan has the labels of the Program that came first. Give yours to
// Binding::Create(), and errors name its lines.
//
// A Program that differs in sizes alone from one whose Plan is in use gets a
// Plan of its own, built by the structure of that one.
//
// Thread-safe. Callers who want the same Plan at once wait for the first.
class PlanCache {
 public:
  struct Stats {
    int64_t built = 0;
    int64_t shared = 0;  // Answers that built nothing.
    int64_t loaded = 0;  // Answers that came from the store.
    // Of those that were built: by the structure of a Plan in use.
    int64_t by_structure = 0;
  };
  // Which keys to compare; tests give one that collides.
  using KeyFn = std::function<PlanKey(const Program&, const PlanOptions&)>;

  // The registries must outlive the cache and its Plans.
  PlanCache(const OpRegistry& ops, const KernelRegistry& kernels,
            KeyFn key_of = &PlanKeyOf)
      : ops_(ops), kernels_(kernels), key_of_(std::move(key_of)) {}

  // Looks for Plans there before it builds them, and leaves there what it has
  // built; but not Plans with opaque operators. `store` keeps Plans of the
  // kernels that this build registers: only for a cache of AllKernels(). What
  // fails about it is told once, in the log, and Plans are built. What is built
  // in less than `min_build` isn't worth a file. Call it before the first
  // Get().
  void set_store(std::unique_ptr<PlanStore> store,
                 absl::Duration min_build = absl::ZeroDuration()) {
    store_ = std::move(store);
    min_build_ = min_build;
  }

  // The Plan of `program`, or what Plan::Build() says against it, in terms of
  // its own labels. A Program that was asked for before is known by its
  // address, without a look at its content.
  absl::StatusOr<std::shared_ptr<const Plan>> Get(
      const std::shared_ptr<const Program>& program,
      const PlanOptions& options);

  Stats stats() const;

 private:
  using Hook = Verdict (*)(const KernelRequest&);
  // What besides the Program tells two Plans apart.
  struct Setting {
    PlanFields fields;
    bool has_opaque = false;  // Whether there is options.prepare_aten.
    Hook opaque = nullptr;    // Of options.prepare_aten, if it is a function.
    friend bool operator==(const Setting&, const Setting&) = default;
  };
  struct Entry {
    PlanKey key;
    Hook opaque = nullptr;
    bool is_building = false;
    std::weak_ptr<const Plan> plan;
  };
  struct Known {
    std::weak_ptr<const Program> program;
    Setting setting;
    std::weak_ptr<const Plan> plan;
  };

  static Setting SettingOf(const PlanOptions& options);
  std::shared_ptr<const Plan> FindKnown(const Program* program,
                                        const Setting& setting)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::shared_ptr<Entry> FindEntry(const PlanKey& key, Hook opaque)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RemoveEntry(const Entry* entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Forgets what nobody uses any more, once that may be half of all.
  void Purge() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::shared_ptr<const Plan>> Build(
      const std::shared_ptr<const Program>& program,
      const PlanOptions& options);
  // From the store, else built, and put there.
  absl::StatusOr<std::shared_ptr<const Plan>> LoadOrBuild(
      const PlanKey& key, const std::shared_ptr<const Program>& program,
      const PlanOptions& options);
  std::shared_ptr<const Plan> Load(const PlanKey& key, const Program& program,
                                   const PlanOptions& options);
  // Tells of the store's first failure; it goes on without.
  void WarnOnce(const absl::Status& status);
  absl::StatusOr<std::shared_ptr<const Plan>> GetByContent(
      const std::shared_ptr<const Program>& program, const PlanOptions& options,
      Hook opaque);

  const OpRegistry& ops_;
  const KernelRegistry& kernels_;
  const KeyFn key_of_;
  std::unique_ptr<PlanStore> store_;
  absl::Duration min_build_;
  mutable Mutex mutex_;
  absl::flat_hash_map<Fingerprint, std::vector<std::shared_ptr<Entry>>> entries_
      ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<const Program*, std::vector<Known>> known_
      ABSL_GUARDED_BY(mutex_);
  // By the fingerprint of StructureOf(); all bytes are compared.
  struct SharedStructure {
    LargeString bytes;
    std::weak_ptr<const PlanStructure> structure;
  };
  absl::flat_hash_map<Fingerprint, SharedStructure> structures_
      ABSL_GUARDED_BY(mutex_);
  size_t purge_at_ ABSL_GUARDED_BY(mutex_) = 64;
  bool has_warned_ ABSL_GUARDED_BY(mutex_) = false;
  Stats stats_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace mica

#endif  // MICA_ANALYSIS_PLAN_PLAN_CACHE_H_
