#include "python/capture/watch/array_watch.h"

#include "absl/strings/str_cat.h"
#include "python/capture/known/purity.h"
#include "python/capture/values/constants.h"
#include "python/torch_side/tensors/autograd_access.h"
#include "python/torch_side/tensors/tensor_access.h"

namespace mica {

void ArrayWatch::EndStep(PyObject* result) {
  const bool makes_array = step_.makes_array;
  if (step_.viewed) AddView(result);
  if (step_.shown && result != nullptr && !refusal()) {
    if (IsArray(result)) AddNew(result);
    if (IsArray(result) || PyList_CheckExact(result)) {
      values_.AddArray(result, step_.shown.get());
    }
  }
  if (result != nullptr) {
    if (step_.makes_constant) AddMade(result);
    if (makes_array && IsArray(result)) AddNew(result);
  }
  // Items of what shows an array, such as its `flat`, too.
  if (makes_array || step_.is_making_tensor) CheckSharedMemory();
  if (step_.takes_from_array && result != nullptr) AddTaken(result);
}

void ArrayWatch::AddTaken(PyObject* result) {
  if (IsArray(result)) {
    AddNew(result);
  } else if (!PyObject_IS_GC(result)) {
    ages_.AddYoung(result);
  }
  if (!PyTuple_CheckExact(result)) return;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(result); ++i) {
    PyObject* item = PyTuple_GET_ITEM(result, i);
    if (IsArray(item)) AddNew(item);
  }
}

void ArrayWatch::AddNew(PyObject* array) {
  if (ages_.IsNotedOld(array) || IsInput(array) || guards_.HasArray(array)) {
    return;
  }
  ages_.PinYoung(array);
}

void ArrayWatch::AddMade(PyObject* result) {
  if (refusal() || !recorder_.on_made || !IsTensor(result) ||
      !IsPlainTensor(result)) {
    return;
  }
  recorder_.on_made(result);
  if (step_.shares_array) Expose(result);
}

void ArrayWatch::CameBack(PyObject* result) {
  if (refusal() || !IsArray(result) || Py_REFCNT(result) != 1) return;
  // Nobody but the code that asked for it holds the array: it is as good as
  // new, unless it shows another's memory.
  const PyRef base = PyRef::Steal(PyObject_GetAttrString(result, "base"));
  if (!base) return PyErr_Clear();
  if (base.get() == Py_None) AddNew(result);
}

void ArrayWatch::Expose(PyObject* tensor) {
  const int64_t version = VersionOf(tensor);
  if (version < 0) {
    return Refuse("shares an inference tensor's memory with numpy");
  }
  if (DataOf(tensor) == nullptr && NumElements(tensor) > 0) {
    return Refuse("shares memory with numpy below a transform of torch.func");
  }
  exposed_.push_back({.tensor = PyRef::Share(tensor),
                      .version = version,
                      .bytes = ElementBytes(tensor)});
}

void ArrayWatch::CheckSharedMemory() {
  if (const std::string changed = ChangedExposed(); !changed.empty()) {
    return Refuse(
        absl::StrCat("changes ", changed, ", whose memory numpy shares"),
        "copy the array");
  }
  std::vector<StatePlace> places;
  const std::string changed = guards_.FindArrays(nullptr, &places);
  if (changed.empty()) return;
  Refuse(absl::StrCat("changes state: ", changed),
         "keep such changes out of the compiled function");
  refusal().transient = true;
  for (StatePlace& place : places) refusals_.WantSlot(std::move(place));
}

std::string ArrayWatch::ChangedExposed() const {
  for (const Exposed& exposed : exposed_) {
    PyObject* tensor = exposed.tensor.get();
    if (VersionOf(tensor) != exposed.version ||
        ElementBytes(tensor) != exposed.bytes) {
      return PathOf(tensor);
    }
  }
  return "";
}

void ArrayWatch::TouchContext() {
  static PyObject* variable =
      ResolveName("numpy._core.umath._extobj_contextvar").release();
  if (variable == nullptr || !PyContextVar_CheckExact(variable)) return;
  guards_.AddContextVar(variable, NoteOf("numpy.geterr()"));
}

}  // namespace mica
