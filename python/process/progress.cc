#include "python/process/progress.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_format.h"
#include "framework/base/environment.h"

namespace mica {
namespace {

constexpr auto kPatience = std::chrono::seconds(1);
constexpr auto kInterval = std::chrono::milliseconds(250);

bool IsWanted() {
  const char* wish = std::getenv("MICA_PROGRESS");
  if (wish != nullptr && std::strcmp(wish, "0") == 0) return false;
  const char* terminal = std::getenv("TERM");
  return isatty(STDERR_FILENO) == 1 && terminal != nullptr &&
         std::strcmp(terminal, "dumb") != 0;
}

void Write(const std::string& text) {
  // What the terminal doesn't take is lost; the next line says it again.
  const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
  static_cast<void>(written);
}

}  // namespace

// The line of one task, and the thread that draws it.
class Progress::Line {
 public:
  explicit Line(std::string task) : task_(std::move(task)), process_(getpid()) {
    // Signals are the main thread's.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const absl::Cleanup restore = [&] {
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
    };
    thread_ = std::thread([this] { Draw(); });
  }

  // False in a process that the task has forked: there is no such thread.
  bool End() {
    if (getpid() != process_) return false;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      is_done_ = true;
    }
    changed_.notify_one();
    thread_.join();
    return true;
  }

  void SetPhase(const char* phase) { phase_.store(phase); }

 private:
  void Draw() {
    const auto start = std::chrono::steady_clock::now();
    auto next = start + kPatience;
    bool is_drawn = false;
    std::unique_lock<std::mutex> lock(mutex_);
    while (!changed_.wait_until(lock, next, [this] { return is_done_; })) {
      const std::chrono::duration<double> time =
          std::chrono::steady_clock::now() - start;
      Write(absl::StrFormat("\r\x1b[Kmica: %s: %s, %.0f s", task_,
                            phase_.load(), time.count()));
      is_drawn = true;
      next = std::chrono::steady_clock::now() + kInterval;
    }
    if (is_drawn) Write("\r\x1b[K");
  }

  const std::string task_;
  const pid_t process_;
  std::atomic<const char*> phase_{"watching the run"};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_done_ = false;  // Under mutex_.
  std::thread thread_;
};

namespace {

// Whether a thread has a line, and the line of this thread.
std::atomic<bool> is_shown{false};
thread_local void* own_line = nullptr;

}  // namespace

Progress::Progress(std::string task) {
  if (own_line != nullptr || !IsWanted() || is_shown.exchange(true)) return;
  try {
    line_ = new Line(std::move(task));
    own_line = line_;
  } catch (const std::system_error&) {
    is_shown.store(false);  // There is no thread to be had.
  }
}

Progress::~Progress() {
  if (line_ == nullptr) return;
  // In a forked process the object is left as it is: its thread isn't there.
  if (line_->End()) delete line_;
  own_line = nullptr;
  is_shown.store(false);
}

void Progress::SetPhase(const char* phase) {
  if (own_line != nullptr) static_cast<Line*>(own_line)->SetPhase(phase);
}

}  // namespace mica
