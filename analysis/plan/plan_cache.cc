#include "analysis/plan/plan_cache.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "analysis/plan/plan_file.h"
#include "framework/base/status.h"
#include "framework/trace/recorder.h"
#include "glog/logging.h"

namespace mica {

PlanCache::Setting PlanCache::SettingOf(const PlanOptions& options) {
  const Hook* hook = options.prepare_aten.target<Hook>();
  return {.fields = PlanFieldsOf(options),
          .has_opaque = options.prepare_aten != nullptr,
          .opaque = hook == nullptr ? nullptr : *hook};
}

absl::StatusOr<std::shared_ptr<const Plan>> PlanCache::Get(
    const std::shared_ptr<const Program>& program, const PlanOptions& options) {
  TraceSpan span("analysis", "get plan of @", program->name());
  const Setting setting = SettingOf(options);
  {
    MutexLock lock(&mutex_);
    if (auto plan = FindKnown(program.get(), setting)) {
      span.Add("from", "this process, by address");
      ++stats_.shared;
      return plan;
    }
  }
  // Function objects can't be compared.
  const bool is_shareable = options.prepare_aten == nullptr ||
                            setting.opaque != nullptr ||
                            program->OpaqueDefs().empty();
  if (!is_shareable) return Build(program, options);
  MICA_ASSIGN_OR_RETURN(auto plan,
                        GetByContent(program, options, setting.opaque));
  MutexLock lock(&mutex_);
  known_[program.get()].push_back(
      {.program = program, .setting = setting, .plan = plan});
  Purge();
  return plan;
}

absl::StatusOr<std::shared_ptr<const Plan>> PlanCache::GetByContent(
    const std::shared_ptr<const Program>& program, const PlanOptions& options,
    Hook opaque) {
  TraceSpan span("analysis", "find plan by content");
  auto mine = std::make_shared<Entry>(
      Entry{.key = key_of_(*program, options), .opaque = opaque});
  {
    MutexLock lock(&mutex_);
    while (const auto entry = FindEntry(mine->key, opaque)) {
      if (auto plan = entry->plan.lock()) {
        span.Add("from", "this process");
        ++stats_.shared;
        return plan;
      }
      if (!entry->is_building) {
        RemoveEntry(entry.get());  // Nobody uses that Plan any more.
        continue;
      }
      // Who builds may want a lock of Python's that this thread holds.
      if (!program->OpaqueDefs().empty()) break;
      // If that build fails, this one gives its own error.
      mutex_.Await([&] { return !entry->is_building; });
    }
    mine->is_building = true;
    entries_[mine->key.fingerprint].push_back(mine);
  }
  auto plan = LoadOrBuild(mine->key, program, options);
  MutexLock lock(&mutex_);
  mine->is_building = false;
  if (plan.ok()) {
    mine->plan = *plan;
  } else {
    RemoveEntry(mine.get());
  }
  return plan;
}

absl::StatusOr<std::shared_ptr<const Plan>> PlanCache::Build(
    const std::shared_ptr<const Program>& program, const PlanOptions& options) {
  // Without passes there is nothing to share that takes time.
  if (!options.fuse || !program->is_static()) {
    auto plan = Plan::Build(program, ops_, kernels_, options);
    MutexLock lock(&mutex_);
    if (plan.ok()) ++stats_.built;
    return plan;
  }
  ProgramStructure structure = StructureOf(*program);
  // Other passes leave something else.
  structure.bytes +=
      absl::StrCat(options.fusing, "\n", PrecisionName(options.precision));
  const Fingerprint fingerprint = FingerprintOf(structure.bytes);
  std::shared_ptr<const PlanStructure> known;
  {
    MutexLock lock(&mutex_);
    const auto it = structures_.find(fingerprint);
    if (it != structures_.end() && it->second.bytes == structure.bytes) {
      known = it->second.structure.lock();
    }
  }
  if (known != nullptr) {
    auto plan =
        Plan::BuildBy(known, *program, structure, ops_, kernels_, options);
    // What else fails is told in terms of the Program's own lines.
    if (plan.ok()) {
      MutexLock lock(&mutex_);
      ++stats_.built;
      ++stats_.by_structure;
      return plan;
    }
  }
  MICA_ASSIGN_OR_RETURN(
      auto plan, Plan::Build(program, ops_, kernels_, options, &structure));
  MutexLock lock(&mutex_);
  ++stats_.built;
  if (known == nullptr && plan->structure() != nullptr) {
    structures_[fingerprint] = {.bytes = std::move(structure.bytes),
                                .structure = plan->structure()};
  }
  return plan;
}

std::shared_ptr<const Plan> PlanCache::Load(const PlanKey& key,
                                            const Program& program,
                                            const PlanOptions& options) {
  const TraceSpan span("analysis", "look for plan on disk");
  absl::StatusOr<std::string> bytes = store_->Read(key.fingerprint);
  if (!bytes.ok()) {
    if (!absl::IsNotFound(bytes.status())) WarnOnce(bytes.status());
    return nullptr;
  }
  auto plan = DecodePlan(*bytes, key, program, ops_, kernels_, options);
  if (!plan.ok()) {
    WarnOnce(plan.status());
    return nullptr;
  }
  MutexLock lock(&mutex_);
  ++stats_.loaded;
  return *std::move(plan);
}

absl::StatusOr<std::shared_ptr<const Plan>> PlanCache::LoadOrBuild(
    const PlanKey& key, const std::shared_ptr<const Program>& program,
    const PlanOptions& options) {
  const bool may_store = store_ != nullptr && program->OpaqueDefs().empty() &&
                         program->is_static();
  if (!may_store) return Build(program, options);
  if (auto plan = Load(key, *program, options)) return plan;
  const absl::Time start = absl::Now();
  MICA_ASSIGN_OR_RETURN(auto plan, Build(program, options));
  if (absl::Now() - start < min_build_) return plan;
  const TraceSpan span("analysis", "leave plan on disk");
  absl::StatusOr<std::string> bytes = EncodePlan(key, *plan, ops_);
  // What has no stored form is simply built each time.
  if (!bytes.ok()) return plan;
  const absl::Status status = store_->Write(key.fingerprint, *bytes);
  if (!status.ok()) WarnOnce(status);
  return plan;
}

void PlanCache::WarnOnce(const absl::Status& status) {
  MutexLock lock(&mutex_);
  if (!std::exchange(has_warned_, true)) {
    LOG(WARNING) << "plan cache " << store_->folder()
                 << ": goes on without: " << status;
  }
}

std::shared_ptr<const Plan> PlanCache::FindKnown(const Program* program,
                                                 const Setting& setting) {
  const auto it = known_.find(program);
  if (it == known_.end()) return nullptr;
  for (const Known& known : it->second) {
    // Another Program may have been made at the address of one that is gone.
    if (known.program.lock().get() != program) continue;
    if (!(known.setting == setting)) continue;
    if (auto plan = known.plan.lock()) return plan;
  }
  return nullptr;
}

std::shared_ptr<PlanCache::Entry> PlanCache::FindEntry(const PlanKey& key,
                                                       Hook opaque) {
  const auto it = entries_.find(key.fingerprint);
  if (it == entries_.end()) return nullptr;
  for (const auto& entry : it->second) {
    if (entry->opaque == opaque && entry->key == key) return entry;
  }
  return nullptr;
}

void PlanCache::RemoveEntry(const Entry* entry) {
  const auto it = entries_.find(entry->key.fingerprint);
  if (it == entries_.end()) return;
  auto& list = it->second;
  std::erase_if(list, [&](const auto& other) { return other.get() == entry; });
  if (list.empty()) entries_.erase(it);
}

void PlanCache::Purge() {
  if (entries_.size() + known_.size() < purge_at_) return;
  absl::erase_if(structures_, [](const auto& bucket) {
    return bucket.second.structure.expired();
  });
  absl::erase_if(entries_, [](auto& bucket) {
    std::erase_if(bucket.second, [](const auto& entry) {
      return !entry->is_building && entry->plan.expired();
    });
    return bucket.second.empty();
  });
  absl::erase_if(known_, [](auto& bucket) {
    std::erase_if(bucket.second, [](const Known& known) {
      return known.program.expired() || known.plan.expired();
    });
    return bucket.second.empty();
  });
  purge_at_ = std::max<size_t>(64, 2 * (entries_.size() + known_.size()));
}

PlanCache::Stats PlanCache::stats() const {
  MutexLock lock(&mutex_);
  return stats_;
}

}  // namespace mica
