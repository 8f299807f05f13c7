// What the steps of a program call, and the items of tensors that they take.

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/types/span.h"
#include "python/capture/values/numbers.h"
#include "python/capture/watch/size_watch.h"
#include "python/interpreter/interpreter.h"
#include "python/torch_side/tensors/tensor_access.h"

namespace mica {
namespace {

std::optional<int> DimOf(PyObject* number, size_t num_dims) {
  if (!PyLong_CheckExact(number)) return std::nullopt;
  const long dim = PyLong_AsLong(number);
  if (dim == -1 && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    return std::nullopt;
  }
  const auto count = static_cast<long>(num_dims);
  if (dim < -count || dim >= count) return std::nullopt;
  return static_cast<int>(dim < 0 ? dim + count : dim);
}

// How many dims of a tensor the items of an index are about.
std::optional<int32_t> CountDims(absl::Span<PyObject* const> items) {
  int32_t count = 0;
  for (PyObject* item : items) {
    if (item == Py_None) continue;
    // A tensor may be about several, a bool is about none.
    if (!PySlice_Check(item) && !PyLong_CheckExact(item)) return std::nullopt;
    ++count;
  }
  return count;
}

// The dim that an item of an index is about: from the last one on, below 0,
// behind an ellipsis.
int32_t IndexedDim(absl::Span<PyObject* const> items, size_t item) {
  const auto before = items.first(item);
  const bool is_behind = absl::c_linear_search(before, Py_Ellipsis);
  const std::optional<int32_t> count =
      CountDims(is_behind ? items.subspan(item) : before);
  if (!count.has_value()) return SizeFacts::Slice::kNoDim;
  return is_behind ? -*count : *count;
}

}  // namespace

void SizeWatch::UseItem(PyObject* container, PyObject* key) {
  if (!is_on()) return;
  Look(container);
  SeeDeep(key);
  if (!IsTensor(container) || seen_.empty()) return;
  const TapeTensorId tensor = seen_[0].id;
  if (!PyTuple_Check(key)) return NoteSlice(key, tensor, 0);
  const absl::Span<PyObject* const> items(&PyTuple_GET_ITEM(key, 0),
                                          PyTuple_GET_SIZE(key));
  for (size_t i = 0; i < items.size(); ++i) {
    NoteSlice(items[i], tensor, IndexedDim(items, i));
  }
}

void SizeWatch::NoteSlice(PyObject* object, TapeTensorId tensor, int32_t dim) {
  if (!PySlice_Check(object)) return;
  const auto* slice = reinterpret_cast<PySliceObject*>(object);
  SizeFacts::Slice noted{.tensor = tensor, .dim = dim};
  if (slice->start != Py_None) {
    const HostValues::Id id = values_.Find(slice->start);
    const bool is_known =
        PyLong_CheckExact(slice->start) && (id < 0 || values_.IsSize(id));
    noted.start.constant =
        is_known ? NumberOf(slice->start).value_or(SizeFacts::kUnknown)
                 : SizeFacts::kUnknown;
    if (is_known && id >= 0) noted.start.id = values_.IndexOfSize(id);
  }
  noted.stop.constant = std::numeric_limits<double>::infinity();
  if (slice->stop != Py_None) {
    const HostValues::Id id = values_.Find(slice->stop);
    if (id >= 0 && values_.IsSize(id)) noted.stop.id = values_.IndexOfSize(id);
    noted.stop.constant =
        NumberOf(slice->stop)
            .value_or(-std::numeric_limits<double>::infinity());
  } else if (noted.start.id < 0 && noted.start.constant == 0) {
    return;  // All, whatever the size is.
  }
  slices_.push_back(noted);
}

void SizeWatch::Call(PyObject* callable, absl::Span<PyObject* const> args) {
  if (!is_on() || callable == nullptr) return;
  if (PyMethod_Check(callable)) {
    std::vector<PyObject*> all = {PyMethod_GET_SELF(callable)};
    all.insert(all.end(), args.begin(), args.end());
    return Call(PyMethod_GET_FUNCTION(callable), all);
  }
  PyTypeObject* type = Py_TYPE(callable);
  if (PyCFunction_Check(callable) || type == &PyMethodDescr_Type ||
      type == &PyClassMethodDescr_Type || type == &PyWrapperDescr_Type ||
      type == MethodWrapperType()) {
    return CallBuiltin(callable, args);
  }
  if (FindAnnotation(callable) != nullptr || IsScriptFunctionType(type)) {
    is_hidden_ = true;
  } else if (PyFunction_Check(callable)) {
    return;  // Followed as it runs.
  }
  if (PyType_Check(callable)) {
    for (PyObject* arg : args) Look(arg);
    return;
  }
  if (!is_hidden_ && IsPythonClass(type)) return;  // Its __call__ is followed.
  SeeDeep(callable);
  for (PyObject* arg : args) SeeDeep(arg);
}

void SizeWatch::CallBuiltin(PyObject* callable,
                            absl::Span<PyObject* const> args) {
  if (PyCFunction_Check(callable)) {
    PyObject* self = PyCFunction_GET_SELF(callable);
    if (self != nullptr && !PyModule_Check(self)) args_.push_back(self);
  }
  args_.insert(args_.end(), args.begin(), args.end());
  const std::string name = CallableName(callable);
  called_ = name.substr(name.rfind('.') + 1);
  if (called_ == "size" && args_.size() == 2 && IsTensor(args_[0])) {
    dim_ = DimOf(args_[1], TensorMeta::Of(args_[0]).sizes.size());
  }
  if (called_ == "len" && args_.size() == 1 && IsTensor(args_[0]) &&
      IsPlainTensor(args_[0]) && !TensorMeta::Of(args_[0]).sizes.empty()) {
    step_.in_place_of_call = LengthFunction();
  }
  const CallAnnotation* known = FindAnnotation(callable);
  const CallKind kind = known == nullptr ? CallKind::kUnknown : known->kind;
  if (kind == CallKind::kReadsData && called_ == "numpy") {
    called_.clear();  // Who asks the array for its shape is seen.
    return;
  }
  switch (kind) {
    case CallKind::kTypes:
    case CallKind::kRegistry:
    case CallKind::kIdentity:
    case CallKind::kReadsState:
    case CallKind::kReadsModes:
    case CallKind::kSetsState:
    case CallKind::kSetAttr:
    case CallKind::kUseItem:
    case CallKind::kContext:
    case CallKind::kLock:
    case CallKind::kPrint:
    case CallKind::kWarn:
    case CallKind::kLog:
    case CallKind::kHost:
      called_.clear();
      return;
    case CallKind::kGetAttr:
      called_.clear();
      if (args.size() > 1) ReadAttribute(args[0], args[1]);
      return;
    case CallKind::kOperator:
    case CallKind::kMakesTensor:
    case CallKind::kReadsData:
    case CallKind::kText:
    case CallKind::kUnknown:
      break;
    default:
      // Python's own look at tensors by what these answer themselves.
      if (absl::StartsWith(name, "torch.")) break;
      for (PyObject* arg : args_) Look(arg);
      return;
  }
  for (PyObject* arg : args_) SeeDeep(arg);
}

}  // namespace mica
