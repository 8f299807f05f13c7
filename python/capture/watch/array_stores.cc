// What is stored in arrays in tensors' memory: array[key] = value.

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "python/capture/values/numbers.h"
#include "python/capture/watch/array_forms.h"
#include "python/capture/watch/array_watch.h"
#include "python/torch_side/tensors/autograd_access.h"
#include "python/torch_side/tensors/tensor_access.h"

namespace mica {
namespace {

// Torch stores more numbers at once in no order: of two for one place, either
// may be the last.
constexpr int64_t kMaxInOrder = 1 << 14;

// Whether numpy and torch make the same of such a value in such an array.
bool IsConvertedAlike(absl::string_view from, absl::string_view to) {
  static const auto& numbers = *new absl::flat_hash_set<absl::string_view>{
      "bool", "uint8", "int8", "int16", "int32", "int64"};
  if (from == to) return true;
  if (to == "float32" || to == "float64") {
    return from == "float32" || from == "float64" || numbers.contains(from);
  }
  return to == "int64" && numbers.contains(from);
}

// The same of one of Python's.
bool TakesNumber(PyObject* number, absl::string_view to) {
  if (PyBool_Check(number)) return IsConvertedAlike("bool", to);
  const auto value = ScalarOf(number);
  if (!value.has_value()) return false;
  if (PyLong_CheckExact(number) && to == "int64") return true;
  // Of one that is too large torch raises, and numpy warns.
  const bool is_float32 =
      !std::isfinite(*value) ||
      std::fabs(*value) <=
          static_cast<double>(std::numeric_limits<float>::max());
  return to == "float64" || (to == "float32" && is_float32);
}

std::string DtypeOf(PyObject* tensor) {
  const PyRef dtype = PyRef::Steal(PyObject_GetAttrString(tensor, "dtype"));
  if (dtype) return DtypeName(dtype.get());
  PyErr_Clear();
  return "";
}

void Replace(PyObject** slot, const PyRef& other) {
  if (*slot != other.get()) Py_SETREF(*slot, PyRef(other).release());
}

}  // namespace

PyRef ArrayWatch::StoredTensor(PyObject* value, PyObject* place) const {
  PyRef tensor;
  if (IsArray(value)) {
    PyObject* known = TensorOf(value);
    if (known != nullptr) tensor = DataTensorOf(known);
  } else if (IsTensor(value) && IsPlainTensor(value) && HasMemory(value) &&
             !RequiresGrad(value)) {
    tensor = PyRef::Share(value);
  }
  if (!tensor || UnsupportedTensor(tensor.get()).has_value()) {
    PyErr_Clear();
    return PyRef();
  }
  const TensorMeta from = TensorMeta::Of(tensor.get());
  const TensorMeta to = TensorMeta::Of(place);
  if (!IsConvertedAlike(DtypeOf(tensor.get()), DtypeOf(place)) ||
      from.sizes.size() > to.sizes.size()) {
    return PyRef();
  }
  // Of what it stores over itself, numpy takes a copy first.
  if (StorageOf(tensor.get()) == StorageOf(place)) {
    tensor = PyRef::Steal(PyObject_CallMethod(tensor.get(), "clone", nullptr));
    if (!tensor) return PyErr_Clear(), PyRef();
  }
  for (size_t i = 0; i < from.sizes.size(); ++i) {
    const int64_t size = from.sizes[from.sizes.size() - 1 - i];
    if (size != 1 && size != to.sizes[to.sizes.size() - 1 - i]) return PyRef();
  }
  return tensor;
}

bool ArrayWatch::WantAsArgument(PyObject* array, const char* what) {
  if (refusals_.is_stopped() || is_in_later_pass() || IsInput(array) ||
      !IsOld(array) || values_.TensorOf(array) != nullptr) {
    return false;
  }
  std::vector<StatePlace> places;
  guards_.FindPlacesOf(array, &places);
  const PyRef tensor = places.empty() ? PyRef() : AsTensor(array);
  if (!tensor || UnsupportedTensor(tensor.get()).has_value()) {
    PyErr_Clear();
    return false;
  }
  refusals_.Refuse(absl::StrCat(what, PathOf(array)),
                   "keep such changes out of the compiled function");
  refusals_.current().transient = true;
  for (StatePlace& place : places) refusals_.WantSlot(std::move(place));
  return true;
}

void ArrayWatch::ReplaceStore(PyObject** container, PyObject** key,
                              PyObject** value) {
  if (!IsArray(*container) || WantAsArgument(*container, "changes state: ") ||
      refusal() || !values_.has_arrays()) {
    return;
  }
  PyObject* tensor = TensorOf(*container);
  if (tensor == nullptr ||
      (IsArray(*value) && WantAsArgument(*value, "stores items of "))) {
    return;
  }
  const PyRef data = DataTensorOf(tensor);
  PyRef places = data ? PlacesOf(data.get(), *key, Masks::kYes) : PyRef();
  const bool is_plain = !places && IsPlainIndex(*key);
  if (is_plain) places = PyRef::Share(*key);
  if (!data || !places) return PyErr_Clear();
  static PyObject* get_item =
      ResolveName("torch._C.TensorBase.__getitem__").release();
  recorder_.Mute(/*begins=*/true);
  const PyRef place = PyRef::Steal(PyObject_CallFunctionObjArgs(
      get_item, data.get(), places.get(), nullptr));
  recorder_.Mute(/*begins=*/false);
  // Numpy raises for an index that isn't there in its own words.
  if (!place || (!is_plain && NumElements(place.get()) > kMaxInOrder)) {
    return PyErr_Clear();
  }
  PyRef stored;
  if (IsArray(*value) || IsTensor(*value)) {
    stored = StoredTensor(*value, place.get());
  } else if (TakesNumber(*value, DtypeOf(place.get()))) {
    stored = PyRef::Share(*value);
  }
  if (!stored) return;
  reads_shapes_ = true;
  Replace(container, data);
  Replace(key, places);
  Replace(value, stored);
}

}  // namespace mica
