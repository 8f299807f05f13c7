// How users go back from what a callable returns. What passes that are made for
// later can't follow shows while eager's own graph is still behind the results.

#ifndef MICA_PYTHON_TORCH_SIDE_AUTOGRAD_BACKWARD_USE_H_
#define MICA_PYTHON_TORCH_SIDE_AUTOGRAD_BACKWARD_USE_H_

#include <Python.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/types/span.h"

namespace at {
class Tensor;
}  // namespace at

namespace mica {

// What is known of one callable. Thread-safe: autograd's threads tell.
class BackwardUse {
 public:
  // Tells `use` how the user goes back from `result`, a tensor of a watched run
  // that autograd tracked by nodes from `first_node` on, and that is number
  // `index` of those behind which a pass stands, recorded for these strides.
  static void Watch(std::shared_ptr<BackwardUse> use, PyObject* result,
                    int index, std::vector<int64_t> strides,
                    uint64_t first_node);

  // Of what arrives at a node on this thread: why gradients can't be made of it
  // but by eager's own graph; null if they can.
  const char* WhyEager(absl::Span<const at::Tensor> gradients) const;

  // Says that a pass has operators that autocast would have in lower precision:
  // eager's has them so where the user goes back under autocast.
  void SetMindsAutocast() { minds_autocast_ = true; }

  // Says that a pass has eager's bits only for gradients that are laid out in
  // memory as those which it was recorded for.
  void SetMindsLayout() { minds_layout_ = true; }
  // Says how the gradient of a result of this number is laid out, where a pass
  // was recorded for these strides. If it minds that, records made before it
  // are outdated; but users who change that again and again have to do with
  // copies.
  void NoteLayout(int index, absl::Span<const int64_t> recorded,
                  const at::Tensor& gradient);
  // The gradient's strides as they were noted last, if it had these sizes.
  std::optional<std::vector<int64_t>> LayoutOf(
      int index, absl::Span<const int64_t> sizes) const;
  // Changes when records become outdated.
  int layouts_noted() const { return layouts_noted_; }

  // What WhyEager() said of the callable's results once; null if it didn't.
  const char* why_eager() const { return why_eager_; }
  void set_why_eager(const char* why) { why_eager_ = why; }

 private:
  std::atomic<const char*> why_eager_ = nullptr;
  std::atomic<bool> minds_autocast_ = false;
  std::atomic<bool> minds_layout_ = false;
  std::atomic<int> layouts_noted_ = 0;
  mutable std::mutex mutex_;
  struct Layout {
    std::vector<int64_t> sizes;
    std::vector<int64_t> strides;
  };
  std::map<int, Layout> layouts_;  // By the result's number.
};

}  // namespace mica

#endif  // MICA_PYTHON_TORCH_SIDE_AUTOGRAD_BACKWARD_USE_H_
