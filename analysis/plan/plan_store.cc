#include "analysis/plan/plan_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "framework/base/environment.h"
#include "framework/base/file.h"
#include "framework/base/status.h"

namespace mica {
namespace {

constexpr absl::string_view kSuffix = ".plan";
// A writer that hasn't renamed its file for so long was killed.
constexpr absl::Duration kAbandoned = absl::Hours(1);

absl::Status SystemError(absl::string_view what, const std::string& path) {
  return absl::InternalError(
      absl::StrCat("plan cache: can't ", what, " ", path, ": ",
                   std::system_category().message(errno)));
}

// mkdir -p, for the owner alone where a folder is new.
absl::Status MakeFolder(const std::string& folder) {
  for (size_t at = folder.find('/', 1);; at = folder.find('/', at + 1)) {
    const std::string part = folder.substr(0, at);
    if (::mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) {
      return SystemError("make", part);
    }
    if (at == std::string::npos) return absl::OkStatus();
  }
}

absl::Status CheckFolder(const std::string& folder) {
  struct stat info;
  if (::lstat(folder.c_str(), &info) != 0)
    return SystemError("look at", folder);
  const auto refuse = [&](absl::string_view reason) {
    return absl::PermissionDeniedError(
        absl::StrCat("plan cache: ", folder, " isn't used, because ", reason,
                     "; MICA_CACHE_DIR can name another folder"));
  };
  if (!S_ISDIR(info.st_mode)) return refuse("it is no folder");
  if (info.st_uid != ::geteuid()) return refuse("it is another user's");
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return refuse("others can write it (chmod go-w makes it yours alone)");
  }
  return absl::OkStatus();
}

bool IsName(absl::string_view name) {
  return name.size() == 32 &&
         name.find_first_not_of("0123456789abcdef") == absl::string_view::npos;
}

}  // namespace

absl::StatusOr<std::string> DefaultPlanFolder() {
  if (std::string folder = EnvironmentVariable("MICA_CACHE_DIR");
      !folder.empty()) {
    return folder;
  }
  if (std::string cache = EnvironmentVariable("XDG_CACHE_HOME");
      !cache.empty()) {
    return cache + "/mica";
  }
  if (std::string home = EnvironmentVariable("HOME"); !home.empty()) {
    return home + "/.cache/mica";
  }
  return absl::InvalidArgumentError(
      "plan cache: none of MICA_CACHE_DIR, XDG_CACHE_HOME and HOME is set");
}

absl::StatusOr<std::unique_ptr<PlanStore>> PlanStore::Open(std::string folder,
                                                           int64_t max_bytes) {
  while (folder.size() > 1 && absl::EndsWith(folder, "/")) folder.pop_back();
  if (folder.empty()) {
    return absl::InvalidArgumentError("plan cache: wants a folder, got \"\"");
  }
  MICA_RETURN_IF_ERROR(MakeFolder(folder));
  MICA_RETURN_IF_ERROR(CheckFolder(folder));
  return std::unique_ptr<PlanStore>(
      new PlanStore(std::move(folder), max_bytes));
}

std::string PlanStore::PathOf(absl::string_view name) const {
  return absl::StrCat(folder_, "/", name, kSuffix);
}

absl::StatusOr<std::string> PlanStore::Read(const Fingerprint& key) const {
  const std::string name = key.ToHex();
  MICA_ASSIGN_OR_RETURN(std::string bytes, Peek(name));
  // A use is told by the file's time; to fail at that costs the entry's age.
  ::utimensat(AT_FDCWD, PathOf(name).c_str(), nullptr, 0);
  return bytes;
}

absl::StatusOr<std::string> PlanStore::Peek(absl::string_view name) const {
  return ReadFile(PathOf(name));
}

absl::Status PlanStore::Write(const Fingerprint& key,
                              absl::string_view bytes) const {
  if (static_cast<int64_t>(bytes.size()) > max_bytes_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("plan cache: an entry of ", bytes.size(),
                     " bytes, room for ", max_bytes_));
  }
  MICA_RETURN_IF_ERROR(CheckFolder(folder_));
  MICA_RETURN_IF_ERROR(
      WriteFile(PathOf(key.ToHex()), {bytes}, Durability::kCache));
  return Prune(max_bytes_).status();
}

absl::Status PlanStore::Remove(absl::string_view name) const {
  const std::string path = PathOf(name);
  if (::unlink(path.c_str()) == 0 || errno == ENOENT) return absl::OkStatus();
  return SystemError("remove", path);
}

absl::StatusOr<std::vector<PlanStore::Entry>> PlanStore::List() const {
  std::vector<Entry> entries;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder_, error), end;
       !error && it != end; it.increment(error)) {
    const std::string file = it->path().filename().string();
    absl::string_view name = file;
    struct stat info;
    // Another process may remove it meanwhile.
    if (!absl::ConsumeSuffix(&name, kSuffix) || !IsName(name) ||
        ::lstat(it->path().c_str(), &info) != 0 || !S_ISREG(info.st_mode)) {
      continue;
    }
    entries.push_back({.name = std::string(name),
                       .bytes = info.st_size,
                       .used = absl::TimeFromTimespec(info.st_mtim)});
  }
  if (error) {
    errno = error.value();
    return SystemError("list", folder_);
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.used, a.name) < std::tie(b.used, b.name);
  });
  return entries;
}

absl::StatusOr<int64_t> PlanStore::Prune(int64_t max_bytes) const {
  MICA_ASSIGN_OR_RETURN(const std::vector<Entry> entries, List());
  int64_t total = 0;
  for (const Entry& entry : entries) total += entry.bytes;
  int64_t freed = 0;
  for (const Entry& entry : entries) {
    if (total - freed <= max_bytes) break;
    MICA_RETURN_IF_ERROR(Remove(entry.name));
    freed += entry.bytes;
  }
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder_, error), end;
       !error && it != end; it.increment(error)) {
    struct stat info;
    if (!absl::EndsWith(it->path().string(), kTemporarySuffix) ||
        ::lstat(it->path().c_str(), &info) != 0 ||
        absl::Now() - absl::TimeFromTimespec(info.st_mtim) < kAbandoned) {
      continue;
    }
    if (::unlink(it->path().c_str()) == 0) freed += info.st_size;
  }
  return freed;
}

}  // namespace mica
