// Numbers that the program draws or asks the world outside for.

#ifndef MICA_PYTHON_CAPTURE_WATCH_DRAW_WATCH_H_
#define MICA_PYTHON_CAPTURE_WATCH_DRAW_WATCH_H_

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "python/capture/effects/draws.h"
#include "python/capture/known/purity.h"
#include "python/capture/watch/host_call_watch.h"
#include "python/capture/watch/object_watch.h"
#include "python/capture/watch/watch_part.h"

namespace mica {

// Notes calls that each hit makes again before it computes.
class DrawWatch final : public WatchPart {
 public:
  DrawWatch(WatchGround& ground, ObjectWatch& objects,
            const HostCallWatch& host_calls)
      : WatchPart(ground), objects_(objects), host_calls_(host_calls) {
    values_.drawn().SetOnUse([this](int draw) { RefuseArray(draws_[draw]); });
  }

  // Whether numbers are followed at all; and those that are drawn, which else
  // end the graph.
  void SetFollows(bool numbers, bool draws) {
    follows_numbers_ = numbers;
    follows_draws_ = draws;
  }
  // What the program is to be told by what it asks (Draw::Kind::kAsk, kClock),
  // in order. Outlives the watch.
  void SetReadings(absl::Span<const PyRef> readings) { readings_ = readings; }

  // A method of a random generator, which is the first argument.
  void DrawNumber(PyObject* callable, absl::Span<PyObject* const> args,
                  PyObject* keyword_names);
  // A function that gives a number of the world outside.
  void Ask(CallKind kind, PyObject* callable, absl::Span<PyObject* const> args,
           PyObject* keyword_names);
  // A function that looks at containers of the state as they were before the
  // run, and changes nothing; it gave `recorded`. What stands for that: a
  // number that is followed, or itself. Null with a refusal.
  PyRef Look(PyObject* callable, std::vector<PyRef> args, PyRef recorded,
             std::string path);
  // The same, of an item of a table by `index`, a number that is known before a
  // run; the function's last argument. Null, without a refusal, if that isn't
  // followed.
  PyRef LookUp(PyObject* callable, PyObject* table, PyObject* index,
               PyRef recorded, std::string path);
  // The step at hand may have drawn what is on top.
  void EndStep(PyObject** top);

  // What it drew, in order.
  const std::vector<Draw>& draws() const { return draws_; }

 private:
  // Notes a draw, to be made at each hit; of its generator if it has one.
  void Add(Draw::Kind kind, PyObject* callable,
           absl::Span<PyObject* const> args, PyObject* keyword_names);
  // What it is to be passed at each hit; false with a refusal.
  bool AddArguments(absl::Span<PyObject* const> args, Draw* draw);
  // What it drew is an array: false if that can't be a tensor of the Program's.
  bool AddArray(PyObject* array);
  void RefuseArray(const Draw& draw);
  // At a draw, though the step at hand is another.
  void RefuseDraw(const Draw& draw, std::string reason, std::string mend);
  // Passes a number that varies, if the function takes one for it.
  bool AddNumber(PyObject* arg, Draw* draw) const;
  // Looks by `draw`, which has no outcome yet.
  PyRef AddLook(Draw draw, PyRef recorded);
  // What is to be passed again for an argument; null if that isn't known.
  PyRef ArgumentOf(Draw::Kind kind, PyObject* argument);

  ObjectWatch& objects_;
  const HostCallWatch& host_calls_;
  std::vector<Draw> draws_;
  bool is_drawing_ = false;  // The step at hand makes the last of them.
  std::vector<PyRef> passed_arrays_;  // To that.
  int num_arrays_ = 0;                // That were drawn.
  bool follows_numbers_ = true;
  bool follows_draws_ = true;
  absl::Span<const PyRef> readings_;  // Those that are left.
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_WATCH_DRAW_WATCH_H_
