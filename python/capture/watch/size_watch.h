// The sizes of tensors that a program reads.

#ifndef MICA_PYTHON_CAPTURE_WATCH_SIZE_WATCH_H_
#define MICA_PYTHON_CAPTURE_WATCH_SIZE_WATCH_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "analysis/sizes/size_facts.h"
#include "python/capture/watch/watch_part.h"

namespace mica {

// Follows sizes from `x.shape`, `x.size(0)`, `len(x)` or `x.numel()` on, where
// it is asked to: each becomes a number of HostValues, an object of its own. By
// what a step gives that had C code look at tensors it is known whether it may
// have told of their sizes in another way: tensors don't, nor does None. What
// else isn't known to be free of sizes pins those of all these tensors.
class SizeWatch final : public WatchPart {
 public:
  explicit SizeWatch(WatchGround& ground) : WatchPart(ground) {}

  // Has sizes followed. `find` gives a tensor's number on the tape, if it is
  // there as it is now.
  void Begin(std::function<TapeTensorId(PyObject*)> find) {
    find_ = std::move(find);
  }
  bool is_on() const { return static_cast<bool>(find_); }

  void BeginStep();
  // C code looks at an object, not into what a container holds.
  void See(PyObject* object) {
    if (is_on()) Look(object);
  }
  // C code gets it, and what it holds.
  void SeeDeep(PyObject* object);
  void ReadAttribute(PyObject* owner, PyObject* name);
  // Reads or writes `container[key]`.
  void UseItem(PyObject* container, PyObject* key);
  void Call(PyObject* callable, absl::Span<PyObject* const> args);
  // An operator of Python's, of a tensor: numbers go to the tensor's method,
  // which may be Python code, unseen by any other.
  void Operate() { is_operator_ = true; }

  // What the recorder saw of a step.
  struct Calls {
    int32_t first = 0;
    int32_t end = 0;
    bool reads_number = false;  // item() and its like.
    std::string only_op;        // The one that it calls, if it is one.
  };
  // If it is on: another object of the same value may be put in the place of
  // what the step gave.
  void EndStep(PyObject** top, bool entered, const Calls& calls);

  // The sizes of the tensor whose item the step uses stay as they are.
  void KeepSizes();
  // What became of all sizes. Once the run is over.
  SizeFacts TakeFacts();

 private:
  // A tensor that the step at hand looks at, and may be the end of.
  struct Seen {
    PyObject* tensor = nullptr;  // Not dereferenced later.
    TapeTensorId id = kNoTapeTensor;
    bool is_of_state = false;  // Whose sizes are guarded.
    size_t num_dims = 0;
  };

  void Look(PyObject* object);
  void NoteConstant(PyObject* object);
  void NoteSlice(PyObject* object, TapeTensorId tensor, int32_t dim);
  void CallBuiltin(PyObject* callable, absl::Span<PyObject* const> args);
  void SettleUses(PyObject* result, bool entered, const Calls& calls);
  // True if what the step gave is a size, which is followed from here on.
  bool Follow(PyObject** top);
  bool FollowShape(const Seen& seen, PyObject** top);
  bool FollowOne(const Seen& seen, int dim, PyObject** top);
  // False if sizes of the tensor can't be followed: they are constants of the
  // state, or nobody knows what they are.
  bool MayVary(const Seen& seen);
  bool TellsNoSize(PyObject* result) const;
  // Whether what the step called is known to use sizes in no way but those that
  // SizeTemplate looks for.
  bool IsKnownCall(const Calls& calls) const;
  void PinAll();
  void Pin(const Seen& seen);

  std::function<TapeTensorId(PyObject*)> find_;
  SizeFacts facts_;
  std::vector<Seen> seen_;
  std::string attribute_;           // That it reads of one.
  std::string called_;              // The last part of what it calls,
  std::vector<PyObject*> args_;     // and with what; not dereferenced later.
  std::optional<int> dim_;          // x.size(dim), of the first of these.
  std::vector<int64_t> constants_;  // Whole numbers that it passes.
  std::vector<SizeFacts::Slice> slices_;  // That it takes of a tensor.
  bool is_hidden_ = false;                // It runs code that nobody follows.
  bool is_operator_ = false;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_WATCH_SIZE_WATCH_H_
