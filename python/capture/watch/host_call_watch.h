// Calls into the world outside.

#ifndef MICA_PYTHON_CAPTURE_WATCH_HOST_CALL_WATCH_H_
#define MICA_PYTHON_CAPTURE_WATCH_HOST_CALL_WATCH_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "analysis/lower/tape.h"
#include "python/capture/effects/effects.h"
#include "python/capture/guards/input_guards.h"
#include "python/capture/watch/container_changes.h"
#include "python/capture/watch/last_calls.h"
#include "python/capture/watch/left_contents.h"
#include "python/capture/watch/object_watch.h"
#include "python/capture/watch/watch_part.h"
#include "python/capture/watch/written_places.h"

namespace mica {

// Notes the calls that each hit makes again, in order, and their arguments:
// constants, objects of the program's state, numbers that are followed and
// tensors.
class HostCallWatch final : public WatchPart {
 public:
  struct Parts {
    LastCalls& last_calls;
    const ContainerChanges& containers;
    const WrittenPlaces& written;
    ObjectWatch& objects;
  };
  HostCallWatch(WatchGround& ground, const Parts& parts)
      : WatchPart(ground),
        last_calls_(parts.last_calls),
        containers_(parts.containers),
        written_(parts.written),
        objects_(parts.objects) {}

  // Has the first `num_made` calls not made again; the next raises `error`.
  void SetMuted(size_t num_made, PyRef error) {
    muted_ = {num_made, std::move(error)};
  }

  void BeginStep() { num_before_step_ = calls_.size(); }
  void EndStep(PyObject* result);
  // The step at hand raises.
  void Raised() {
    if (is_calling_) Refuse("calls into the world outside, which raises");
  }
  // True if the step at hand makes such a call.
  bool is_in_step() const { return calls_.size() != num_before_step_; }
  // The step at hand is about to pass `args`.
  void HandOver(absl::Span<PyObject*> args);

  // Any call that is known to be one. `args` begin with what `callable` is
  // bound to.
  void Call(PyObject* callable, absl::Span<PyObject* const> args,
            PyObject* keyword_names, Sink sink = {});
  void Print(PyObject* print, absl::Span<PyObject* const> args,
             PyObject* keyword_names);
  // A call of a cache, which answers it; made again so that it knows what was
  // used last.
  void AddCached(PyObject* wrapper, absl::Span<PyObject* const> args,
                 PyObject* keyword_names, const std::string& path);
  // `args` as they are to be passed.
  void Add(PyObject* callable, absl::Span<PyObject* const> args,
           PyObject* keyword_names, std::string title, Sink sink);
  // A call shows a container of the program's, or, if it may not be read,
  // changes it.
  void AddShown(PyRef container, bool may_not_be_read);
  // C code runs none of the user's if it doesn't look into what it gets.
  static Sink SinkInC(PyObject* callable, absl::Span<PyObject* const> args);

  // `find` says which argument's container the run has changed so far; "" if
  // none.
  void SetFindsChanged(std::function<std::string()> find) {
    find_changed_ = std::move(find);
  }

  // Of the arguments whose numbers are lent, too; it outlives the run.
  void SetInputs(const InputGuards* inputs) { inputs_ = inputs; }

  const std::vector<HostCall>& calls() const { return calls_; }
  // Whether a call tells or may change anything.
  bool has_told() const;
  // Their arguments that are made again at each hit, in order.
  absl::Span<const PyRef> arguments() const { return arguments_; }
  // How many of them are of calls that come first (Effects).
  size_t num_first_arguments() const { return num_first_arguments_; }
  // A tensor that a last call was given and that was written since; "" if
  // there is none.
  std::string ChangedArgument() const;
  // False, refused, if the run changed a container that a first call shows, or
  // read one that such a call changes; or if a call took a change back.
  bool CheckShown();
  // False, refused, if an operator after the first call that runs the user's
  // code uses memory that it may have changed. `tensors` are those that have
  // `ids` in the tape.
  bool CheckLastCalls(const Tape& tape, absl::Span<PyObject* const> tensors,
                      absl::Span<const TapeTensorId> ids);

 private:
  void AddArgument(PyRef argument, PyRef shown, int64_t version,
                   HostCall* call);
  void AddTensorArgument(PyObject* tensor, HostCall* call);
  // An argument of Call(). False if that is refused.
  bool LookAt(PyObject* arg, PyObject* callable, PyObject* values, Sink* sink);
  // Notes the containers of an older object that a call makes text of. False
  // if that may run code of the user's.
  bool MayShow(PyObject* object);
  // Has the call at hand not made, if SetMuted() said so.
  void Mute();
  // Whoever is told keeps the objects that eager would have passed.
  void PassPlain(PyObject* callable, absl::Span<PyObject* const> args,
                 PyObject* keyword_names);
  // Code of the user's is about to find numbers that are followed: each of
  // their places has the program's own until TakeNumbersBack().
  void LendNumbers();
  void TakeNumbersBack();
  // Notes a call that finds state changed which no effect changes at a hit. If
  // nothing is changed in the end, the call took that back; it may raise before
  // it comes to it.
  void CheckBefore();
  void NoteFound();
  // Refuses a call that changed what the program had left: a hit has only what
  // is there in the end, and the call may raise before it comes to that.
  void CheckFound();

  LastCalls& last_calls_;
  const ContainerChanges& containers_;
  const WrittenPlaces& written_;
  ObjectWatch& objects_;
  std::vector<HostCall> calls_;
  size_t num_before_step_ = 0;
  bool is_calling_ = false;  // The step at hand makes the last of them.
  std::vector<PyRef> arguments_;
  size_t num_first_arguments_ = 0;
  std::vector<int64_t> argument_versions_;  // -1 for what may be written.
  std::vector<int64_t> argument_calls_;     // Operators called before it.
  struct ShownContainer {
    PyRef container;
    FrameSites places;
    bool may_not_be_read = false;
  };
  std::vector<ShownContainer> shown_;
  struct Muted {
    size_t num_made = 0;
    PyRef error;
  };
  std::optional<Muted> muted_;
  struct Lent {
    StatePlace place;
    PyRef number;
    PyRef plain;
  };
  std::vector<Lent> lent_;
  const InputGuards* inputs_ = nullptr;
  std::vector<InputGuards::LentItem> lent_items_;
  std::function<std::string()> find_changed_;
  Refusal changed_before_;  // By CheckBefore().
  LeftContents found_;      // As the code of the user's finds it.
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_WATCH_HOST_CALL_WATCH_H_
