// What a run has written of inputs and variables while it goes on.

#ifndef MICA_EXECUTOR_JOB_UNDO_H_
#define MICA_EXECUTOR_JOB_UNDO_H_

#include <atomic>

#include "framework/kernel/kernel.h"

namespace mica {

// A write that can be taken back once what was there before is kept. Stands in
// for the launch of the step that does that.
struct KeptPart {
  LaunchFn fn = nullptr;  // The step's own.
  const void* state = nullptr;
  std::atomic<bool> is_kept = false;

  // A LaunchFn; `part` is one of these.
  static bool Launch(const void* part, void* const* args,
                     LaunchContext& context) {
    auto& own = *static_cast<KeptPart*>(const_cast<void*>(part));
    if (!own.fn(own.state, args, context)) return false;
    own.is_kept.store(true, std::memory_order_relaxed);
    return true;
  }
};

}  // namespace mica

#endif  // MICA_EXECUTOR_JOB_UNDO_H_
