// How autograd sees the results of a run that share memory.

#ifndef MICA_PYTHON_TORCH_SIDE_AUTOGRAD_RESULT_VIEWS_H_
#define MICA_PYTHON_TORCH_SIDE_AUTOGRAD_RESULT_VIEWS_H_

#include <Python.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "python/interpreter/py_ref.h"

namespace mica {

// Whether gradients go from a view that autograd tracks to its base through
// torch's own nodes alone, so that another such view passes on the same: a
// torch.autograd.Function that returns a view has a backward() of its own.
bool IsShownByTorch(PyObject* view, PyObject* base);

// Makes the results of a run, new tensors over memory that some share, what the
// recorded run's were: views of each other, of arguments or of the state, with
// counters of writes that are shared or their own.
class ResultViews {
 public:
  // A result that autograd knows as a view of another tensor.
  struct View {
    int result = -1;
    int root = -1;               // Of this result, or
    int input = -1;              // of the input of this number, or
    PyObject* tensor = nullptr;  // of this one, the record's.
    uint8_t creation = 0;        // As ViewRelation has it.
    bool is_tracked = false;     // Gradients go through it to what it shows,
    std::string node;            // by what torch calls so,
    uint32_t output = 0;         // of which it is this output.
  };
  // Of a result, its counter of writes.
  struct Writes {
    int result = -1;
    int64_t count = 0;
    bool is_own = false;  // Though its memory is shared.
  };

  ResultViews() = default;
  ResultViews(std::vector<View> views, std::vector<Writes> writes)
      : views_(std::move(views)), writes_(std::move(writes)) {}

  // Whether results share no memory, but for what says nothing to autograd.
  bool is_plain() const {
    for (const Writes& writes : writes_) {
      if (writes.is_own) return false;
    }
    return views_.empty();
  }
  // Before anything is saved for a backward pass. `more`: by result, writes
  // beyond those of the recorded run; may be empty. kKnown: the results have
  // the counts of what made them, maybe others than the recorded run's.
  enum class Counts { kRecorded, kKnown };
  void SetWrites(absl::Span<const PyRef> results,
                 absl::Span<const int64_t> more,
                 Counts counts = Counts::kRecorded) const;
  // After that. False with a Python error set if there is no memory.
  bool MakeViews(absl::Span<PyObject* const> inputs,
                 std::vector<PyRef>* results) const;

 private:
  std::vector<View> views_;
  std::vector<Writes> writes_;
};

}  // namespace mica

#endif  // MICA_PYTHON_TORCH_SIDE_AUTOGRAD_RESULT_VIEWS_H_
