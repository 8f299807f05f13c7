#include "absl/strings/str_cat.h"
#include "python/capture/known/purity.h"
#include "python/capture/values/constants.h"
#include "python/capture/watch/state_watch.h"
#include "python/torch_side/autograd/backward_pass.h"

namespace mica {

// False if nothing is left to look at.
bool StateWatch::ReadTensorAttribute(PyObject* owner, PyObject* name) {
  if (!IsPlainTensor(owner)) {
    Refuse(absl::StrCat("uses a ", TypeName(Py_TYPE(owner)),
                        ", a subclass of torch.Tensor"));
    return false;
  }
  PyObject* descriptor = _PyType_Lookup(Py_TYPE(owner), name);
  if (descriptor != nullptr && Py_TYPE(descriptor) == &PyGetSetDescr_Type) {
    const std::string text = PyText(name);
    if (text == "grad" || text == "_grad") {
      TouchGradient(owner);
      return false;
    }
    // Autograd's view of a tensor that the run itself made is made with it.
    const bool tracked =
        RequiresGrad(owner) && (IsOld(owner) || inputs_.contains(owner));
    if (!IsSafeTensorAttribute(text, tracked)) {
      if (IsLeaf(owner) && IsSafeTensorAttribute(text, false)) {
        TouchGradient(owner);  // It is guarded to be a leaf.
        return false;
      }
      Refuse(absl::StrCat("reads Tensor.", text, ", which no guard can cover"));
      return false;
    }
    Touch(owner);
    return false;
  }
  if (descriptor != nullptr) return false;    // A method: its call is seen.
  if (inputs_.contains(owner)) return false;  // Guarded to have none.
  return true;
}

void StateWatch::TouchGradient(PyObject* owner) {
  if (!inputs_.contains(owner) && !IsOld(owner)) return;
  if (!IsPlainTensor(owner)) {
    return Refuse("touches the gradient of a tensor's subclass");
  }
  if (!inputs_.contains(owner)) TouchObject(owner, kShallowDepth);
  gradients_.Touch(owner);
  // What the leaf holds is looked up at each run, whatever object that is.
  for (const GradientWatch::Seen& seen : gradients_.seen()) {
    if (seen.tensor.get() != owner || !seen.before) continue;
    young_.insert(seen.before.get());
  }
}

void StateWatch::RunBackward(absl::Span<PyObject* const> args) {
  // engine, roots, their gradients, keep_graph, create_graph, leaves, ….
  if (args.size() < 5) return;
  if (args[4] == Py_True && gradients_.has_outer_graph()) {
    BackwardPass::Allow(false);
    return Refuse(
        "builds a graph of the backward pass, to be differentiated again, "
        "through a tensor that came in with an autograd graph of its own",
        "detach it, or compile what made it too");
  }
  constexpr size_t kAccumulates = 7;
  if (later_ != nullptr &&
      (args.size() <= kAccumulates || args[kAccumulates] != Py_False)) {
    return Refuse("adds to gradients of leaves", "use autograd.grad()");
  }
  for (PyObject* arg : args.subspan(1)) TouchObject(arg, kDeepDepth);
  gradients_.TouchAll();
  if (args[3] == Py_True) return;
  PyRef roots = PyRef::Steal(PySequence_List(args[1]));
  if (!roots) return PyErr_Clear();
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(roots.get()); ++i) {
    PyObject* root = PyList_GET_ITEM(roots.get(), i);
    if (IsTensor(root)) released_.Add(root);
  }
}

// Tensor.requires_grad_: harmless where it changes nothing, or only what the
// run itself made.
void StateWatch::RequireGrad(absl::Span<PyObject* const> args) {
  if (args.empty() || !IsTensor(args[0])) return;
  const bool wanted = args.size() < 2 || args[1] != Py_False;
  const bool is_ours = !IsOld(args[0]) && !inputs_.contains(args[0]);
  if (is_ours && !gradients_.IsOldGradient(args[0])) return;
  if (RequiresGrad(args[0]) == wanted) return TouchObject(args[0], 0);
  Refuse("changes whether a tensor requires grad",
         "do it outside the compiled function");
  refusal_.transient = true;  // The next call finds it changed.
}

}  // namespace mica
