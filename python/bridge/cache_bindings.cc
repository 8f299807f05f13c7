#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "analysis/plan/plan_file.h"
#include "analysis/plan/plan_store.h"
#include "python/bridge/bindings.h"
#include "python/bridge/status.h"
#include "python/process/plans.h"

namespace mica {
namespace {

namespace nb = nanobind;

struct CacheEntry {
  std::string name;
  int64_t bytes = 0;
  double used = 0;      // Seconds since 1970.
  std::string program;  // "" if damaged.
  std::string state;    // "ok", "other build" or what is damaged.
};

std::unique_ptr<PlanStore> Open(const std::string& folder) {
  return ValueOrThrow(PlanStore::Open(folder));
}

std::vector<CacheEntry> List(const std::string& folder) {
  const std::unique_ptr<PlanStore> store = Open(folder);
  std::vector<CacheEntry> entries;
  for (const PlanStore::Entry& entry : ValueOrThrow(store->List())) {
    CacheEntry listed{
        .name = entry.name,
        .bytes = entry.bytes,
        .used = absl::ToDoubleSeconds(entry.used - absl::UnixEpoch())};
    const absl::StatusOr<std::string> bytes = store->Peek(entry.name);
    absl::StatusOr<PlanFileInfo> info =
        bytes.ok() ? InspectPlanFile(*bytes) : bytes.status();
    if (absl::IsNotFound(info.status())) continue;  // Removed meanwhile.
    if (info.ok()) {
      listed.program = info->program;
      listed.state = info->is_current ? "ok" : "other build";
    } else {
      listed.state = std::string(info.status().message());
    }
    entries.push_back(std::move(listed));
  }
  return entries;
}

void Remove(const std::string& folder, const std::string& name) {
  ThrowIfError(Open(folder)->Remove(name));
}

int64_t Prune(const std::string& folder, int64_t max_bytes) {
  return ValueOrThrow(Open(folder)->Prune(max_bytes));
}

std::string Folder() { return ValueOrThrow(DefaultPlanFolder()); }

nb::dict Stats() {
  const PlanCache::Stats stats = Plans()->stats();
  nb::dict counts;
  counts["built"] = stats.built;
  counts["shared"] = stats.shared;
  counts["loaded"] = stats.loaded;
  return counts;
}

}  // namespace

void BindCache(nb::module_& m) {
  nb::class_<CacheEntry>(m, "CacheEntry")
      .def_ro("name", &CacheEntry::name)
      .def_ro("bytes", &CacheEntry::bytes)
      .def_ro("used", &CacheEntry::used)
      .def_ro("program", &CacheEntry::program)
      .def_ro("state", &CacheEntry::state);
  m.def("cache_folder", &Folder);
  m.def("cache_list", &List, nb::arg("folder"));
  m.def("cache_remove", &Remove, nb::arg("folder"), nb::arg("name"));
  m.def("cache_prune", &Prune, nb::arg("folder"), nb::arg("max_bytes"));
  m.def("plan_stats", &Stats);
}

}  // namespace mica
