#include "python/capture/watch/tensor_watch.h"

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "python/capture/known/purity.h"
#include "python/capture/values/constants.h"
#include "python/capture/watch/array_forms.h"
#include "python/capture/watch/object_kinds.h"
#include "python/torch_side/autograd/backward_pass.h"
#include "python/torch_side/tensors/kept_casts.h"
#include "python/torch_side/tensors/tensor_access.h"

namespace mica {

namespace {

// Whether two tensors show the same memory alike.
bool LieAlike(PyObject* a, PyObject* b) {
  TensorMeta one = TensorMeta::Of(a);
  const TensorMeta two = TensorMeta::Of(b);
  one.requires_grad = two.requires_grad;
  return StorageOf(a) != nullptr && StorageOf(a) == StorageOf(b) &&
         StorageOffsetOf(a) == StorageOffsetOf(b) && one == two;
}

}  // namespace

bool TensorWatch::ReadAttribute(PyObject* owner, PyObject* name) {
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
    if (HasHooks(text)) {
      ReadHooks(owner);
      return false;
    }
    // Autograd's view of a tensor that the run itself made is made with it.
    const bool tracked =
        RequiresGrad(owner) && (IsOld(owner) || IsInput(owner));
    if (!IsSafeTensorAttribute(text, tracked)) {
      if (IsLeaf(owner) && IsSafeTensorAttribute(text, false)) {
        TouchGradient(owner);  // It is guarded to be a leaf.
        return false;
      }
      Refuse(absl::StrCat("reads Tensor.", text, ", which no guard can cover"));
      return false;
    }
    objects_.Touch(owner);
    return false;
  }
  if (IsInput(owner)) return false;  // Guarded to have none of its own.
  // A method, of which the call is seen; unless the tensor has its own.
  return descriptor == nullptr || IsOld(owner);
}

void TensorWatch::ReadOffsets(absl::Span<PyObject* const> args) {
  reads_offsets_ = true;
  // Those that the Program gets are guarded with their memory; others here.
  static PyObject* getter =
      ResolveName("torch._C.TensorBase.storage_offset").release();
  for (PyObject* arg : args) {
    objects_.Touch(arg);
    if (refusal() || !IsTensor(arg) || IsInput(arg) || !IsOld(arg)) continue;
    const PyRef offset =
        PyRef::Steal(PyLong_FromLongLong(StorageOffsetOf(arg)));
    guards_.AddAnswer(getter, arg, offset.get(),
                      NoteOf(absl::StrCat(PathOf(arg), ".storage_offset()")));
  }
}

bool TensorWatch::IsOwn(PyObject* tensor) {
  return !IsOld(tensor) && !IsInput(tensor) &&
         !gradients_.IsOldGradient(tensor);
}

void TensorWatch::WriteAttribute(PyObject* owner, PyObject* name,
                                 bool is_removed) {
  const std::string word = PyText(name);
  if (word == "grad") return TouchGradient(owner);
  if (HasHooks(word) && IsPlainTensor(owner) && !is_removed) {
    return WriteHooks(owner);
  }
  // Of a new tensor, what says no more than Python's own dict.
  if (IsOwn(owner) && (word == "requires_grad" ||
                       _PyType_Lookup(Py_TYPE(owner), name) == nullptr)) {
    return;
  }
  if (word == "requires_grad" && !is_removed && step_.stored != nullptr &&
      PyBool_Check(step_.stored)) {
    return ChangeTracking(owner, step_.stored == Py_True);
  }
  if ((word == "real" || word == "imag") && !is_removed) {
    values_.MarkExactDeep(step_.stored);
    // A copy to the parts, which the recorder sees.
    return objects_.Touch(owner);
  }
  if (word == "data" && !is_removed && step_.stored != nullptr &&
      IsTensor(step_.stored)) {
    return ReplaceData(owner, step_.stored);
  }
  Refuse(absl::StrCat("sets attribute ", PyText(name), " of a tensor"),
         "set it outside the compiled function");
}

void TensorWatch::TouchGradient(PyObject* owner) {
  if (!IsInput(owner) && !IsOld(owner)) return;
  if (!IsPlainTensor(owner)) {
    return Refuse("touches the gradient of a tensor's subclass");
  }
  if (!IsLeaf(owner)) {
    return Refuse(
        "touches the gradient of a tensor that came in with an "
        "autograd graph of its own",
        "touch it outside the compiled function");
  }
  if (!IsInput(owner)) objects_.Touch(owner);
  gradients_.Touch(owner);
  // What the leaf holds is looked up at each run, whatever object that is.
  for (const GradientWatch::Seen& seen : gradients_.seen()) {
    if (seen.tensor.get() != owner || !seen.before) continue;
    ages_.AddYoung(seen.before.get());
  }
}

void TensorWatch::RunBackward(absl::Span<PyObject* const> args) {
  // engine, roots, their gradients, keep_graph, create_graph, leaves, ….
  if (args.size() < 5) return;
  PyRef roots = PyRef::Steal(PySequence_List(args[1]));
  if (!roots) return PyErr_Clear();
  const absl::Span<PyObject* const> tensors(PySequence_Fast_ITEMS(roots.get()),
                                            PyList_GET_SIZE(roots.get()));
  // No operator need have taken them: the engine adds to a leaf's gradient, or
  // leaves the program by a graph that came in.
  for (PyObject* root : tensors) {
    if (IsTensor(root) && RequiresGrad(root) && !IsOwn(root)) {
      gradients_.See(root);
    }
  }
  if (args[4] == Py_True && gradients_.has_outer_graph()) {
    BackwardPass::Allow(false);
    return Refuse(
        "builds a graph of the backward pass, to be differentiated again, "
        "through a tensor that came in with an autograd graph of its own",
        "detach it, or compile what made it too");
  }
  constexpr size_t kAccumulates = 7;
  if (is_in_later_pass() &&
      (args.size() <= kAccumulates || args[kAccumulates] != Py_False)) {
    return Refuse("adds to gradients of leaves", "use autograd.grad()");
  }
  for (PyObject* arg : args.subspan(1)) objects_.Touch(arg, kDeep);
  gradients_.GoBackFrom(tensors);
  TouchHooks();
  if (args[3] == Py_True) return;
  for (PyObject* root : tensors) {
    if (IsTensor(root)) released_.Add(root);
  }
}

void TensorWatch::NoteSavedTensorHooks() {
  if (saved_tensor_hooks_) return;
  saved_tensor_hooks_ = {
      .reason =
          "returns a tensor that requires grad and is made where hooks "
          "see what autograd saves (torch.utils.checkpoint has such)",
      .mend = "compile the whole training step with its backward()",
      .at = CurrentUserLine(),
      .places = {SitesBelow(caller())}};
}

void TensorWatch::RequireGrad(absl::Span<PyObject* const> args) {
  if (args.empty() || !IsTensor(args[0])) return;
  const bool wanted = args.size() < 2 || args[1] != Py_False;
  if (!IsOwn(args[0])) ChangeTracking(args[0], wanted);
}

void TensorWatch::ChangeTracking(PyObject* owner, bool requires_grad) {
  objects_.Touch(owner);
  if (RequiresGrad(owner) == requires_grad) return;  // It stays as it is.
  if (is_in_later_pass()) {
    return Refuse("changes whether a tensor requires grad");
  }
  TouchGradient(owner);
}

void TensorWatch::ReplaceData(PyObject* owner, PyObject* data) {
  if (!IsPlainTensor(owner) || !IsPlainTensor(data)) {
    return Refuse("sets the data of a tensor's subclass");
  }
  // The recorder sees both before it finds one in the other's memory.
  static PyObject* detach = ResolveName("torch._C.TensorBase.detach").release();
  for (PyObject* tensor : {owner, data}) {
    objects_.Touch(tensor);
    if (PyRef::Steal(PyObject_CallOneArg(detach, tensor))) continue;
    PyErr_Clear();
    return Refuse("sets the data of a tensor that can't be detached");
  }
  const bool is_own = IsOwn(data);
  if (is_own && LieAlike(owner, data)) return;  // `x.data += y`.
  TensorMeta before = TensorMeta::Of(owner), after = TensorMeta::Of(data);
  before.sizes = after.sizes;
  before.strides = after.strides;
  before.requires_grad = after.requires_grad;
  if (!IsLeaf(owner) || ViewRelationOf(owner).has_value() ||
      VersionOf(owner) < 0 || before != after || after.has_lazy_bits()) {
    return Refuse(
        "sets the data of a tensor that is a view, has a history, or is of "
        "another kind",
        "set it outside the compiled function");
  }
  if (is_in_later_pass()) return Refuse("sets the data of a tensor");
  if (IsOwn(owner)) return;  // The recorder finds it where it is.
  if (AreCastsKept()) {
    return Refuse("sets the data of a tensor where autocast keeps casts of it");
  }
  TouchGradient(owner);
  if (!refusal()) gradients_.ReplaceData(owner);
}

void TensorWatch::DetachInPlace(absl::Span<PyObject* const> args) {
  if (args.empty() || !IsTensor(args[0])) return;
  if (!IsOld(args[0]) && !IsInput(args[0])) return;
  // Of a view it's an error; whether a tensor is one no guard tells.
  Refuse("detaches a tensor of the caller's in place", "use detach()");
}

void TensorWatch::RetainGrad(absl::Span<PyObject* const> args) {
  if (args.empty() || !IsTensor(args[0])) return;
  if (!IsOwn(args[0])) {
    return Refuse("has a tensor that it didn't make keep its gradient",
                  "do it outside the compiled function");
  }
  if (retained_grad_) return;
  retained_grad_ = {.reason =
                        "returns or leaves a tensor that keeps its "
                        "gradient, by retain_grad()",
                    .mend = "return its gradient",
                    .at = CurrentUserLine(),
                    .places = {SitesBelow(caller())}};
}

bool TensorWatch::ReadNumbers(PyObject* tensor) {
  constexpr int64_t kMaxNumbers = 64;
  if (!IsTensor(tensor) || !IsPlainTensor(tensor) ||
      NumElements(tensor) > kMaxNumbers) {
    return false;
  }
  objects_.Touch(tensor);
  // The recorder sees these as the program's own; they are what they are before
  // the program replaces any.
  static PyObject* detach = ResolveName("torch._C.TensorBase.detach").release();
  static PyObject* reshape =
      ResolveName("torch._C.TensorBase.reshape").release();
  static PyObject* select = ResolveName("torch._C.TensorBase.select").release();
  static PyObject* read = ResolveName("torch._C.TensorBase.item").release();
  PyRef plain = PyRef::Steal(PyObject_CallOneArg(detach, tensor));
  if (plain) {
    plain = PyRef::Steal(PyObject_CallFunction(reshape, "Oi", plain.get(), -1));
  }
  for (Py_ssize_t i = 0; plain && i < NumElements(tensor); ++i) {
    PyRef item =
        PyRef::Steal(PyObject_CallFunction(select, "Oin", plain.get(), 0, i));
    if (item) item = PyRef::Steal(PyObject_CallOneArg(read, item.get()));
    if (!item) plain = PyRef();
  }
  if (plain) return true;
  PyErr_Clear();
  return false;
}

void TensorWatch::ReadData(PyObject* reader, absl::Span<PyObject* const> args) {
  const std::string name = CallableName(reader);
  const bool is_numpy = absl::EndsWith(name, ".numpy");
  if (is_numpy && args.size() == 1 && IsTensor(args[0]) &&
      IsPlainTensor(args[0]) && HasMemory(args[0])) {
    objects_.Touch(args[0]);
    step_.shown = PyRef::Share(args[0]);
    return;
  }
  if (absl::EndsWith(name, ".tolist") && args.size() == 1) {
    if (ReadNumbers(args[0])) return;
    if (IsTensor(args[0]) && IsPlainTensor(args[0]) && HasMemory(args[0])) {
      objects_.Touch(args[0]);
      step_.shown = PyRef::Share(args[0]);
      return;
    }
  }
  Refuse(absl::StrCat("calls ", name,
                      ", which reads a tensor's data on the "
                      "host"),
         "keep the computation in tensors, or use item()");
}

void TensorWatch::ReadArray(PyObject* tensor) {
  const int64_t num_calls = recorder_.NumCalls();
  if (!ReadNumbers(tensor)) {
    return Refuse(
        "reads a numpy array in the memory of a tensor of many numbers",
        "keep the computation in tensors");
  }
  if (NumElements(tensor) > 0 && recorder_.NumCalls() == num_calls) {
    return Refuse("reads a numpy array where nothing is recorded");
  }
  arrays_.Expose(tensor);
}

// Of a packed sequence: the program's shapes follow from their values.
void TensorWatch::ReadLengths(PyObject* lengths) {
  if (!IsTensor(lengths)) return objects_.Touch(lengths, kDeep);
  if (ReadNumbers(lengths)) return;
  Refuse("reads the lengths of many sequences on the host",
         "pad the sequences instead");
}

void TensorWatch::Make(absl::Span<PyObject* const> args, bool copies) {
  step_.is_making_tensor = true;
  const auto first = absl::c_find_if(
      args, [](PyObject* arg) { return arg != nullptr && !IsTensor(arg); });
  PyObject* data = first == args.end() ? nullptr : *first;
  if (numbers_.PassData(data)) {
    step_.makes_constant = true;
    for (PyObject* arg : args) {
      if (arg != data) objects_.Touch(arg, kDeep);
    }
    return;
  }
  // Of a tensor, or of an array, it may be a view.
  step_.makes_constant = true;
  for (PyObject* arg : args) {
    objects_.Touch(arg, kDeep);
    if (!IsTensor(arg) && HoldsTensors(arg)) {
      // The dispatcher isn't asked for what is in them.
      return Refuse("makes a tensor of what is in other tensors",
                    "use torch.stack()");
    }
    if (IsConstant(arg) || PyList_CheckExact(arg)) continue;
    if (IsArray(arg)) {
      step_.shares_array |= !copies;
      continue;
    }
    step_.makes_constant = false;
  }
}

}  // namespace mica
