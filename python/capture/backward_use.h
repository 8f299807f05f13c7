// How users go back from what a callable returns. What passes that are made for
// later can't follow shows while eager's own graph is still behind the results.

#ifndef MICA_PYTHON_CAPTURE_BACKWARD_USE_H_
#define MICA_PYTHON_CAPTURE_BACKWARD_USE_H_

#include <Python.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/types/span.h"

namespace at {
class Tensor;
}  // namespace at

namespace mica {

// What is known of one callable. Thread-safe: autograd's threads tell.
class BackwardUse {
 public:
  // Tells `use` how the user goes back from `result`, a tensor of a watched run
  // that autograd tracked by nodes from `first_node` on.
  static void Watch(std::shared_ptr<BackwardUse> use, PyObject* result,
                    uint64_t first_node);

  // Of what arrives at a node on this thread: why gradients can't be made of it
  // but by eager's own graph; null if they can.
  const char* WhyEager(absl::Span<const at::Tensor> gradients) const;

  // Says that a pass has operators that autocast would have in lower precision:
  // eager's has them so where the user goes back under autocast.
  void SetMindsAutocast() { minds_autocast_ = true; }

  // What WhyEager() said of the callable's results once; null if it didn't.
  const char* why_eager() const { return why_eager_; }
  void set_why_eager(const char* why) { why_eager_ = why; }

 private:
  std::atomic<const char*> why_eager_ = nullptr;
  std::atomic<bool> minds_autocast_ = false;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_BACKWARD_USE_H_
