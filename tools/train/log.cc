#include "tools/train/log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace mica {
namespace {

absl::Status WriteError(const std::string& path, int error) {
  return absl::InternalError(
      absl::StrCat("can't write ", path, ": ", std::strerror(error)));
}

}  // namespace

TrainLog::TrainLog(TrainLog&& other) noexcept { *this = std::move(other); }

TrainLog& TrainLog::operator=(TrainLog&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

TrainLog::~TrainLog() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

absl::StatusOr<TrainLog> TrainLog::Open(const std::string& path,
                                        int64_t keep_bytes) {
  TrainLog log;
  log.path_ = path;
  log.descriptor_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (log.descriptor_ < 0) return WriteError(path, errno);
  const off_t size = ::lseek(log.descriptor_, 0, SEEK_END);
  log.bytes_ = std::min<int64_t>(std::max<off_t>(size, 0), keep_bytes);
  // A device can't be cut, nor need it be.
  if (size > log.bytes_ && ::ftruncate(log.descriptor_, log.bytes_) != 0 &&
      errno != EINVAL) {
    return WriteError(path, errno);
  }
  ::lseek(log.descriptor_, log.bytes_, SEEK_SET);
  return log;
}

absl::Status TrainLog::Write(const nlohmann::ordered_json& line) {
  if (descriptor_ < 0) return absl::OkStatus();
  const std::string text =
      line.dump(-1, ' ', false,
                nlohmann::ordered_json::error_handler_t::replace) +
      "\n";
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t written =
        ::write(descriptor_, text.data() + done, text.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return WriteError(path_, errno);
    done += static_cast<size_t>(written);
  }
  bytes_ += static_cast<int64_t>(text.size());
  return absl::OkStatus();
}

}  // namespace mica
