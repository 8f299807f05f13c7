// Where the way of a run forks, and where ways may meet.

#ifndef MICA_PYTHON_CAPTURE_WATCH_WAY_WATCH_H_
#define MICA_PYTHON_CAPTURE_WATCH_WAY_WATCH_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "analysis/ways/way_run.h"
#include "python/capture/watch/round_state.h"
#include "python/capture/watch/watch_part.h"
#include "python/torch_side/tensors/torch_state.h"

namespace mica {

// All that a program has at a moment: what RoundState tells, and torch's state.
struct MeetingState {
  RoundState own;
  TorchState torch;
  friend bool operator==(const MeetingState&, const MeetingState&) = default;
};

// The forks of a run, and the joins behind them.
struct RunWays {
  std::vector<WayEvent> events;
  std::vector<MeetingState> states;  // By WayEvent::state.
  std::string unknown;  // Why ways of the program aren't known; or empty.
};

// Notes what the program reads on the host, which it may go by; and, at the
// first moment to which all ways from a jump lead, what it has: runs that have
// the same there do the same from there on, whichever way they came. What else
// they changed since they forked must be part of what they have.
class WayWatch final : public WatchPart {
 public:
  explicit WayWatch(WatchGround& ground) : WatchPart(ground) {}

  void SetNameOf(RoundState::NameOf name_of) { name_of_ = std::move(name_of); }

  // The step at hand is over. The run has read `num_reads` values on the host,
  // the last of them by call `last_read`.
  void EndStep(PyObject* result, size_t num_reads, int32_t last_read);

  // How many forks there were.
  int64_t num_forks() const { return static_cast<int64_t>(forks_.size()); }
  // For a jump in a function that began when there were so many: the first fork
  // since then of which no jump was told; -1 for none.
  int64_t TakeForks(int64_t num_before);
  // The ways from a jump after fork `since` meet.
  void Join(int64_t since, absl::Span<PyObject* const> variables,
            absl::Span<PyObject* const> operands);

  // The step at hand changes an object; what it holds.
  void Change(PyObject* object) {
    if (!forks_.empty()) NoteChange(object);
  }
  // The same of an attribute. What tensors hold is on the tape.
  void ChangeAttribute(PyObject* owner);
  // It changes what no object stands for.
  void ChangeOther() { last_other_ = num_forks(); }
  void ReadAttribute(PyObject* owner, PyObject* name);
  // It looks at an object, and what that holds: an iterator gives its items.
  void Look(PyObject* object) {
    if (!forks_.empty()) LookInto(object);
  }
  void Compare(PyObject* a, PyObject* b);
  // It asks whether a container has an item, or makes it a key.
  void Find(PyObject* item);
  void MakeIterator() { makes_iterator_ = true; }
  void Call(PyObject* callable, absl::Span<PyObject* const> args);

  // What is known once the run is over. `comparisons` and `reads` are those on
  // the tape, `first` is the first comparison's call. Ends this.
  RunWays Finish(absl::Span<const HostValues::Comparison> comparisons,
                 absl::Span<const TapeHostRead> reads, int32_t first);

 private:
  struct Fork {
    int32_t calls = 0;
    int32_t read = -1;        // The call; or
    int32_t comparison = -1;  // by number.
  };
  struct Meeting {
    int64_t since = 0;
    int64_t num_forks = 0;  // That came before it.
    WayEvent event;
  };

  void NoteChange(PyObject* object);
  void LookInto(PyObject* object);
  void Stop(const char* why);
  // How many forks came before an object was made, at least.
  int64_t ForksBefore(PyObject* object) const;

  RoundState::NameOf name_of_;
  std::vector<Fork> forks_;
  std::vector<Meeting> meetings_;
  std::vector<MeetingState> states_;
  size_t num_reads_ = 0;
  int32_t num_comparisons_ = 0;
  int64_t told_ = 0;         // Forks of which a jump was told.
  int64_t last_other_ = -1;  // How many forks there were.
  bool makes_iterator_ = false;
  struct Changed {
    PyObject* object = nullptr;  // Not dereferenced.
    int64_t num_forks = 0;       // That came before the change,
    int64_t made = 0;            // and before it was made.
  };
  std::vector<Changed> changes_;
  absl::flat_hash_map<PyObject*, int64_t> iterators_;  // When they were made.
  std::vector<std::unique_ptr<AgeMark>> marks_;        // One a fork.
  std::string unknown_;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_WATCH_WAY_WATCH_H_
