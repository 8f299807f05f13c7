// What a program does to its leaves' gradients, to whether autograd follows
// them, and to where their data is, and how a hit does it again.

#ifndef MICA_PYTHON_CAPTURE_GUARDS_GRADIENTS_H_
#define MICA_PYTHON_CAPTURE_GUARDS_GRADIENTS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "python/capture/guards/held_objects.h"
#include "python/capture/guards/input_guards.h"
#include "python/capture/values/guard_note.h"
#include "python/interpreter/py_ref.h"
#include "python/torch_side/tensors/tensor_access.h"

namespace mica {

// Guards and effects over `.grad` of each leaf that a program saw: which had
// a gradient, of which metadata; and what each holds after the run. A gradient
// is looked up at its leaf at each run: its tensor may be another each time.
class Gradients {
 public:
  struct Leaf {
    Kept tensor;     // Null for an argument,
    int input = -1;  // the tensor of this number.
    std::string name;
    bool had_grad = false;
    TensorMeta meta;  // Of that gradient.
    bool is_kept = true;
    int result = -1;   // If not kept: which result it becomes; -1 for none.
    PyRef before;      // While recording: that gradient.
    int same_as = -1;  // An earlier leaf with this very gradient, or none.
    // If the run left it other than it found it: whether it requires grad.
    std::optional<bool> requires_grad;
    // Facts of the state tell which hooks it has.
    bool has_hooks = false;
    // If it was given other data, by `leaf.data = …`: the result that has it.
    int data = -1;
  };

  bool empty() const { return leaves_.empty(); }
  void Add(Leaf leaf);
  // True if every leaf has a gradient, or none, as it had when recorded.
  bool Check(const BoundInputs& inputs, Miss* miss) const;
  // Has leaves require grad, or not, as they do after the run; that comes
  // before anything is made that autograd tracks. Then gives them their new
  // gradients, of a run's results.
  void Apply(const BoundInputs& inputs, absl::Span<const PyRef> results) const;
  // Then, when views of the old data are made, gives them new data. False with
  // a Python error set if torch refuses.
  bool ApplyData(const BoundInputs& inputs,
                 absl::Span<const PyRef> results) const;
  // By result: the leaf whose gradient it replaces, or null. Borrowed.
  std::vector<PyObject*> Replaced(const BoundInputs& inputs) const;
  // The leaf itself, in a call with these inputs. Borrowed.
  static PyObject* Find(const Leaf& leaf, const BoundInputs& inputs) {
    return leaf.input < 0 ? leaf.tensor.get() : inputs.tensors[leaf.input];
  }
  absl::Span<const Leaf> leaves() const { return leaves_; }
  // The leaf whose gradient `tensor` was when recorded, or -1.
  int FindGradient(PyObject* tensor) const;
  // Forgets the recorded gradients.
  void EndRecording();
  void AppendText(std::vector<std::string>* lines) const;
  // What is done but for gradients: "sets x.requires_grad" each.
  std::vector<std::string> ChangesToText() const;

 private:
  std::vector<Leaf> leaves_;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_GUARDS_GRADIENTS_H_
