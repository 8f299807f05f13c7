// What capture needs of torch's autograd, without its headers: all of that
// depends on a torch version and is in autograd_access.cc.

#ifndef MICA_PYTHON_TORCH_SIDE_TENSORS_AUTOGRAD_ACCESS_H_
#define MICA_PYTHON_TORCH_SIDE_TENSORS_AUTOGRAD_ACCESS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "python/interpreter/py_ref.h"
#include "python/torch_side/tensors/tensor_access.h"

namespace mica {

// True if this thread's operators are tracked.
bool IsGradModeOn();
// True if no operator that autograd tracked made the tensor.
bool IsLeaf(PyObject* tensor);
// What torch calls the node that made the tensor; "" if it has none.
std::string NodeNameOf(PyObject* tensor);
// False if torch refuses to say which node made the tensor: it is a view, and
// what was written there is no history that gradients could go back through.
bool HasHistory(PyObject* tensor);
// True if something is called when the leaf gets its gradient.
bool HasGradientHooks(PyObject* tensor);
// The same past the hooks that Python's dicts of the tensor's hold.
bool HasAccumulatorHooks(PyObject* tensor);
// The tensor's gradient; null if it has none.
PyRef GradOf(PyObject* tensor);
bool HasGrad(PyObject* tensor);
// Whether the gradients of two tensors that have one are the same tensor.
bool HaveOneGrad(PyObject* a, PyObject* b);
// A new tensor like the leaf's gradient in the memory of that, with its
// address; null if the gradient isn't like `like`, dense in a memory of its
// own, or if anyone but the leaf may hold it.
PyRef TakeGradMemory(PyObject* leaf, const TensorMeta& like, void** data);
// True if the tensor has a gradient and that has this metadata.
bool GradMatches(PyObject* tensor, const TensorMeta& meta);
// Null takes the gradient away. Requires: one that fits the tensor.
void SetGrad(PyObject* tensor, PyObject* grad);
// Of a leaf; another tensor, which another thread made it, stays as it is.
void SetRequiresGrad(PyObject* tensor, bool requires_grad);

// The number of the autograd node that will be made next on this thread; a
// forward operator's node is made just before it runs.
uint64_t NextGradientNode();
// Whether autograd is going backward on this thread, and through which node.
// Those that add to a leaf's gradient have a number that is no other node's.
std::optional<uint64_t> CurrentGradientNode();

// True if an operator made the tensor, or wrote it, that autograd tracked by
// this node or one made after it, or if that can't be said.
bool IsTrackedSince(PyObject* tensor, uint64_t node);

// How autograd sees a tensor that is a view.
struct ViewRelation {
  PyRef base;  // That is none itself.
  // Which writes through the view autograd takes: torch's own number.
  uint8_t creation = 0;
};
// None if autograd tracks no view there.
std::optional<ViewRelation> ViewRelationOf(PyObject* tensor);
// Whether an operator that gives several views made it, as chunk() does.
bool IsOneOfViews(PyObject* tensor);
// A view of `base`, as autograd knows them, with the sizes, strides and offset
// of `like`, which has its storage. If it is tracked, gradients go through it.
// A new reference; throws what torch throws.
PyRef ViewOf(PyObject* base, PyObject* like, uint8_t creation, bool is_tracked);
// Which output of what made it the tensor is, for autograd.
uint32_t OutputNumberOf(PyObject* tensor);
// Gives what autograd knows to have made the tensor another name, of which the
// tensor is that output; throws what torch throws.
void RenameNode(PyObject* tensor, const std::string& name, uint32_t output);
// Whether writes to one of two tensors count as such to the other.
bool ShareWrites(PyObject* a, PyObject* b);
// What is one for all tensors that have one storage; null if it has none.
const void* StorageIdOf(PyObject* tensor);

// `tensor` as a backward pass leaves one: it requires grad, and going back
// through it a second time raises what torch raises. `node` is the name of its
// node, as texts of the tensor have it. A new reference; null with a Python
// error set on failure.
PyObject* WithReleasedGraph(PyObject* tensor, const std::string& node);

}  // namespace mica

#endif  // MICA_PYTHON_TORCH_SIDE_TENSORS_AUTOGRAD_ACCESS_H_
