// What the parts of a StateWatch have in common.

#ifndef MICA_PYTHON_CAPTURE_WATCH_WATCH_PART_H_
#define MICA_PYTHON_CAPTURE_WATCH_WATCH_PART_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "python/capture/guards/state_guards.h"
#include "python/capture/known/purity.h"
#include "python/capture/values/guard_note.h"
#include "python/capture/values/host_values.h"
#include "python/capture/watch/object_ages.h"
#include "python/capture/watch/object_names.h"
#include "python/capture/watch/refusals.h"
#include "python/interpreter/interpreter.h"
#include "python/interpreter/py_ref.h"
#include "python/torch_side/tensors/cpu_modes.h"

namespace mica {

// How deep the program looks into an object: an operand is looked at; what an
// argument of a C function holds is looked at, too.
inline constexpr int kShallow = 0;
inline constexpr int kDeep = 1;

// What the events of the step at hand say of it.
struct WatchStep {
  // It fills new tensors with Python's values: then memory that no operator
  // wrote holds constants.
  bool is_making_tensor = false;
  bool makes_constant = false;  // What it makes holds nothing else.
  bool shares_array = false;    // The tensor that it makes shares one's memory.
  bool makes_array = false;     // It may give a new numpy array.
  bool takes_from_array = false;  // It gives a view of one, or its flags.
  bool makes_iterator = false;    // It may give one.
  bool makes_new = false;         // It gives a new object that isn't tracked.
  bool is_allocating = false;     // The program's own torch.empty or its like.
  bool gives_address = false;     // It calls id().
  bool is_dropped = false;        // Nobody has what it gives.
  PyObject* stored = nullptr;     // What it stores. Borrowed.
  PyRef shown;     // A tensor: what it gives is an array in that one's memory.
  PyRef viewed;    // A tensor: what it gives may show a part of that, by
  PyRef view_key;  // this key if there is one.
  // What is to be called in place of what it calls; null for that itself.
  PyRef in_place_of_call;
  // Of its call: no look into it, and what it returns follows from no single
  // number.
  const CallAnnotation* annotated = nullptr;
};

// What a watch asks of the recorder; each may be empty.
struct RecorderHooks {
  // What to do with a new tensor that holds Python's values only.
  std::function<void(PyObject*)> on_made;
  // Called around each call that is made again at hits: what that does itself
  // belongs to no record.
  std::function<void(bool begins)> on_host_call;
  // How many operators the run has called.
  std::function<int64_t()> num_calls;
  // Which of them made a tensor, and which of its results that is: call,
  // output, item; a call of -1 if none did.
  std::function<std::array<int32_t, 3>(PyObject*)> find_maker;

  // The program reads what a node of autograd's keeps, indices perhaps.
  std::function<void()> on_saved_read;

  void ReadSaved() const {
    if (on_saved_read) on_saved_read();
  }
  void Mute(bool begins) const {
    if (on_host_call) on_host_call(begins);
  }
  int64_t NumCalls() const { return num_calls ? num_calls() : 0; }
};

// What all parts of a watch share. Outlives them.
struct WatchGround {
  explicit WatchGround(PyFrameObject* caller) : refusals(caller), ages(&names) {
    refusals.SetOnRefused([this] { modes.Show(); });
  }

  Refusals refusals;
  ObjectNames names;
  ObjectAges ages;
  HostValues values;
  StateGuards guards;
  WatchStep step;
  RecorderHooks recorder;
  CpuModes modes;
  // When the later pass that is under way began; null if none is. See
  // LaterPassWatch.
  std::unique_ptr<AgeMark> later_pass;
};

// A part of a StateWatch: what it makes of one kind of event. Parts know the
// ground and those parts that stand on it before them. Single-thread.
class WatchPart {
 public:
  WatchPart(const WatchPart&) = delete;
  WatchPart& operator=(const WatchPart&) = delete;

 protected:
  explicit WatchPart(WatchGround& ground)
      : refusals_(ground.refusals),
        names_(ground.names),
        ages_(ground.ages),
        values_(ground.values),
        guards_(ground.guards),
        step_(ground.step),
        recorder_(ground.recorder),
        modes_(ground.modes),
        later_pass_(ground.later_pass) {}
  ~WatchPart() = default;

  void Refuse(std::string reason, std::string mend = "") {
    refusals_.Refuse(std::move(reason), std::move(mend));
  }
  // For a call of what no table lists.
  void RefuseCall(PyObject* callable);
  // The one that stopped the watch; empty while it goes on.
  Refusal& refusal() { return refusals_.current(); }
  const PyFrameObject* caller() const { return refusals_.caller(); }

  bool IsOld(PyObject* object) { return ages_.IsOld(object); }
  bool IsInput(PyObject* object) const { return ages_.IsInput(object); }
  void MarkOld(PyObject* object, const std::string& path) {
    ages_.MarkOld(object, path);
  }
  bool IsFirst(PyObject* object, PyObject* key) {
    return ages_.IsFirst(object, key);
  }
  std::string PathOf(PyObject* object) const { return names_.PathOf(object); }
  // Of what is read here.
  GuardNote NoteOf(std::string path) const;
  bool is_in_later_pass() const { return later_pass_ != nullptr; }
  // In a later pass: refuses to change `object`, unless the pass made it.
  bool RefusesLaterChange(PyObject* object);
  // The step at hand may change `container`, if that is old.
  void NoteChange(PyObject* container) {
    if (RefusesLaterChange(container)) return;
    if (refusals_.looks_on() && IsOld(container)) refusals_.AddChange();
  }

  Refusals& refusals_;
  ObjectNames& names_;
  ObjectAges& ages_;
  HostValues& values_;
  StateGuards& guards_;
  WatchStep& step_;
  const RecorderHooks& recorder_;
  CpuModes& modes_;

 private:
  const std::unique_ptr<AgeMark>& later_pass_;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_WATCH_WATCH_PART_H_
