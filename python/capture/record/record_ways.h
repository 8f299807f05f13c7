// Records of one program that went different ways, served as one.

#ifndef MICA_PYTHON_CAPTURE_RECORD_RECORD_WAYS_H_
#define MICA_PYTHON_CAPTURE_RECORD_RECORD_WAYS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "analysis/ways/way_parts.h"
#include "analysis/ways/ways.h"
#include "python/capture/graph/graph.h"
#include "python/capture/watch/way_watch.h"
#include "python/interpreter/py_ref.h"
#include "python/torch_side/recorder/operator_kernels.h"
#include "python/torch_side/tensors/tensor_access.h"

namespace mica {

// What of a watched run its place among other ways is made of.
struct RecordedWay {
  WayRun run;
  std::vector<MeetingState> states;
  TensorMeta kind;  // Of a tensor that it made.
  GraphOptions options;
};

// The graph of ways of several runs, made runnable: a Graph for each part
// between forks, and where the values lie that go from one to another. Runs
// are known by number. Single-thread under the GIL, which Run() gives up while
// it computes.
class RecordWays {
 public:
  // Adds a run. FailedPrecondition, and nothing is added, if it can't be one
  // with those that are there.
  absl::Status Add(std::shared_ptr<const RecordedWay> way);
  int32_t num_runs() const { return static_cast<int32_t>(recorded_.size()); }

  // What a call binds for one run: its arguments and states.
  struct Operands {
    absl::Span<PyObject* const> inputs;
    absl::Span<PyObject* const> states;
  };
  // Computes the way that the values lead, which have no other effect. `end` is
  // the run that ends as this one does, and `results` are its results. Aborted
  // if no run went there, `place` says from where. `kernels` are told of new
  // operators.
  absl::Status Run(absl::Span<const Operands> operands,
                   OperatorKernels* kernels, int32_t* end,
                   std::vector<PyRef>* results);

  // How many parts there are, and forks of which both, or more, ways are known.
  int64_t num_parts() const;
  int64_t num_forks() const;

 private:
  // Where a value is had: in a slot, or as a run's argument or state.
  struct Place {
    int32_t slot = -1;
    int32_t run = -1;
    int32_t input = -1;
    int32_t state = -1;
  };
  struct Part {
    WayPart part;
    std::shared_ptr<Graph> graph;  // Made when it is run.
    std::vector<Place> inputs;
    std::vector<Place> states;
    std::vector<int32_t> results;  // Slots.
    Place read, a, b;  // What the fork reads: one, or numbers to compare.
    std::vector<std::vector<std::pair<int32_t, Place>>> moves;  // By edge.
    std::vector<Place> given;  // The run's results, at its end.
  };
  class Runner;

  Place PlaceOf(const Ways::Name& name);
  absl::Status MakeParts();
  absl::StatusOr<std::shared_ptr<Part>> MakePart(
      int32_t number, absl::Span<const WantedNames> wanted);
  absl::Status MakeGraph(Part& part, int32_t run,
                         absl::Span<PyObject* const> states,
                         OperatorKernels* kernels);

  std::vector<std::shared_ptr<const RecordedWay>> recorded_;
  Ways ways_;
  std::vector<std::shared_ptr<Part>> parts_;  // By node; null if not reached.
  absl::flat_hash_map<Ways::Name, int32_t> slots_;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_RECORD_RECORD_WAYS_H_
