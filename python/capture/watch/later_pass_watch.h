// Functions in Python that a backward pass calls, after the run.

#ifndef MICA_PYTHON_CAPTURE_WATCH_LATER_PASS_WATCH_H_
#define MICA_PYTHON_CAPTURE_WATCH_LATER_PASS_WATCH_H_

#include <cstddef>
#include <memory>

#include "python/capture/guards/state_guards.h"
#include "python/capture/watch/identity_watch.h"
#include "python/capture/watch/watch_part.h"

namespace mica {

// While a later pass is under way the stream follows such functions, to be made
// again whenever a user goes back. They may read state, but change nothing that
// was there before: where one is about to, an exception is raised in its place.
class LaterPassWatch final : public WatchPart {
 public:
  LaterPassWatch(WatchGround& ground, const IdentityWatch& identity)
      : WatchPart(ground), ground_(ground), identity_(identity) {}

  using WatchPart::NoteChange;

  // Requires: the run is over.
  void Begin();
  // What they read, apart from what the run did; and why such a pass can't be
  // made again, if it can't.
  StateGuards End(Refusal* refusal);
  // Whether an exception is to be raised in place of what was told last.
  bool TakeAbort();

 private:
  // How often the program asked which object an argument is.
  size_t NumAsked() const;
  // Exchanges what the pass noted for what the run did.
  void Swap();

  WatchGround& ground_;
  const IdentityWatch& identity_;
  StateGuards noted_;
  ObjectAges::Seen seen_;
  size_t num_asked_ = 0;  // As NumAsked() was.
  Refusal first_;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_WATCH_LATER_PASS_WATCH_H_
