#include "framework/base/file_store.h"

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

// A writer that hasn't renamed its file for so long was killed.
constexpr absl::Duration kAbandoned = absl::Hours(1);
// To list a folder of thousands of files takes longer than to write some: it is
// looked at again once this store has written its part of the room that there
// was, as if so many wrote at a time, or of a small part of all.
constexpr int64_t kWriters = 8;
constexpr int64_t kLeastRoom = 64;

// Why what `info` is of isn't this user's alone to write; "" if it is.
std::string NotOwn(const struct stat& info) {
  if (info.st_uid != ::geteuid()) return "it is another user's";
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return "others can write it (chmod go-w makes it yours alone)";
  }
  return "";
}

bool IsName(absl::string_view name) {
  return name.size() == 32 &&
         name.find_first_not_of("0123456789abcdef") == absl::string_view::npos;
}

}  // namespace

absl::StatusOr<std::string> DefaultCacheFolder(absl::string_view what) {
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
  return absl::InvalidArgumentError(absl::StrCat(
      what, ": none of MICA_CACHE_DIR, XDG_CACHE_HOME and HOME is set"));
}

absl::StatusOr<std::unique_ptr<FileStore>> FileStore::Open(std::string folder,
                                                           Options options) {
  while (folder.size() > 1 && absl::EndsWith(folder, "/")) folder.pop_back();
  if (folder.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.what, ": wants a folder, got \"\""));
  }
  std::unique_ptr<FileStore> store(
      new FileStore(std::move(folder), std::move(options)));
  MICA_RETURN_IF_ERROR(store->MakeFolder());
  MICA_RETURN_IF_ERROR(store->CheckFolder());
  return store;
}

std::string FileStore::PathOf(absl::string_view name) const {
  return absl::StrCat(folder_, "/", name, options_.suffix);
}

absl::Status FileStore::SystemError(absl::string_view action,
                                    const std::string& path) const {
  return absl::InternalError(
      absl::StrCat(options_.what, ": can't ", action, " ", path, ": ",
                   std::system_category().message(errno)));
}

// mkdir -p, for the owner alone where a folder is new.
absl::Status FileStore::MakeFolder() const {
  for (size_t at = folder_.find('/', 1);; at = folder_.find('/', at + 1)) {
    const std::string part = folder_.substr(0, at);
    if (::mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) {
      return SystemError("make", part);
    }
    if (at == std::string::npos) return absl::OkStatus();
  }
}

absl::Status FileStore::CheckFolder() const {
  struct stat info;
  if (::lstat(folder_.c_str(), &info) != 0) {
    return SystemError("look at", folder_);
  }
  const std::string reason =
      S_ISDIR(info.st_mode) ? NotOwn(info) : "it is no folder";
  if (reason.empty()) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat(options_.what, ": ", folder_, " isn't used, because ",
                   reason, "; MICA_CACHE_DIR can name another folder"));
}

absl::StatusOr<std::string> FileStore::Read(const Fingerprint& key) const {
  const std::string name = key.ToHex();
  MICA_ASSIGN_OR_RETURN(std::string bytes, Peek(name));
  // A use is told by the file's time; to fail at that costs the entry's age.
  ::utimensat(AT_FDCWD, PathOf(name).c_str(), nullptr, 0);
  return bytes;
}

absl::StatusOr<std::string> FileStore::Peek(absl::string_view name) const {
  MICA_RETURN_IF_ERROR(CheckFolder());
  const std::string path = PathOf(name);
  MICA_ASSIGN_OR_RETURN(const InputFile file,
                        InputFile::Open(path, LinkPolicy::kRefuse));
  struct stat info;
  MICA_RETURN_IF_ERROR(file.Describe(&info));
  if (const std::string reason = NotOwn(info); !reason.empty()) {
    return absl::PermissionDeniedError(absl::StrCat(
        options_.what, ": ", path, " isn't used, because ", reason));
  }
  if (file.size() > options_.max_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(options_.what, ": ", path, ": wants at most ",
                     options_.max_bytes, " bytes, got ", file.size()));
  }
  std::string bytes(file.size(), '\0');
  MICA_RETURN_IF_ERROR(file.ReadAt(0, bytes.data(), file.size()));
  return bytes;
}

absl::Status FileStore::Write(const Fingerprint& key,
                              absl::string_view bytes) const {
  if (static_cast<int64_t>(bytes.size()) > options_.max_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat(options_.what, ": an entry of ", bytes.size(),
                     " bytes, room for ", options_.max_bytes));
  }
  MICA_RETURN_IF_ERROR(CheckFolder());
  MICA_RETURN_IF_ERROR(
      WriteFile(PathOf(key.ToHex()), {bytes}, Durability::kCache));
  const auto size = static_cast<int64_t>(bytes.size());
  if (room_->fetch_sub(size) >= size) return absl::OkStatus();
  int64_t rest = 0;
  MICA_RETURN_IF_ERROR(PruneTo(options_.max_bytes, &rest).status());
  const int64_t room =
      std::max(options_.max_bytes - rest, options_.max_bytes / kLeastRoom);
  room_->store(room / kWriters);
  return absl::OkStatus();
}

absl::Status FileStore::Remove(absl::string_view name) const {
  const std::string path = PathOf(name);
  if (::unlink(path.c_str()) == 0 || errno == ENOENT) return absl::OkStatus();
  return SystemError("remove", path);
}

absl::StatusOr<std::vector<FileStore::Entry>> FileStore::List() const {
  std::vector<Entry> entries;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder_, error), end;
       !error && it != end; it.increment(error)) {
    const std::string file = it->path().filename().string();
    absl::string_view name = file;
    struct stat info;
    // Another process may remove it meanwhile.
    if (!absl::ConsumeSuffix(&name, options_.suffix) || !IsName(name) ||
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

absl::StatusOr<int64_t> FileStore::Prune(int64_t max_bytes) const {
  int64_t rest = 0;
  return PruneTo(max_bytes, &rest);
}

absl::StatusOr<int64_t> FileStore::PruneTo(int64_t max_bytes,
                                           int64_t* rest) const {
  MICA_ASSIGN_OR_RETURN(const std::vector<Entry> entries, List());
  int64_t total = 0;
  for (const Entry& entry : entries) total += entry.bytes;
  int64_t freed = 0;
  for (const Entry& entry : entries) {
    if (total - freed <= max_bytes) break;
    MICA_RETURN_IF_ERROR(Remove(entry.name));
    freed += entry.bytes;
  }
  *rest = total - freed;
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
