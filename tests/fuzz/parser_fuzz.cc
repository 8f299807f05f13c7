// ParseProgram() on any bytes: it returns, and what it takes prints to text
// that it takes again, to the same text. A bounded run:
//
//   build-fuzz/bin/parser_fuzz -max_total_time=60 -rss_limit_mb=2048
//       -dict=tests/fuzz/parser.dict /tmp/corpus tests/fuzz/corpus

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "framework/text/text.h"
#include "glog/logging.h"
#include "ops/all.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const auto program = mica::ParseProgram(text, mica::AllOps());
  if (!program.ok()) return 0;
  const std::string printed = mica::ToText(*program);
  const auto again = mica::ParseProgram(printed, mica::AllOps());
  CHECK(again.ok()) << again.status() << "\n" << printed;
  CHECK_EQ(mica::ToText(*again), printed);
  return 0;
}
