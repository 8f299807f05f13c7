// What going back through a watched run is made of.

#ifndef MICA_PYTHON_TORCH_SIDE_AUTOGRAD_BACKWARD_TRACE_H_
#define MICA_PYTHON_TORCH_SIDE_AUTOGRAD_BACKWARD_TRACE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "python/interpreter/py_ref.h"
#include "python/torch_side/autograd/backward_use.h"
#include "python/torch_side/recorder/recorder.h"

namespace mica {

// Going back through a watched run, right after it, as far as the tensors that
// were there before.
//
// It is in parts: nodes of autograd's that are reached from the same results.
// Who goes back from some results runs the parts behind those, and what eager
// says of nodes (it is used up, what it saved was written) holds of parts.
// Parts that save nothing are one with the part that they lead to.
struct BackwardTrace {
  // Where a part begins: a gradient that arrives from outside or from others.
  struct Entry {
    PyRef root;       // Stands for it.
    int result = -1;  // The one whose gradient it is, of the results; or none.
    int number = 0;   // Among all entries, as the recorder was told of them.
  };
  // A gradient that a part gives, to a tensor that was there before or to an
  // entry of another part.
  struct Output {
    PyRef gradient;
    int external = -1;  // Which of the tensors that were there before, or
    int part = -1;      // which part,
    int entry = -1;     // and which of its entries.
    std::vector<bool> entries;  // Of its own part: those that it is made of.
  };
  struct Part {
    std::vector<Entry> entries;
    std::vector<Output> outputs;  // Those to leaves in autograd's order.
    bool is_used_up = false;      // By one pass, as autograd saved tensors.
  };
  std::vector<Part> parts;  // Those made earlier in the run first.
  bool has_python = false;  // Functions written in Python are on the way.
};

// Goes back from `results`, tensors of which autograd tracked the making by
// nodes from `first_node` on, to `externals`, in the order in which autograd
// does, each node once; the graph stays as it was. The gradients that it begins
// with are laid out as `use` noted it, else as the results are. `recorder` is
// stopped before and after, and records the calls as later ones. The reason why
// that can't be done again is "" if it can. `on_python` is called before the
// first node is run, if some are functions in Python.
std::pair<BackwardTrace, std::string> TraceBackward(
    absl::Span<PyObject* const> results, absl::Span<PyObject* const> externals,
    uint64_t first_node, const BackwardUse& use, Recorder* recorder,
    absl::FunctionRef<void()> on_python);

}  // namespace mica

#endif  // MICA_PYTHON_TORCH_SIDE_AUTOGRAD_BACKWARD_TRACE_H_
