// What stood in the way of a capture.

#ifndef MICA_PYTHON_CAPTURE_WATCH_REFUSALS_H_
#define MICA_PYTHON_CAPTURE_WATCH_REFUSALS_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "python/capture/values/places.h"
#include "python/capture/values/refusal.h"
#include "python/interpreter/py_ref.h"

namespace mica {

// The refusals of one watched run. The first stops the watch, unless it looks
// on for what else is in the way. Single-thread.
class Refusals {
 public:
  // `caller` is the frame that the run is called from; may be null.
  explicit Refusals(PyFrameObject* caller) : caller_(caller) {}

  // Refuses the run for what it does now, unless it is refused already.
  void Refuse(std::string reason, std::string mend = "");
  // After a refusal: looks on for what else may be refused, if it may.
  // Requires: the record is given up. False if there is no point.
  bool LookOn();
  // Whether it may.
  void SetLooksOn(bool looks_on) { looks_on_ = looks_on; }
  bool looks_on() const { return looks_on_; }

  // The one that stopped the watch; empty while it goes on.
  Refusal& current() { return current_; }
  bool is_stopped() const { return static_cast<bool>(current_); }
  // The first, if there is one.
  const Refusal& first() const { return past_.empty() ? current_ : past_[0]; }
  // Where it was at each, in order.
  std::vector<FrameSites> Places() const;

  // The step at hand may change what the run had read.
  void AddChange();
  // Where it was at such steps.
  const std::vector<FrameSites>& changes() const { return changes_; }
  // A place that had better be a slot: for the next try, if this is refused.
  void WantSlot(StatePlace place) { wanted_slots_.push_back(std::move(place)); }
  absl::Span<const StatePlace> wanted_slots() const { return wanted_slots_; }

  // What is called at each refusal, before the run goes on.
  void SetOnRefused(std::function<void()> on_refused) {
    on_refused_ = std::move(on_refused);
  }

  const PyFrameObject* caller() const { return caller_; }

 private:
  const PyFrameObject* caller_;
  Refusal current_;
  std::vector<Refusal> past_;  // Those after which it looked on.
  bool looks_on_ = false;
  std::vector<FrameSites> changes_;
  std::vector<StatePlace> wanted_slots_;
  std::function<void()> on_refused_;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_WATCH_REFUSALS_H_
