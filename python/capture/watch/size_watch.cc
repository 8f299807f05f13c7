#include "python/capture/watch/size_watch.h"

#include <utility>

#include "absl/strings/string_view.h"
#include "python/capture/known/size_calls.h"
#include "python/capture/values/held.h"
#include "python/capture/values/numbers.h"
#include "python/interpreter/interpreter.h"
#include "python/torch_side/tensors/tensor_access.h"

namespace mica {
namespace {

bool IsShape(PyObject* object) {
  return absl::string_view(Py_TYPE(object)->tp_name) == "torch.Size";
}

// Attributes of tensors that are numbers and no sizes.
bool IsOtherNumber(absl::string_view attribute) {
  return attribute == "ndim" || attribute == "itemsize" ||
         attribute == "output_nr" || attribute == "_version";
}

// Whether it holds tensors and None alone.
bool HoldsTensorsOnly(PyObject* object, int depth = 0) {
  constexpr int kMaxDepth = 4;
  if (object == Py_None || IsTensor(object)) return true;
  if (depth > kMaxDepth || IsShape(object)) return false;
  if (PyList_CheckExact(object)) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(object); ++i) {
      if (!HoldsTensorsOnly(PyList_GET_ITEM(object, i), depth + 1)) {
        return false;
      }
    }
    return true;
  }
  if (!PyTuple_Check(object)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i) {
    if (!HoldsTensorsOnly(PyTuple_GET_ITEM(object, i), depth + 1)) return false;
  }
  return true;
}

}  // namespace

void SizeWatch::BeginStep() {
  if (!is_on()) return;
  seen_.clear();
  args_.clear();
  attribute_.clear();
  called_.clear();
  dim_.reset();
  constants_.clear();
  slices_.clear();
  is_hidden_ = is_operator_ = false;
  values_.BeginSizeUses();
}

void SizeWatch::Look(PyObject* object) {
  if (object == nullptr) return;
  if (IsTensor(object)) {
    for (const Seen& seen : seen_) {
      if (seen.tensor == object) return;
    }
    seen_.push_back({.tensor = object,
                     .id = find_(object),
                     .is_of_state = IsOld(object) && !IsInput(object),
                     .num_dims = TensorMeta::Of(object).sizes.size()});
    return;
  }
  // What calls a function in C for each item that it gives.
  if (!PyIter_Check(object) || PyList_Check(object)) return;
  bool calls = false;
  std::vector<PyObject*> tensors;
  ForEachHeld(object, Through::kCode, [&](PyObject* held) {
    calls |= PyCFunction_Check(held) || Py_IS_TYPE(held, &PyMethodDescr_Type) ||
             Py_IS_TYPE(held, &PyWrapperDescr_Type);
    if (IsTensor(held)) tensors.push_back(held);
  });
  if (!calls) return;
  for (PyObject* tensor : tensors) Look(tensor);
}

void SizeWatch::SeeDeep(PyObject* object) {
  if (!is_on() || object == nullptr) return;
  ForEachHeld(object, Through::kCode, [this](PyObject* held) {
    NoteConstant(held);
    if (IsTensor(held)) Look(held);
  });
}

void SizeWatch::NoteConstant(PyObject* object) {
  if (!PyLong_CheckExact(object)) return;
  const HostValues::Id id = values_.Find(object);
  if (id >= 0 && !values_.IsExact(id)) return;
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(object, &overflow);
  if (overflow == 0) constants_.push_back(number);
}

void SizeWatch::ReadAttribute(PyObject* owner, PyObject* name) {
  if (!is_on() || !IsTensor(owner) || !PyUnicode_Check(name)) return;
  attribute_ = PyText(name);
  Look(owner);
}

bool SizeWatch::MayVary(const Seen& seen) {
  if (seen.id != kNoTapeTensor) return true;
  if (!seen.is_of_state) {
    facts_.unknown = "reads the sizes of a tensor that no operator made";
  }
  return false;
}

bool SizeWatch::FollowShape(const Seen& seen, PyObject** top) {
  PyObject* shape = *top;
  const Py_ssize_t num_dims = PyTuple_GET_SIZE(shape);
  if (static_cast<size_t>(num_dims) != seen.num_dims) return false;
  if (!MayVary(seen)) return true;
  const PyRef items = PyRef::Steal(PyTuple_New(num_dims));
  if (!items) return false;
  for (Py_ssize_t i = 0; i < num_dims; ++i) {
    PyRef own = NewNumber(PyTuple_GET_ITEM(shape, i));
    if (!own) return false;
    values_.AddSize(own.get(), seen.id, static_cast<int>(i));
    PyTuple_SET_ITEM(items.get(), i, own.release());
  }
  PyRef made = PyRef::Steal(PyObject_CallOneArg(
      reinterpret_cast<PyObject*>(Py_TYPE(shape)), items.get()));
  if (!made) return false;
  Py_SETREF(*top, made.release());
  return true;
}

bool SizeWatch::FollowOne(const Seen& seen, int dim, PyObject** top) {
  if (!MayVary(seen)) return true;
  PyRef own = NewNumber(*top);
  if (!own) return false;
  values_.AddSize(own.get(), seen.id, dim);
  Py_SETREF(*top, own.release());
  return true;
}

bool SizeWatch::Follow(PyObject** top) {
  if (seen_.size() != 1) return false;
  const Seen& seen = seen_[0];
  if (IsShape(*top)) {
    // Of another tensor, or of none: what it is made of is followed itself.
    return (attribute_ == "shape" || called_ == "size") &&
           FollowShape(seen, top);
  }
  if (!PyLong_CheckExact(*top) || args_.empty() || args_[0] != seen.tensor) {
    return false;
  }
  if (args_.size() == 1) {
    const bool is_count = called_ == "numel" || called_ == "nelement";
    if (is_count) return FollowOne(seen, -1, top);
    const bool is_length = called_ == "len" || called_ == "__len__";
    return is_length && seen.num_dims > 0 && FollowOne(seen, 0, top);
  }
  return called_ == "size" && args_.size() == 2 && dim_.has_value() &&
         FollowOne(seen, *dim_, top);
}

bool SizeWatch::TellsNoSize(PyObject* result) const {
  if (is_hidden_) return false;
  if (HoldsTensorsOnly(result)) return true;
  PyTypeObject* type = Py_TYPE(result);
  if (PyCFunction_Check(result) || PyMethod_Check(result) ||
      PyFunction_Check(result) || type == &PyMethodDescr_Type ||
      type == &PyWrapperDescr_Type || type == MethodWrapperType() ||
      PyType_Check(result) || IsTorchConstant(result) || PyIter_Check(result)) {
    return true;
  }
  if (!attribute_.empty()) {
    return !PyTuple_Check(result) &&
           (!PyLong_CheckExact(result) || IsOtherNumber(attribute_));
  }
  return IsFreeOfSizes(called_);
}

bool SizeWatch::IsKnownCall(const Calls& calls) const {
  if (called_.empty() || calls.end == calls.first) return true;
  // "aten.add_.Tensor" is add_() itself.
  absl::string_view op = calls.only_op;
  const size_t dot = op.find('.');
  if (dot != absl::string_view::npos) {
    op.remove_prefix(dot + 1);
    if (op.substr(0, op.find('.')) == called_) return true;
  }
  return IsKnownComposite(called_);
}

void SizeWatch::PinAll() {
  for (const Seen& seen : seen_) Pin(seen);
}

void SizeWatch::Pin(const Seen& seen) {
  if (!MayVary(seen)) return;
  facts_.pinned.push_back(
      {.tensor = seen.id, .at = CurrentUserLine().ToString()});
}

void SizeWatch::KeepSizes() {
  if (is_on() && !seen_.empty()) Pin(seen_[0]);
}

void SizeWatch::SettleUses(PyObject* result, bool entered, const Calls& calls) {
  const std::vector<HostValues::Id> used = values_.TakeSizeUses();
  const bool makes_calls = !entered && calls.end > calls.first;
  const bool is_told =
      !constants_.empty() || called_ == "diff" || !slices_.empty();
  if (used.empty() && !(is_told && makes_calls)) return;
  if (!used.empty() && result != nullptr && PyUnicode_CheckExact(result)) {
    return values_.AddSizeText(result, used);
  }
  if (entered && is_operator_) return;  // The method's steps use them.
  if (!makes_calls) {
    for (const HostValues::Id id : used) values_.PinSize(id);
    return;
  }
  SizeFacts::Use use{.first_call = calls.first, .end_call = calls.end};
  for (const HostValues::Id id : used) {
    use.numbers.push_back(values_.IndexOfSize(id));
  }
  use.constants = std::exchange(constants_, {});
  use.called = called_;
  use.slices = std::exchange(slices_, {});
  if (!used.empty()) use.at = CurrentUserLine().ToString();
  facts_.uses.push_back(std::move(use));
}

void SizeWatch::EndStep(PyObject** top, bool entered, const Calls& calls) {
  SettleUses(top == nullptr ? nullptr : *top, entered, calls);
  if (refusal() || entered || top == nullptr || *top == nullptr ||
      seen_.empty()) {
    if (is_hidden_ && !seen_.empty()) PinAll();
    return;
  }
  if (!IsKnownCall(calls)) return PinAll();
  const bool is_read =
      calls.reads_number && (IsNumber(*top) || PyBool_Check(*top));
  if (is_hidden_ || (!is_read && !Follow(top) && !TellsNoSize(*top))) PinAll();
  if (PyErr_Occurred() != nullptr) PyErr_Clear();
}

SizeFacts SizeWatch::TakeFacts() {
  SizeFacts facts = values_.FindSizeFacts();
  facts.uses = std::move(facts_.uses);
  facts.pinned = std::move(facts_.pinned);
  facts.unknown = std::move(facts_.unknown);
  return facts;
}

}  // namespace mica
