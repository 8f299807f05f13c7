// ParseSchedule() on any bytes: it returns, and what it takes prints to text
// that it takes again, to an equal Schedule. A bounded run:
//
//   build-fuzz/bin/schedule_fuzz -max_total_time=60 -rss_limit_mb=2048
//       -dict=tests/fuzz/schedule.dict /tmp/corpus tests/fuzz/schedule_corpus

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "framework/schedule/schedule.h"
#include "glog/logging.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const auto schedule = mica::ParseSchedule(text);
  if (!schedule.ok()) return 0;
  const std::string printed = mica::ToText(*schedule);
  const auto again = mica::ParseSchedule(printed);
  CHECK(again.ok()) << again.status() << "\n" << printed;
  CHECK(*again == *schedule) << printed;
  CHECK_EQ(mica::ToText(*again), printed);
  return 0;
}
