// The backward pass of a program whose results require grad: it comes later,
// when the user asks for it, and is a Program of its own.

#ifndef MICA_PYTHON_CAPTURE_BACKWARD_PASS_H_
#define MICA_PYTHON_CAPTURE_BACKWARD_PASS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "analysis/lower/split_tape.h"
#include "python/capture/backward_use.h"
#include "python/capture/graph.h"
#include "python/capture/recorder.h"
#include "python/capture/tensor_access.h"
#include "python/interpreter/py_ref.h"

namespace mica {

// Going back through a watched run, right after it, as far as the tensors that
// were there before.
struct BackwardTrace {
  std::vector<PyRef> roots;  // Gradients of the results: ones.
  struct Leaf {
    int external = 0;           // Which of the tensors that were there before.
    PyRef gradient;             // Of it.
    std::vector<bool> results;  // Which of the results are made of it.
  };
  std::vector<Leaf> leaves;
};

// Goes back from `results`, tensors of which autograd tracked the making by
// nodes from `first_node` on, to `externals`, in the order in which autograd
// does, each node once; the graph stays as it was. `recorder` is stopped before
// and after, and records the calls as later ones. The reason why that can't be
// done again is "" if it can.
std::pair<BackwardTrace, std::string> TraceBackward(
    absl::Span<PyObject* const> results, absl::Span<PyObject* const> externals,
    uint64_t first_node, Recorder* recorder);

// That pass, to be made behind the results of each later run. Thread-safe
// under the GIL.
class BackwardPass {
 public:
  struct Leaf {
    PyRef tensor;               // Null for an argument,
    int input = -1;             // the tensor of this number.
    int result = -1;            // Of the graph,
    int root = -1;              // or the gradient of this result itself.
    std::vector<bool> results;  // As BackwardTrace has it.
  };
  // A result that autograd tracks as a view of another tensor.
  struct View {
    int result = -1;
    int root = -1;         // Of this result, or
    int input = -1;        // of the input of this number, or
    PyRef tensor;          // of this one.
    uint8_t creation = 0;  // As ViewRelation has it.
  };
  struct Parts {
    int num_results = 0;    // Of the first part, that aren't kept for this one.
    std::vector<int> live;  // The results behind which it stands.
    std::vector<TensorMeta> roots;  // The gradients of those.
    std::vector<View> views;
    // What it reads of the first run.
    std::vector<SplitTape::Kept> kept;
    std::vector<int> states;
    std::vector<int> numbers;  // Of the first part's host results.
    std::vector<Leaf> leaves;
    std::shared_ptr<BackwardUse> use;  // Of the callable.
  };
  BackwardPass(std::unique_ptr<Graph> graph, Parts parts)
      : graph_(std::move(graph)), parts_(std::move(parts)) {}
  // Autograd may have the last of it, in a thread without the GIL or when
  // Python is gone.
  ~BackwardPass();

  // Puts the pass behind the results of a run: `results` and `numbers` are
  // Graph::Run()'s of the first part, of which those that are `live`, and the
  // views of them, become what autograd tracks. False with a Python error set
  // if there is no memory.
  static bool Attach(const std::shared_ptr<BackwardPass>& pass,
                     absl::Span<PyObject* const> inputs,
                     absl::Span<PyObject* const> states,
                     absl::Span<const double> numbers,
                     std::vector<PyRef>* results);

  // Whether results may have such passes behind them. From the first time on
  // that a pass, or a program, builds a graph of gradients (create_graph=True),
  // for which eager's own graphs are needed, they may not, in the whole
  // process.
  static void Allow(bool is_allowed);
  // Why a pass behind results isn't enough, of the process or of a callable;
  // null if it is.
  static const char* WhyEager(const BackwardUse& use);
  const char* WhyEager() const { return WhyEager(*parts_.use); }

  const Graph& graph() const { return *graph_; }
  int num_results() const { return parts_.num_results; }
  // How many values of a run it keeps.
  int64_t num_kept() const { return static_cast<int64_t>(parts_.kept.size()); }
  // For Python's garbage collector.
  int Traverse(visitproc visit, void* arg) const;

 private:
  struct Node;
  std::unique_ptr<Graph> graph_;
  Parts parts_;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_BACKWARD_PASS_H_
