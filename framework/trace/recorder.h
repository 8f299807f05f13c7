// Records what this process does, while somebody wants it.

#ifndef MICA_FRAMEWORK_TRACE_RECORDER_H_
#define MICA_FRAMEWORK_TRACE_RECORDER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "framework/trace/trace_event.h"

namespace mica {

// There is one recorder, off unless somebody turned it on; then all parts tell
// it what they do. What is off costs a look at a flag. Thread-safe.

namespace trace_internal {
extern std::atomic<bool> is_on;
}  // namespace trace_internal

inline bool IsTracing() {
  return trace_internal::is_on.load(std::memory_order_relaxed);
}

// Forgets what there is and begins. FailedPrecondition if it has begun.
absl::Status StartTrace();
// Nothing new is recorded between the two.
void PauseTrace();
void ResumeTrace();
// Ends it. Times count from the start. Spans that haven't ended are left out.
TraceEvents StopTrace();
// The same into a file. What WriteFile() says against it.
absl::Status StopTraceInto(const std::string& path);
// More events than so many are dropped, and counted.
inline constexpr int64_t kMaxTraceEvents = 4'000'000;

// Of a clock that never goes back.
int64_t TraceNow();

// What the calling thread's row is called; by default a number. Threads that
// live at one time have rows of their own; one that begins under the name of
// one that has ended goes on in its row.
void NameThisThread(std::string name);
// The calling thread's row.
int32_t ThisThreadTrack();

// Adds what was noted elsewhere, at times of TraceNow() and on rows of
// ThisThreadTrack().
void RecordEvents(std::vector<TraceEvent> events);

// From here to the end of the scope, on the calling thread's row.
class TraceSpan {
 public:
  // Called `name` with `what` behind it. The category is a part of the program.
  explicit TraceSpan(absl::string_view category, absl::string_view name,
                     absl::string_view what = "") {
    if (IsTracing()) Begin(category, name, what);
  }
  ~TraceSpan() {
    if (event_ != nullptr) End();
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

  // Whether it is recorded: arguments are worth making.
  bool is_on() const { return event_ != nullptr; }
  // Without effect if it isn't.
  void Add(absl::string_view name,
           std::variant<int64_t, double, std::string> value);

 private:
  void Begin(absl::string_view category, absl::string_view name,
             absl::string_view what);
  void End();
  std::unique_ptr<TraceEvent> event_;
  int64_t generation_ = 0;
};

}  // namespace mica

#endif  // MICA_FRAMEWORK_TRACE_RECORDER_H_
