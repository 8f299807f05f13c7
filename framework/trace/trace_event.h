// What happened when, and the file that shows it.

#ifndef MICA_FRAMEWORK_TRACE_TRACE_EVENT_H_
#define MICA_FRAMEWORK_TRACE_TRACE_EVENT_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/types/span.h"

namespace mica {

// What a span shows beside its name, or one curve of a counter.
struct TraceArg {
  std::string name;
  std::variant<int64_t, double, std::string> value;
};

struct TraceEvent {
  enum class Kind : uint8_t {
    kSpan,     // On `track`, from `start_ns` to `end_ns`.
    kCounter,  // What `args` are from `start_ns` on; without a track.
    kArrow,    // From `track` at `start_ns` to `to_track` at `end_ns`.
  };
  Kind kind = Kind::kSpan;
  int32_t track = 0;
  int32_t to_track = 0;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  std::string name;
  std::string category;
  std::vector<TraceArg> args;
};

// Rows by their names, and what happened on them. On one row spans lie beside
// or within each other.
struct TraceEvents {
  std::vector<std::string> tracks;
  std::vector<TraceEvent> events;
  int64_t num_dropped = 0;  // Events that there was no room for.
};

// JSON in the trace event format, which Perfetto and chrome://tracing read: an
// event a line, rows in the order of `tracks`, "dropped_events" in "otherData".
std::string ToChromeTrace(const TraceEvents& trace);

}  // namespace mica

#endif  // MICA_FRAMEWORK_TRACE_TRACE_EVENT_H_
