#include "kernels/cpu/region_compiler.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <deque>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "framework/base/mutex.h"
#include "framework/base/status.h"
#include "glog/logging.h"
#include "kernels/cpu/code_store.h"
#include "kernels/cpu/region_linker.h"
#include "kernels/cpu/region_plugin.h"
#include "kernels/region/signature.h"
#include "kernels/region/version.h"

namespace mica::cpu {
namespace {

// On a core that is busy, a quarter of its time: planning isn't held up much,
// and code comes.
constexpr int kNiceness = 5;
// Who asks for one region asks for more: planning goes on first.
constexpr std::chrono::milliseconds kPatience(20);

constexpr size_t kMostLoggedText = 200;
// Cells that nobody holds any more are forgotten when there are so many more.
constexpr size_t kForgetEvery = 256;

double MsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(
             std::chrono::steady_clock::now() - start)
      .count();
}

std::string Shortened(const std::string& text) {
  if (text.size() <= kMostLoggedText) return text;
  return absl::StrCat(text.substr(0, kMostLoggedText), "…");
}

// Threads start with all signals blocked: they are for the program's own.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

absl::string_view RegionLevelName(RegionLevel level) {
  constexpr absl::string_view kNames[] = {"v1", "v3", "v4"};
  return kNames[static_cast<int>(level)];
}

struct RegionCompiler::State {
  struct Job {
    std::string text;
    std::weak_ptr<RegionMachineCode> cell;
  };

  explicit State(Options options) : options(std::move(options)) {}

  // And whether nobody has asked for it before.
  std::pair<std::shared_ptr<RegionMachineCode>, bool> CellOf(
      const std::string& text);
  void Enqueue(std::string text, std::weak_ptr<RegionMachineCode> cell);
  void StartThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void Stop();
  static void* ThreadMain(void* state);
  // One job, if there is one.
  bool Work();
  void Do(const Job& job);
  // False if there is no image that can be loaded.
  bool LoadStored(const std::string& text, RegionMachineCode& cell);
  std::string KeyOf(const std::string& text) const;
  absl::Status Load(const CodeImage& image, RegionMachineCode& cell) const;
  absl::StatusOr<CodeImage> Compile(const std::string& text);
  const absl::StatusOr<RegionPlugin>& Plugin();
  std::optional<CodeImage> ReadStored(const std::string& key);
  void Keep(const std::string& key, const CodeImage& image);
  CodeStore* Store() ABSL_EXCLUSIVE_LOCKS_REQUIRED(store_mutex);
  // Of what is wrong with the store, the first.
  void TellOnce(absl::string_view what, const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(store_mutex);

  const Options options;

  // Held while something is compiled; taken before the others. What is behind
  // it is the working thread's.
  Mutex work;
  std::optional<absl::StatusOr<RegionPlugin>> plugin;

  // Held while a file is read or written; taken before `mutex`.
  Mutex store_mutex;
  std::optional<absl::StatusOr<std::unique_ptr<CodeStore>>> store
      ABSL_GUARDED_BY(store_mutex);
  bool is_store_told ABSL_GUARDED_BY(store_mutex) = false;
  bool may_write ABSL_GUARDED_BY(store_mutex) = true;

  Mutex mutex;
  absl::flat_hash_map<std::string, std::weak_ptr<RegionMachineCode>> cells
      ABSL_GUARDED_BY(mutex);
  size_t forget_at ABSL_GUARDED_BY(mutex) = kForgetEvery;
  absl::flat_hash_set<std::string> failed ABSL_GUARDED_BY(mutex);
  std::deque<Job> queue ABSL_GUARDED_BY(mutex);
  Stats stats ABSL_GUARDED_BY(mutex);
  pthread_t thread ABSL_GUARDED_BY(mutex) = {};
  bool has_thread ABSL_GUARDED_BY(mutex) = false;  // To be joined.
  bool is_working ABSL_GUARDED_BY(mutex) = false;  // It takes further jobs.
  bool is_stopping ABSL_GUARDED_BY(mutex) = false;
};

namespace {

// fork() copies one thread alone. So it waits until nothing is being compiled,
// and the child starts a thread of its own at its next request.
template <class State>
class Forks {
 public:
  static void Add(State* state) {
    static const int once = ::pthread_atfork(Before, InParent, InChild);
    (void)once;
    const MutexLock lock(&mutex());
    all().push_back(state);
  }
  static void Remove(State* state) {
    const MutexLock lock(&mutex());
    all().erase(std::remove(all().begin(), all().end(), state), all().end());
  }

 private:
  static Mutex& mutex() {
    static Mutex& mutex = *new Mutex;
    return mutex;
  }
  static std::vector<State*>& all() {
    static auto& all = *new std::vector<State*>;
    return all;
  }
  static void Before() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    mutex().Lock();
    for (State* state : all()) {
      state->work.Lock();
      state->store_mutex.Lock();
      state->mutex.Lock();
    }
  }
  static void InParent() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    for (State* state : all()) {
      state->mutex.Unlock();
      state->store_mutex.Unlock();
      state->work.Unlock();
    }
    mutex().Unlock();
  }
  static void InChild() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    for (State* state : all()) {
      state->has_thread = false;
      state->is_working = false;
    }
    InParent();
  }
};

}  // namespace

std::pair<std::shared_ptr<RegionMachineCode>, bool>
RegionCompiler::State::CellOf(const std::string& text) {
  const MutexLock lock(&mutex);
  if (cells.size() >= forget_at) {
    absl::erase_if(cells,
                   [](const auto& cell) { return cell.second.expired(); });
    forget_at = cells.size() + kForgetEvery;
  }
  std::weak_ptr<RegionMachineCode>& known = cells[text];
  std::shared_ptr<RegionMachineCode> cell = known.lock();
  if (cell != nullptr) return {cell, false};
  cell = std::make_shared<RegionMachineCode>();
  known = cell;
  return {cell, !is_stopping && !failed.contains(text)};
}

void RegionCompiler::State::Enqueue(std::string text,
                                    std::weak_ptr<RegionMachineCode> cell) {
  const MutexLock lock(&mutex);
  if (is_stopping) return;
  queue.push_back({.text = std::move(text), .cell = std::move(cell)});
  StartThread();
}

void RegionCompiler::State::StartThread() {
  if (is_working) return;
  // It has said that it takes no further job, and does nothing more.
  if (has_thread) ::pthread_join(thread, nullptr);
  const SignalsBlocked blocked;
  const int error = ::pthread_create(&thread, nullptr, ThreadMain, this);
  has_thread = is_working = error == 0;
  if (error == 0) return;
  LOG_FIRST_N(WARNING, 1) << "regions aren't compiled: no thread for it: "
                          << std::strerror(error);
  stats.failed += static_cast<int64_t>(queue.size());
  queue.clear();
}

void* RegionCompiler::State::ThreadMain(void* state) {
  ::pthread_setname_np(::pthread_self(), "mica-compile");
  // Linux has it for each thread.
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)),
                kNiceness);
  std::this_thread::sleep_for(kPatience);
  while (static_cast<State*>(state)->Work()) {
  }
  return nullptr;
}

bool RegionCompiler::State::Work() {
  const MutexLock working(&work);
  Job job;
  {
    const MutexLock lock(&mutex);
    if (queue.empty() || is_stopping) {
      is_working = false;
      return false;
    }
    job = std::move(queue.front());
    queue.pop_front();
  }
  Do(job);
  return true;
}

void RegionCompiler::State::Do(const Job& job) {
  const std::shared_ptr<RegionMachineCode> cell = job.cell.lock();
  if (cell == nullptr) return;
  const auto start = std::chrono::steady_clock::now();
  const std::string key = KeyOf(job.text);
  std::optional<CodeImage> image = ReadStored(key);
  const bool is_stored = image.has_value();
  absl::Status status;
  if (!is_stored) {
    absl::StatusOr<CodeImage> made = Compile(job.text);
    status = made.status();
    if (made.ok()) image = *std::move(made);
  }
  if (image.has_value()) {
    status = Load(*image, *cell);
  }
  const double ms = MsSince(start);
  // Without a compiler, there is nothing to say of each region.
  const bool is_told = plugin.has_value() && !plugin->ok();
  if (!status.ok() && !is_told) {
    LOG(WARNING) << "a region isn't compiled, but interpreted: "
                 << status.message() << "; it is " << Shortened(job.text);
  }
  {
    const MutexLock lock(&mutex);
    if (!status.ok()) {
      ++stats.failed;
      failed.insert(job.text);
      return;
    }
    ++(is_stored ? stats.loaded : stats.compiled);
    (is_stored ? stats.load_ms : stats.compile_ms) += ms;
    stats.image_bytes += static_cast<int64_t>(image->bytes.size());
  }
  if (!is_stored) Keep(key, *image);
}

bool RegionCompiler::State::LoadStored(const std::string& text,
                                       RegionMachineCode& cell) {
  const auto start = std::chrono::steady_clock::now();
  const std::optional<CodeImage> image = ReadStored(KeyOf(text));
  if (!image.has_value() || !Load(*image, cell).ok()) return false;
  const MutexLock lock(&mutex);
  ++stats.loaded;
  stats.load_ms += MsSince(start);
  stats.image_bytes += static_cast<int64_t>(image->bytes.size());
  return true;
}

std::string RegionCompiler::State::KeyOf(const std::string& text) const {
  return absl::StrCat(region::EmitterVersion(), "\n",
                      RegionLevelName(options.level), "\n", text);
}

absl::Status RegionCompiler::State::Load(const CodeImage& image,
                                         RegionMachineCode& cell) const {
  MICA_ASSIGN_OR_RETURN(cell.code_, LoadRegionCode(image, options.loops));
  cell.fn_.store(cell.code_.entry<region::RegionFn>(),
                 std::memory_order_release);
  return absl::OkStatus();
}

absl::StatusOr<CodeImage> RegionCompiler::State::Compile(
    const std::string& text) {
  const absl::StatusOr<RegionPlugin>& plugin = Plugin();
  MICA_RETURN_IF_ERROR(plugin.status());
  return plugin->Compile(text, RegionLevelName(options.level).data());
}

const absl::StatusOr<RegionPlugin>& RegionCompiler::State::Plugin() {
  if (plugin.has_value()) return *plugin;
  plugin = RegionPlugin::Load(options.library);
  std::string compiler;
  if (plugin->ok()) {
    compiler = absl::StrCat((*plugin)->name(), " for ",
                            RegionLevelName(options.level));
  } else {
    compiler = absl::StrCat("none: ", plugin->status().message());
    // A build without LLVM isn't worth a line, if nobody has asked for it.
    const bool is_missing =
        absl::IsNotFound(plugin->status()) && options.library.empty();
    if (is_missing) {
      VLOG(1) << "regions are interpreted: " << plugin->status().message();
    } else {
      LOG(WARNING) << "regions aren't compiled, but interpreted: "
                   << plugin->status().message();
    }
  }
  const MutexLock lock(&mutex);
  stats.compiler = std::move(compiler);
  return *plugin;
}

void RegionCompiler::State::TellOnce(absl::string_view what,
                                     const absl::Status& status) {
  if (!is_store_told) {
    LOG(WARNING) << "compiled regions are " << what << ": " << status.message();
  }
  is_store_told = true;
}

CodeStore* RegionCompiler::State::Store() {
  if (options.folder.empty()) return nullptr;
  if (!store.has_value()) {
    store = CodeStore::Open(options.folder, options.max_folder_bytes);
    if (!store->ok()) TellOnce("not kept on disk", store->status());
  }
  return store->ok() ? (*store)->get() : nullptr;
}

std::optional<CodeImage> RegionCompiler::State::ReadStored(
    const std::string& key) {
  const MutexLock lock(&store_mutex);
  const CodeStore* const store = Store();
  if (store == nullptr) return std::nullopt;
  absl::StatusOr<CodeImage> image = store->Read(key);
  if (image.ok()) return *std::move(image);
  if (!absl::IsNotFound(image.status()))
    TellOnce("made anew, not read", image.status());
  return std::nullopt;
}

void RegionCompiler::State::Keep(const std::string& key,
                                 const CodeImage& image) {
  const MutexLock lock(&store_mutex);
  const CodeStore* const store = Store();
  if (store == nullptr || !may_write) return;
  const absl::Status status = store->Write(key, image);
  if (status.ok()) return;
  may_write = false;
  TellOnce("not kept on disk any more", status);
}

void RegionCompiler::State::Stop() {
  pthread_t stopped;
  {
    const MutexLock lock(&mutex);
    is_stopping = true;
    queue.clear();
    if (!has_thread) return;
    has_thread = false;
    stopped = thread;
  }
  ::pthread_join(stopped, nullptr);
}

RegionCompiler::RegionCompiler(Options options)
    : state_(std::make_unique<State>(std::move(options))) {
  Forks<State>::Add(state_.get());
}

RegionCompiler::~RegionCompiler() {
  Stop();
  Forks<State>::Remove(state_.get());
}

void RegionCompiler::Stop() { state_->Stop(); }

std::shared_ptr<const RegionMachineCode> RegionCompiler::Request(
    const region::Signature& signature) {
  if (!state_->options.is_on) {
    static const auto& none =
        *new std::shared_ptr<const RegionMachineCode>(new RegionMachineCode);
    return none;
  }
  std::string text = region::SignatureText(signature);
  auto [cell, is_new] = state_->CellOf(text);
  if (is_new && !state_->LoadStored(text, *cell)) {
    state_->Enqueue(std::move(text), cell);
  }
  return cell;
}

bool RegionCompiler::is_on() const { return state_->options.is_on; }

RegionCompiler::Stats RegionCompiler::stats() const {
  const MutexLock lock(&state_->mutex);
  return state_->stats;
}

void RegionCompiler::Wait() {
  const MutexLock lock(&state_->mutex);
  // In a child of fork() nobody works yet on what its parent has asked for.
  if (!state_->queue.empty()) state_->StartThread();
  state_->mutex.Await(
      [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return !state_->is_working; });
}

}  // namespace mica::cpu
