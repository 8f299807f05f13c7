// The log of a training run: one JSON object a line.

#ifndef MICA_TOOLS_TRAIN_LOG_H_
#define MICA_TOOLS_TRAIN_LOG_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace mica {

// A file that grows by whole lines. Move-only; single-thread.
class TrainLog {
 public:
  TrainLog() = default;  // Writes nothing.
  // Keeps the first `keep_bytes` bytes of the file: what comes after them was
  // written by a run that got no further checkpoint.
  static absl::StatusOr<TrainLog> Open(const std::string& path,
                                       int64_t keep_bytes);
  TrainLog(TrainLog&& other) noexcept;
  TrainLog& operator=(TrainLog&& other) noexcept;
  ~TrainLog();

  absl::Status Write(const nlohmann::ordered_json& line);
  int64_t bytes() const { return bytes_; }

 private:
  std::string path_;
  int descriptor_ = -1;
  int64_t bytes_ = 0;
};

}  // namespace mica

#endif  // MICA_TOOLS_TRAIN_LOG_H_
