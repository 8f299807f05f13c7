// Numbers that the host draws or reads anew at each call.

#ifndef MICA_PYTHON_CAPTURE_EFFECTS_DRAWS_H_
#define MICA_PYTHON_CAPTURE_EFFECTS_DRAWS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "python/capture/guards/host_expressions.h"
#include "python/capture/values/generators.h"
#include "python/capture/values/guard_note.h"
#include "python/capture/values/host_values.h"
#include "python/interpreter/frame_site.h"
#include "python/interpreter/py_ref.h"
#include "python/torch_side/tensors/tensor_access.h"

namespace mica {

// A call whose outcome no guard tells: it is made again at each hit.
struct Draw {
  enum class Kind {
    kGenerator,  // From a generator of random numbers, or seeds it.
    kAsk,        // Asks the world outside; asking once more does no harm.
    kClock,      // The same of a clock, which never says twice the same.
    kLook,       // Looks at what was in a container before the run.
    kTable,      // The same, at an item by a number that varies.
  };
  Kind kind = Kind::kGenerator;
  PyRef callable;
  std::vector<PyRef> args;  // Constants, objects of the state, lists of ours.
  PyRef keyword_names;      // Of the last arguments; may be null.
  // Arguments that vary, and follow from host inputs and earlier draws.
  struct Number {
    size_t arg = 0;
    HostValues::Id id = -1;  // While recording.
    int node = -1;           // Of Draws' expressions.
    bool is_int = false;
  };
  std::vector<Number> numbers;
  PyRef generator;  // kGenerator.
  GuardNote note;
  // If it gave an array: what that is as a tensor, which is a state of the
  // Program's, drawn anew at each hit; and this tensor, while recording.
  std::optional<TensorMeta> array;
  PyRef tensor;
  // What else it gave in the recorded run: a hit needs the same type, and where
  // no input of the Program stands for it the same value.
  PyRef recorded;
  bool is_exact = true;
  int input = -1;     // In HostInputs; -1 if exact.
  FrameSites places;  // While recording.

  bool is_number() const;
};

// The draws of a record, in the program's order. Immutable once it is made.
class Draws {
 public:
  Draws() = default;
  // `draws` have their inputs; their numbers are nodes of `expressions`.
  Draws(std::vector<Draw> draws, HostExpressions expressions);
  bool empty() const { return draws_.empty(); }
  absl::Span<const Draw> draws() const { return draws_; }
  // Whose states the draws change, each once.
  absl::Span<const PyRef> generators() const { return generators_; }

  // What was drawn for one run, to be undone if that is discarded.
  struct Made {
    GeneratorStates states;
    // The arrays that were drawn, in order, and the tensors in their memory.
    std::vector<PyRef> arrays;
    std::vector<PyRef> tensors;
    // What was asked for (not drawn), in order.
    std::vector<PyRef> readings;
    void Undo() { states.PutBack(); }
  };
  enum class Outcome {
    kMade,
    kMiss,    // Another value than the recorded one; undone.
    kFailed,  // A call raised, as if nothing had been drawn.
    kRaised,  // Somebody wants the program to end: the error is set.
  };
  // Makes all of them and puts the promoted scalars among `numbers`, which has
  // those that aren't drawn; `values` are the numbers of the run's tape.
  Outcome Make(absl::Span<double> numbers,
               absl::Span<const TapeHostValue> values, Made* made,
               Miss* miss) const;

  // "draws random.random (model.py:12)" each.
  std::vector<std::string> ToText() const;
  // For Python's garbage collector.
  int Traverse(visitproc visit, void* arg) const;

 private:
  // What a draw gives with the numbers of this run; null if it raised.
  PyRef Call(const Draw& draw, absl::Span<const double> numbers,
             absl::Span<const TapeHostValue> values,
             std::vector<double>* computed) const;

  std::vector<Draw> draws_;
  HostExpressions expressions_;
  std::vector<PyRef> generators_;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_EFFECTS_DRAWS_H_
