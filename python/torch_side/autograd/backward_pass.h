// The backward pass of a program whose results require grad: it comes later,
// when the user asks for it, and is a Program of its own.

#ifndef MICA_PYTHON_TORCH_SIDE_AUTOGRAD_BACKWARD_PASS_H_
#define MICA_PYTHON_TORCH_SIDE_AUTOGRAD_BACKWARD_PASS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "analysis/lower/split_tape.h"
#include "python/capture/graph/graph.h"
#include "python/capture/guards/state_guards.h"
#include "python/interpreter/py_ref.h"
#include "python/torch_side/autograd/backward_trace.h"
#include "python/torch_side/autograd/backward_use.h"
#include "python/torch_side/tensors/tensor_access.h"
#include "python/torch_side/tensors/torch_state.h"

namespace mica {

// A BackwardTrace to be made behind the results of each later run: a node of
// autograd's for each of its parts. Thread-safe under the GIL.
class BackwardPass {
 public:
  // Where a gradient goes that a part gives.
  struct Output {
    PyObject* tensor =
        nullptr;      // To this one, the record's; null for an argument,
    int input = -1;   // the tensor of this number, for a state that each run
    int state = -1;   // finds anew, the one of this number, or for another
    int part = -1;    // part, this one,
    int entry = -1;   // and its entry of this number.
    int result = -1;  // The gradient is this result of the graph,
    int root = -1;    // or what arrived at this entry.
    std::vector<bool> entries;  // As BackwardTrace has it.
  };
  struct Entry {
    TensorMeta meta;   // Of what arrives.
    int result = -1;   // The one behind which it stands; or none.
    int live = -1;     // Its number among those that have entries.
    std::string node;  // What torch calls the result's, as texts have it.
  };
  struct Part {
    std::unique_ptr<Graph> graph;
    std::vector<Entry> entries;
    std::vector<Output> outputs;
    std::vector<TensorMeta> kinds;  // Of what the graph computes.
    // What it reads of the first run.
    std::vector<SplitTape::Kept> kept;
    std::vector<int> states;
    std::vector<int> numbers;  // Of the first part's host results.
    bool is_used_up = false;   // As BackwardTrace has it.
  };
  // What functions in Python on the way read when the pass was recorded, of
  // Python's state and torch's.
  struct Reads {
    StateGuards guards;
    TorchState torch_state;
  };
  // `reads` is null if there are none.
  BackwardPass(int num_results, std::vector<Part> parts,
               std::shared_ptr<BackwardUse> use, std::shared_ptr<Reads> reads);
  // The same pass at other sizes.
  BackwardPass(const BackwardPass& like, std::vector<Part> parts);
  // Autograd may have the last of it, in a thread without the GIL or when
  // Python is gone.
  ~BackwardPass();

  // Puts the pass behind the results of a run: `results` and `numbers` are
  // Graph::Run()'s of the first part, of which those with entries become
  // what autograd tracks. False with a Python error set if there is no memory.
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
  const char* WhyEager() const { return WhyEager(*use_); }

  // True from when on another layout of gradients is known than that which
  // the pass was recorded for.
  bool IsOutdated() const { return use_->layouts_noted() != layouts_noted_; }

  // False if functions in Python would read something else now; `miss`, if
  // given, tells. Requires the GIL.
  bool CheckReads(Miss* miss) const;

  // As StateGuards has it, of what they read.
  void LetGo() {
    if (reads_ != nullptr) reads_->guards.LetGo();
  }
  bool IsGone(std::string* path) const {
    return reads_ != nullptr && reads_->guards.IsGone(path);
  }

  absl::Span<const Part> parts() const { return parts_; }
  // Of the first part, those that aren't kept for this one.
  int num_results() const { return num_results_; }
  // How many values of a run it keeps.
  int64_t num_kept() const {
    int64_t count = 0;
    for (const Part& part : parts_) {
      count += static_cast<int64_t>(part.kept.size());
    }
    return count;
  }
  // For Python's garbage collector.
  int Traverse(visitproc visit, void* arg) const;

 private:
  class Node;
  struct Nodes;

  int num_results_ = 0;
  int num_live_ = 0;  // Results with entries.
  std::vector<Part> parts_;
  std::shared_ptr<BackwardUse> use_;  // Of the callable.
  std::shared_ptr<Reads> reads_;
  int layouts_noted_ = 0;  // When this was made.
};

}  // namespace mica

#endif  // MICA_PYTHON_TORCH_SIDE_AUTOGRAD_BACKWARD_PASS_H_
