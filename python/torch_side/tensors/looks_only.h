// A look at what torch keeps, without making it. Only for sources that include
// torch's headers anyway.

#ifndef MICA_PYTHON_TORCH_SIDE_TENSORS_LOOKS_ONLY_H_
#define MICA_PYTHON_TORCH_SIDE_TENSORS_LOOKS_ONLY_H_

#include <c10/core/impl/LocalDispatchKeySet.h>

#include <exception>

#include "python/torch_side/tensors/torch_compat.h"

namespace mica {

// While one lives, an operator that would run on this thread throws Called in
// its place. Requires: Recorder::Install() has succeeded; nothing is recorded.
class LooksOnly {
 public:
  class Called : public std::exception {};

  LooksOnly() : through_recorder_(kRecorderKey) { is_on_ = true; }
  ~LooksOnly() { is_on_ = false; }
  LooksOnly(const LooksOnly&) = delete;
  LooksOnly& operator=(const LooksOnly&) = delete;

  // For who handles operators at the recorder's key.
  static void ThrowIfOn() {
    if (is_on_) throw Called();
  }

 private:
  inline static thread_local bool is_on_ = false;
  const c10::impl::IncludeDispatchKeyGuard through_recorder_;
};

}  // namespace mica

#endif  // MICA_PYTHON_TORCH_SIDE_TENSORS_LOOKS_ONLY_H_
