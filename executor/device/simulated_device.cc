#include "executor/device/simulated_device.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "executor/device/twin_memory.h"
#include "framework/base/mutex.h"
#include "framework/base/status.h"
#include "framework/trace/recorder.h"
#include "kernels/cpu/team.h"
#include "kernels/cpu/team_size.h"

namespace mica {
namespace {

// One thing in a stream's queue.
struct Queued {
  enum class Kind : uint8_t { kLaunch, kCopy, kRecord, kWait };
  Kind kind = Kind::kLaunch;
  DeviceLaunch launch;
  std::vector<void*> args;
  void* to = nullptr;
  const void* from = nullptr;
  int64_t bytes = 0;
  std::shared_ptr<std::vector<char>> staged;  // What the host gave to copy.
  EventId event = 0;
  int64_t recording = 0;  // Which of the event's.
};

class SimulatedDevice;

class SimulatedGraph : public DeviceGraph {
 public:
  SimulatedGraph(SimulatedDevice& device, StreamId origin)
      : device_(device), origin_(origin) {}
  void Add(StreamId stream, Queued queued) {
    work_.emplace_back(stream, std::move(queued));
  }
  absl::Status Launch(StreamId stream) override;

 private:
  SimulatedDevice& device_;
  const StreamId origin_;
  std::vector<std::pair<StreamId, Queued>> work_;
};

class SimulatedDevice : public Device {
 public:
  SimulatedDevice(const SimulatedDeviceOptions& options,
                  std::unique_ptr<TwinMemory> memory)
      : options_(options), memory_(std::move(memory)) {}
  ~SimulatedDevice() override {
    while (!streams_.empty()) DestroyStream(streams_.begin()->first);
  }

  Place place() const override {
    return {DeviceKind::kSimulated, options_.index};
  }
  absl::StatusOr<void*> Allocate(int64_t bytes) override {
    return memory_->Allocate(bytes);
  }
  void Free(void* data) override {
    if (data == nullptr) return;
    AwaitAll();
    memory_->Free(data);
  }

  absl::StatusOr<StreamId> CreateStream() override;
  void DestroyStream(StreamId stream) override;
  absl::StatusOr<EventId> CreateEvent() override;
  void DestroyEvent(EventId event) override;

  absl::Status Copy(void* to, const void* from, int64_t bytes, CopyKind kind,
                    StreamId stream) override;
  absl::Status Launch(const DeviceLaunch& launch, StreamId stream) override;
  absl::Status Record(EventId event, StreamId stream) override;
  absl::Status Wait(StreamId stream, EventId event) override;
  DeviceError Synchronize(StreamId stream) override;
  absl::Status BeginCapture(StreamId stream) override;
  absl::StatusOr<std::unique_ptr<DeviceGraph>> EndCapture(
      StreamId stream) override;

  // Queues, or adds to the graph that the stream is captured for.
  absl::Status Add(Queued queued, StreamId stream);

 private:
  struct Stream {
    std::deque<Queued> queue;
    bool is_busy = false;
    bool ends = false;
    std::mt19937_64 random;
    std::thread thread;
    bool is_idle() const { return queue.empty() && !is_busy; }
  };
  struct Event {
    int64_t num_recorded = 0;
    int64_t num_happened = 0;
    bool is_captured = false;
  };

  void Work(Stream& stream, StreamId id);
  // Without the lock.
  void Run(const Queued& queued);
  void AwaitAll();

  const SimulatedDeviceOptions options_;
  const std::unique_ptr<TwinMemory> memory_;
  Mutex mutex_;
  std::map<StreamId, std::unique_ptr<Stream>> streams_ ABSL_GUARDED_BY(mutex_);
  std::map<EventId, Event> events_ ABSL_GUARDED_BY(mutex_);
  DeviceError error_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<SimulatedGraph> graph_ ABSL_GUARDED_BY(mutex_);
  std::vector<StreamId> captured_ ABSL_GUARDED_BY(mutex_);
};

// The least number that is no key.
template <typename T>
int32_t NewKey(const std::map<int32_t, T>& map) {
  int32_t key = 0;
  for (const auto& [taken, unused] : map) {
    if (taken != key) break;
    ++key;
  }
  return key;
}

absl::StatusOr<StreamId> SimulatedDevice::CreateStream() {
  const MutexLock lock(&mutex_);
  const StreamId id = NewKey(streams_);
  auto& stream = *(streams_[id] = std::make_unique<Stream>());
  stream.random.seed(options_.seed * 1000 + static_cast<uint64_t>(id));
  stream.thread = std::thread([this, &stream, id] { Work(stream, id); });
  return id;
}

void SimulatedDevice::DestroyStream(StreamId id) {
  std::unique_ptr<Stream> stream;
  {
    const MutexLock lock(&mutex_);
    const auto it = streams_.find(id);
    it->second->ends = true;
    stream = std::move(it->second);
    streams_.erase(it);
  }
  stream->thread.join();
}

absl::StatusOr<EventId> SimulatedDevice::CreateEvent() {
  const MutexLock lock(&mutex_);
  const EventId id = NewKey(events_);
  events_[id] = Event();
  return id;
}

void SimulatedDevice::DestroyEvent(EventId event) {
  AwaitAll();
  const MutexLock lock(&mutex_);
  events_.erase(event);
}

absl::Status SimulatedDevice::Copy(void* to, const void* from, int64_t bytes,
                                   CopyKind kind, StreamId stream) {
  Queued copy = {
      .kind = Queued::Kind::kCopy, .to = to, .from = from, .bytes = bytes};
  if (kind == CopyKind::kToDevice) {
    const auto* begin = static_cast<const char*>(from);
    copy.staged = std::make_shared<std::vector<char>>(begin, begin + bytes);
  }
  return Add(std::move(copy), stream);
}

absl::Status SimulatedDevice::Launch(const DeviceLaunch& launch,
                                     StreamId stream) {
  Queued queued = {.launch = launch};
  for (void* arg : launch.args) queued.args.push_back(memory_->Open(arg));
  return Add(std::move(queued), stream);
}

absl::Status SimulatedDevice::Record(EventId event, StreamId stream) {
  return Add({.kind = Queued::Kind::kRecord, .event = event}, stream);
}

absl::Status SimulatedDevice::Wait(StreamId stream, EventId event) {
  {
    const MutexLock lock(&mutex_);
    if (events_[event].is_captured &&
        !absl::c_linear_search(captured_, stream)) {
      captured_.push_back(stream);
    }
  }
  return Add({.kind = Queued::Kind::kWait, .event = event}, stream);
}

absl::Status SimulatedDevice::Add(Queued queued, StreamId id) {
  const MutexLock lock(&mutex_);
  const auto stream = streams_.find(id);
  if (stream == streams_.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat(place().ToString(), " has no stream ", id));
  }
  const bool is_captured = absl::c_linear_search(captured_, id);
  if (queued.kind == Queued::Kind::kRecord) {
    Event& event = events_[queued.event];
    event.is_captured = is_captured;
    if (!is_captured) queued.recording = ++event.num_recorded;
  } else if (queued.kind == Queued::Kind::kWait && !is_captured) {
    queued.recording = events_[queued.event].num_recorded;
  }
  if (is_captured) {
    graph_->Add(id, std::move(queued));
  } else {
    stream->second->queue.push_back(std::move(queued));
  }
  return absl::OkStatus();
}

void SimulatedDevice::Work(Stream& stream, StreamId id) {
  NameThisThread(absl::StrCat(place().ToString(), " stream ", id));
  // A kernel's further threads are none of the device's.
  const cpu::TeamSize size(1);
  const cpu::TeamScope team(cpu::TeamOfOne());
  while (true) {
    Queued queued;
    {
      const MutexLock lock(&mutex_);
      mutex_.Await([&] { return stream.ends || !stream.queue.empty(); });
      if (stream.queue.empty()) return;
      queued = std::move(stream.queue.front());
      stream.queue.pop_front();
      stream.is_busy = true;
      if (queued.kind == Queued::Kind::kWait) {
        mutex_.Await([&] {
          return events_[queued.event].num_happened >= queued.recording;
        });
      }
    }
    if (options_.most_delay_microseconds > 0) {
      const auto most = static_cast<uint64_t>(options_.most_delay_microseconds);
      const uint64_t delay = stream.random() % (most + 1);
      std::this_thread::sleep_for(std::chrono::microseconds(delay));
    }
    Run(queued);
    const MutexLock lock(&mutex_);
    stream.is_busy = false;
  }
}

void SimulatedDevice::Run(const Queued& queued) {
  switch (queued.kind) {
    case Queued::Kind::kWait:
      return;
    case Queued::Kind::kRecord: {
      const MutexLock lock(&mutex_);
      events_[queued.event].num_happened = queued.recording;
      return;
    }
    case Queued::Kind::kCopy: {
      const void* from = queued.staged != nullptr ? queued.staged->data()
                                                  : memory_->Open(queued.from);
      if (queued.bytes > 0) {
        std::memcpy(memory_->Open(queued.to), from, queued.bytes);
      }
      return;
    }
    case Queued::Kind::kLaunch:
      break;
  }
  {
    // What comes behind an error has nothing to go on with.
    const MutexLock lock(&mutex_);
    if (!error_.status.ok()) return;
  }
  LaunchContext context;
  const DeviceLaunch& launch = queued.launch;
  if (launch.fn(launch.state, queued.args.data(), context)) return;
  const MutexLock lock(&mutex_);
  error_ = {std::move(context.status), launch.step};
}

DeviceError SimulatedDevice::Synchronize(StreamId stream) {
  const MutexLock lock(&mutex_);
  mutex_.Await([&] {
    const auto it = streams_.find(stream);
    return it == streams_.end() || it->second->is_idle();
  });
  return std::exchange(error_, DeviceError());
}

void SimulatedDevice::AwaitAll() {
  const MutexLock lock(&mutex_);
  mutex_.Await([&] {
    return absl::c_all_of(
        streams_, [](const auto& entry) { return entry.second->is_idle(); });
  });
}

absl::Status SimulatedDevice::BeginCapture(StreamId stream) {
  const MutexLock lock(&mutex_);
  if (graph_ != nullptr) {
    return absl::FailedPreconditionError("a graph is being captured already");
  }
  graph_ = std::make_unique<SimulatedGraph>(*this, stream);
  captured_ = {stream};
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<DeviceGraph>> SimulatedDevice::EndCapture(
    StreamId) {
  const MutexLock lock(&mutex_);
  captured_.clear();
  for (auto& [id, event] : events_) event.is_captured = false;
  return std::exchange(graph_, nullptr);
}

absl::Status SimulatedGraph::Launch(StreamId stream) {
  for (const auto& [at, queued] : work_) {
    MICA_RETURN_IF_ERROR(device_.Add(queued, at == origin_ ? stream : at));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<Device>> MakeSimulatedDevice(
    const SimulatedDeviceOptions& options) {
  MICA_ASSIGN_OR_RETURN(auto memory, TwinMemory::Create(options.memory_bytes));
  return std::shared_ptr<Device>(
      std::make_shared<SimulatedDevice>(options, std::move(memory)));
}

}  // namespace mica
