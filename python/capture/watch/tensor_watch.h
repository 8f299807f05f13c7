// What a program does with tensors past their operators.

#ifndef MICA_PYTHON_CAPTURE_WATCH_TENSOR_WATCH_H_
#define MICA_PYTHON_CAPTURE_WATCH_TENSOR_WATCH_H_

#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "python/capture/watch/array_watch.h"
#include "python/capture/watch/gradient_watch.h"
#include "python/capture/watch/hook_handles.h"
#include "python/capture/watch/number_watch.h"
#include "python/capture/watch/object_watch.h"
#include "python/capture/watch/watch_part.h"
#include "python/torch_side/autograd/released_graphs.h"
#include "python/torch_side/tensors/autograd_access.h"

namespace mica {

// Attributes and gradients of tensors, and their numbers on the way from and to
// Python: tolist(), numpy(), torch.tensor() and their like.
class TensorWatch final : public WatchPart {
 public:
  TensorWatch(WatchGround& ground, ObjectWatch& objects, ArrayWatch& arrays,
              NumberWatch& numbers, const HookHandles& handles)
      : WatchPart(ground),
        objects_(objects),
        arrays_(arrays),
        numbers_(numbers),
        handles_(handles) {
    values_.SetOnArrayUse([this](PyObject* tensor) { ReadArray(tensor); });
  }

  // False if nothing is left to look at.
  bool ReadAttribute(PyObject* owner, PyObject* name);
  // Or removes it, if the step at hand stores nothing.
  void WriteAttribute(PyObject* owner, PyObject* name, bool is_removed);

  // Autograd's engine runs a graph.
  void RunBackward(absl::Span<PyObject* const> args);
  // The program has hooks see what autograd saves.
  void NoteSavedTensorHooks();
  // The arguments of Tensor.requires_grad_().
  void RequireGrad(absl::Span<PyObject* const> args);
  void DetachInPlace(absl::Span<PyObject* const> args);
  void RetainGrad(absl::Span<PyObject* const> args);
  // The arguments of a call that asks where tensors lie in their storages.
  void ReadOffsets(absl::Span<PyObject* const> args);

  // Reads all numbers of a tensor, as item() would. False if they are many.
  bool ReadNumbers(PyObject* tensor);
  void ReadData(PyObject* reader, absl::Span<PyObject* const> args);
  // Somebody looks at an array in a tensor's memory.
  void ReadArray(PyObject* tensor);
  void ReadLengths(PyObject* lengths);
  // The arguments of a call that makes a tensor of Python's values.
  void Make(absl::Span<PyObject* const> args, bool copies = false);

  GradientWatch& gradients() { return gradients_; }
  // Whether facts tell which hooks an older leaf has.
  bool HasNotedHooks(PyObject* leaf) const {
    return noted_hooks_.contains(leaf);
  }
  // Set where the program had such hooks: going back calls them.
  const Refusal& saved_tensor_hooks() const { return saved_tensor_hooks_; }
  // Set where the program has a tensor of its own keep its gradient: nobody
  // else may have that.
  const Refusal& retained_grad() const { return retained_grad_; }
  // Graphs of autograd that the program used up.
  const ReleasedGraphs& released_graphs() const { return released_; }
  // Whether it asked where a tensor lies in its storage.
  bool reads_offsets() const { return reads_offsets_; }

 private:
  // True if the run made the tensor.
  bool IsOwn(PyObject* tensor);
  void TouchGradient(PyObject* owner);
  // Whether a tensor's attribute of this name is a dict of hooks.
  static bool HasHooks(absl::string_view name);
  // The program, or code in C, reads such a dict, or sets one.
  void ReadHooks(PyObject* owner);
  void WriteHooks(PyObject* owner);
  // The engine is about to call hooks.
  void TouchHooks();
  // An older tensor is about to require grad, or not to. What that is when the
  // run is over is an effect.
  void ChangeTracking(PyObject* owner, bool requires_grad);
  // `owner.data = data`.
  void ReplaceData(PyObject* owner, PyObject* data);

  ObjectWatch& objects_;
  ArrayWatch& arrays_;
  NumberWatch& numbers_;
  const HookHandles& handles_;
  GradientWatch gradients_;
  absl::flat_hash_set<PyObject*> noted_hooks_;
  std::vector<PyRef> hook_dicts_;  // Dicts of hooks on gradients.
  ReleasedGraphs released_;
  Refusal saved_tensor_hooks_;
  Refusal retained_grad_;
  bool reads_offsets_ = false;
};

}  // namespace mica

#endif  // MICA_PYTHON_CAPTURE_WATCH_TENSOR_WATCH_H_
