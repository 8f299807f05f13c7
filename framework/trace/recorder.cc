#include "framework/trace/recorder.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/file.h"

namespace mica {
namespace trace_internal {

std::atomic<bool> is_on = false;

}  // namespace trace_internal

namespace {

// Behind the functions of the header.
class Recorder {
 public:
  absl::Status Start() {
    const std::lock_guard lock(mutex_);
    if (has_begun_) {
      return absl::FailedPreconditionError("a trace is being recorded");
    }
    has_begun_ = true;
    Forget();
    start_ns_ = TraceNow();
    trace_internal::is_on.store(true, std::memory_order_relaxed);
    return absl::OkStatus();
  }

  void Switch(bool is_on) {
    const std::lock_guard lock(mutex_);
    if (!has_begun_) return;
    trace_internal::is_on.store(is_on, std::memory_order_relaxed);
  }

  TraceEvents Stop() {
    const std::lock_guard lock(mutex_);
    trace_internal::is_on.store(false, std::memory_order_relaxed);
    has_begun_ = false;
    TraceEvents trace = std::exchange(trace_, {});
    Forget();
    for (TraceEvent& event : trace.events) {
      event.start_ns -= start_ns_;
      event.end_ns -= start_ns_;
    }
    return trace;
  }

  int64_t generation() const {
    return generation_.load(std::memory_order_relaxed);
  }

  // Around a fork: the child records nothing until it starts a trace itself.
  void Lock() { mutex_.lock(); }
  void Unlock() { mutex_.unlock(); }
  void UnlockInChild() {
    mutex_.unlock();
    Stop();
  }

  // A row for a thread, in the present generation.
  int32_t TakeTrack(const std::string& name, int64_t* generation) {
    const std::lock_guard lock(mutex_);
    *generation = this->generation();
    std::set<int32_t>& free = free_[name];
    if (!name.empty() && !free.empty()) {
      return free.extract(free.begin()).value();
    }
    const auto track = static_cast<int32_t>(trace_.tracks.size());
    trace_.tracks.push_back(name.empty() ? absl::StrCat("thread ", track)
                                         : name);
    return track;
  }

  void FreeTrack(const std::string& name, int32_t track, int64_t generation) {
    const std::lock_guard lock(mutex_);
    if (generation == this->generation()) free_[name].insert(track);
  }

  void Add(std::vector<TraceEvent> events) {
    const std::lock_guard lock(mutex_);
    if (!has_begun_) return;
    for (TraceEvent& event : events) {
      if (event.start_ns < start_ns_) continue;  // Of a trace before this one.
      Keep(std::move(event));
    }
  }

  void Add(TraceEvent event, int64_t generation) {
    const std::lock_guard lock(mutex_);
    if (!has_begun_ || generation != this->generation()) return;
    Keep(std::move(event));
  }

 private:
  void Keep(TraceEvent event) {
    if (static_cast<int64_t>(trace_.events.size()) < kMaxTraceEvents) {
      trace_.events.push_back(std::move(event));
    } else {
      ++trace_.num_dropped;
    }
  }
  void Forget() {
    generation_.fetch_add(1, std::memory_order_relaxed);
    trace_ = {};
    free_.clear();
  }

  std::mutex mutex_;
  // Goes up with each trace that begins or ends.
  std::atomic<int64_t> generation_ = 1;
  bool has_begun_ = false;
  int64_t start_ns_ = 0;
  TraceEvents trace_;
  // Rows of threads that have ended, by name.
  std::map<std::string, std::set<int32_t>> free_;
};

// Never destroyed: threads may end after statics are gone.
Recorder& TheRecorder() {
  static Recorder& recorder = [] {
    pthread_atfork([] { TheRecorder().Lock(); }, [] { TheRecorder().Unlock(); },
                   [] { TheRecorder().UnlockInChild(); });
    return std::ref(*new Recorder);
  }();
  return recorder;
}

// A thread's row in the trace that it saw last.
struct ThreadRow {
  std::string name =
      getpid() == static_cast<pid_t>(syscall(SYS_gettid)) ? "main" : "";
  int32_t track = -1;
  int64_t generation = 0;

  ~ThreadRow() {
    if (track >= 0) TheRecorder().FreeTrack(name, track, generation);
  }
};

ThreadRow& ThisRow() {
  static thread_local ThreadRow row;
  return row;
}

}  // namespace

absl::Status StartTrace() { return TheRecorder().Start(); }
void PauseTrace() { TheRecorder().Switch(false); }
void ResumeTrace() { TheRecorder().Switch(true); }
TraceEvents StopTrace() { return TheRecorder().Stop(); }
absl::Status StopTraceInto(const std::string& path) {
  return WriteFile(path, {ToChromeTrace(StopTrace())});
}

int64_t TraceNow() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void NameThisThread(std::string name) { ThisRow().name = std::move(name); }

int32_t ThisThreadTrack() {
  ThreadRow& row = ThisRow();
  if (row.generation != TheRecorder().generation()) {
    row.track = TheRecorder().TakeTrack(row.name, &row.generation);
  }
  return row.track;
}

void RecordEvents(std::vector<TraceEvent> events) {
  TheRecorder().Add(std::move(events));
}

void TraceSpan::Begin(absl::string_view category, absl::string_view name,
                      absl::string_view what) {
  generation_ = TheRecorder().generation();
  event_ = std::make_unique<TraceEvent>();
  event_->track = ThisThreadTrack();
  event_->category = std::string(category);
  event_->name = absl::StrCat(name, what);
  event_->start_ns = TraceNow();
}

void TraceSpan::End() {
  event_->end_ns = TraceNow();
  TheRecorder().Add(std::move(*event_), generation_);
}

void TraceSpan::Add(absl::string_view name,
                    std::variant<int64_t, double, std::string> value) {
  if (event_ == nullptr) return;
  event_->args.push_back({std::string(name), std::move(value)});
}

}  // namespace mica
