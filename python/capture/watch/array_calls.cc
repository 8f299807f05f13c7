// Calls that make tensors, or arrays, of arrays in tensors' memory.

#include <optional>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "python/capture/effects/sinks.h"
#include "python/capture/known/purity.h"
#include "python/capture/values/constants.h"
#include "python/capture/watch/array_forms.h"
#include "python/capture/watch/array_watch.h"
#include "python/torch_side/tensors/tensor_access.h"

namespace mica {
namespace {

PyObject* Method(const char* path) { return ResolveName(path).release(); }

// What makes a tensor of an array, and how.
struct Maker {
  bool copies = false;
  bool takes_options = false;  // dtype, device and requires_grad.
  PyRef dtype;                 // Null: the array's.
};

std::optional<Maker> MakerOf(PyObject* callable) {
  if (PyType_Check(callable)) {
    if (!IsTensorConstructor(AsType(callable))) return std::nullopt;
    static PyObject* tensor = Method("torch.Tensor");
    static PyObject* default_dtype = Method("torch.get_default_dtype");
    PyRef dtype = PyRef::Steal(callable == tensor
                                   ? PyObject_CallNoArgs(default_dtype)
                                   : PyObject_GetAttrString(callable, "dtype"));
    if (dtype && IsTorchConstant(dtype.get())) {
      return Maker{.copies = true, .dtype = std::move(dtype)};
    }
    PyErr_Clear();
    return std::nullopt;
  }
  if (!PyCFunction_Check(callable) ||
      KindOfBuiltin(callable) != CallKind::kMakesTensor) {
    return std::nullopt;
  }
  const std::string name = CallableName(callable);
  if (absl::EndsWith(name, ".from_numpy")) return Maker{};
  if (absl::EndsWith(name, ".as_tensor")) return Maker{.takes_options = true};
  if (absl::EndsWith(name, ".tensor")) {
    return Maker{.copies = true, .takes_options = true};
  }
  return std::nullopt;
}

// False if an option isn't one that `maker` takes.
bool TakeOptions(absl::Span<PyObject* const> options, PyObject* names,
                 Maker* maker) {
  const auto count = static_cast<Py_ssize_t>(options.size());
  if (count == 0) return true;
  if (!maker->takes_options || names == nullptr ||
      PyTuple_GET_SIZE(names) != count) {
    return false;
  }
  for (Py_ssize_t i = 0; i < count; ++i) {
    const std::string name = PyText(PyTuple_GET_ITEM(names, i));
    PyObject* option = options[i];
    if (name == "dtype") {
      if (option == Py_None) continue;
      if (!IsTorchConstant(option)) return false;
      maker->dtype = PyRef::Share(option);
      continue;
    }
    const PyRef text = PyRef::Steal(PyObject_Str(option));
    if (!text) PyErr_Clear();
    const bool is_cpu =
        option == Py_None || (text && PyText(text.get()) == "cpu");
    if (!(name == "device" && is_cpu) &&
        !(name == "requires_grad" && option == Py_False)) {
      return false;
    }
  }
  return true;
}

// numpy.float32 and its like, by name; "" for what isn't one.
std::string FloatName(PyObject* dtype) {
  const PyRef name = PyRef::Steal(
      PyObject_GetAttrString(dtype, PyType_Check(dtype) ? "__name__" : "name"));
  if (name && PyUnicode_Check(name.get())) return PyText(name.get());
  PyErr_Clear();
  return "";
}

// Whether keywords say what holds without them: none of them, or order="C".
bool SaysNothing(absl::Span<PyObject* const> args, PyObject* names) {
  if (names == nullptr) return false;
  const Py_ssize_t count = PyTuple_GET_SIZE(names);
  if (count == 0) return true;
  return count == 1 && PyText(PyTuple_GET_ITEM(names, 0)) == "order" &&
         PyUnicode_Check(args.back()) && PyText(args.back()) == "C";
}

}  // namespace

PyRef ArrayWatch::AsTensor(PyObject* array) const {
  recorder_.Mute(true);
  PyRef tensor = TensorOfArray(array);
  recorder_.Mute(false);
  return tensor;
}

PyObject* ArrayWatch::TensorOf(absl::Span<PyObject* const> args) const {
  if (args.empty() || args[0] == nullptr || !IsArray(args[0])) return nullptr;
  PyObject* tensor = values_.TensorOf(args[0]);
  if (tensor == nullptr || !HasMemory(tensor)) return nullptr;
  const PyRef now = AsTensor(args[0]);
  // The program may have given the array another form.
  return now && ShowAlike(tensor, now.get()) ? tensor : nullptr;
}

bool ArrayWatch::Follow(PyObject* callable, absl::Span<PyObject* const> args,
                        PyObject* keyword_names) {
  if (refusal() || callable == nullptr || !values_.has_arrays()) return false;
  if (SaysNothing(args, keyword_names)) {
    args.remove_suffix(PyTuple_GET_SIZE(keyword_names));
    keyword_names = nullptr;
  }
  if (Py_TYPE(callable) == &PyMethodDescr_Type && TensorOf(args) != nullptr) {
    return keyword_names == nullptr && FollowMethod(callable, args);
  }
  if (PyCFunction_Check(callable) &&
      PyCFunction_GET_SELF(callable) != nullptr &&
      IsArray(PyCFunction_GET_SELF(callable))) {
    std::vector<PyObject*> all = {PyCFunction_GET_SELF(callable)};
    all.insert(all.end(), args.begin(), args.end());
    return keyword_names == nullptr && FollowMethod(callable, all);
  }
  const std::string name = NumpyName(callable);
  if ((name == "array" || name == "stack" || name == "concatenate") &&
      args.size() == 1 && args[0] != nullptr && !IsArray(args[0])) {
    return FollowJoined(name, args[0]);
  }
  PyObject* tensor = TensorOf(args);
  if (tensor == nullptr) return false;
  static PyObject* length = Method("builtins.len");
  static PyObject* get_attribute = Method("builtins.getattr");
  if (callable == length && args.size() == 1) {
    reads_shapes_ = true;
    return true;
  }
  if (callable == get_attribute && args.size() > 1) {
    return PyUnicode_Check(args[1]) && TellsForm(args[0], args[1]);
  }
  if (!name.empty()) {
    // Its arguments are none that have functions in numpy's place.
    if (PyRef code = CodeInPython(callable);
        code && absl::c_all_of(args, [](PyObject* arg) {
          return IsArray(arg) || IsForm(arg);
        })) {
      step_.in_place_of_call = std::move(code);
      return true;
    }
    return keyword_names == nullptr && args.size() == 1 &&
           FollowWhole(name, tensor);
  }
  return FollowMaker(tensor, callable, args, keyword_names);
}

bool ArrayWatch::FollowMaker(PyObject* tensor, PyObject* callable,
                             absl::Span<PyObject* const> args,
                             PyObject* keyword_names) {
  std::optional<Maker> maker = MakerOf(callable);
  if (!maker.has_value() ||
      !TakeOptions(args.subspan(1), keyword_names, &*maker)) {
    return false;
  }
  PyRef data = DataTensorOf(tensor);
  if (!data) {
    PyErr_Clear();
    return false;
  }
  if (!maker->copies && !maker->dtype) {
    static PyObject* as_tensor =
        Method("torch._C._VariableFunctions.as_tensor");
    step_.in_place_of_call = FixedCall(as_tensor, {data}, nullptr);
  } else {
    step_.in_place_of_call =
        Convert(std::move(data), maker->dtype.get(), maker->copies);
  }
  return static_cast<bool>(step_.in_place_of_call);
}

PyRef ArrayWatch::Convert(PyRef tensor, PyObject* dtype, bool copies) {
  static PyObject* to = Method("torch._C.TensorBase.to");
  PyRef own;
  if (dtype == nullptr) {
    own = PyRef::Steal(PyObject_GetAttrString(tensor.get(), "dtype"));
    dtype = own.get();
  }
  if (dtype == nullptr) {
    PyErr_Clear();
    return {};
  }
  return FixedCall(
      to,
      {std::move(tensor), PyRef::Share(dtype), PyRef::Share(Py_False),
       PyRef::Share(copies ? Py_True : Py_False)},
      nullptr);
}

// array.copy(), array.astype(numpy.float32), which gives numbers of any type
// as torch does, and what gives views.
bool ArrayWatch::FollowMethod(PyObject* callable,
                              absl::Span<PyObject* const> all) {
  PyObject* tensor = TensorOf(all);
  if (tensor == nullptr) return false;
  const std::string name = CallableName(callable);
  const std::string word = name.substr(name.rfind('.') + 1);
  if (GivesView(word)) return FollowView(tensor, all.subspan(1));
  if (word == "tolist" && all.size() == 1) {
    step_.shown = PyRef::Share(tensor);
    return true;
  }
  if (word == "copy" && all.size() == 1) return FollowCopy(tensor, nullptr);
  if (word != "astype" || all.size() != 2 || !IsInOrder(tensor)) return false;
  static PyObject* dtypes[] = {Method("torch.float32"),
                               Method("torch.float64")};
  const std::string wanted = FloatName(all[1]);
  if (wanted != "float32" && wanted != "float64") return false;
  return FollowCopy(tensor, dtypes[wanted == "float64" ? 1 : 0]);
}

bool ArrayWatch::FollowWhole(absl::string_view name, PyObject* tensor) {
  if (name == "asarray" || name == "asanyarray") return true;  // Itself.
  const bool is_in_order = IsInOrder(tensor);
  if (name == "ascontiguousarray") {
    if (TensorMeta::Of(tensor).sizes.empty()) return false;  // It adds a dim.
    return is_in_order || FollowCopy(tensor, nullptr);
  }
  return name == "array" && is_in_order && FollowCopy(tensor, nullptr);
}

bool ArrayWatch::FollowCopy(PyObject* tensor, PyObject* dtype) {
  PyRef data = DataTensorOf(tensor);
  if (data && !IsInOrder(tensor) && dtype == nullptr) {
    return Show(
        PyRef::Steal(PyObject_CallMethod(data.get(), "contiguous", nullptr)),
        {&tensor, 1});
  }
  const PyRef convert = data ? Convert(std::move(data), dtype, true) : PyRef();
  return Show(
      convert ? PyRef::Steal(PyObject_CallNoArgs(convert.get())) : PyRef(),
      {&tensor, 1});
}

bool ArrayWatch::FollowView(PyObject* tensor,
                            absl::Span<PyObject* const> args) {
  for (PyObject* arg : args) {
    if (!IsForm(arg)) return false;
    values_.MarkExactDeep(arg);
  }
  reads_shapes_ = true;
  step_.viewed = PyRef::Share(tensor);
  return true;
}

bool ArrayWatch::FollowJoined(absl::string_view name, PyObject* arrays) {
  if (!PyList_CheckExact(arrays) && !PyTuple_CheckExact(arrays)) return false;
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(arrays);
  const PyRef tensors = PyRef::Steal(PyList_New(count));
  if (!tensors || count == 0) return false;
  PyObject* first = nullptr;
  std::vector<PyObject*> from;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* array = PySequence_Fast_GET_ITEM(arrays, i);
    PyObject* tensor = TensorOf({&array, 1});
    if (tensor == nullptr || !IsInOrder(tensor)) return false;
    if (first == nullptr) first = tensor;
    from.push_back(tensor);
    if (!MayJoin(tensor, first, /*new_dim=*/name != "concatenate")) {
      return false;
    }
    PyList_SET_ITEM(tensors.get(), i, DataTensorOf(tensor).release());
  }
  static PyObject* stack = Method("torch._C._VariableFunctions.stack");
  static PyObject* cat = Method("torch._C._VariableFunctions.cat");
  reads_shapes_ = true;
  return Show(PyRef::Steal(PyObject_CallOneArg(
                  name == "concatenate" ? cat : stack, tensors.get())),
              from);
}

bool ArrayWatch::Show(PyRef tensor, absl::Span<PyObject* const> from) {
  if (!tensor) {
    PyErr_Clear();
    return false;
  }
  for (PyObject* one : from) values_.drawn().AddMadeOf(tensor.get(), one);
  static PyObject* numpy = Method("torch._C.TensorBase.numpy");
  step_.shown = tensor;
  step_.in_place_of_call = FixedCall(numpy, {std::move(tensor)}, nullptr);
  return static_cast<bool>(step_.in_place_of_call);
}

PyRef ArrayWatch::PlacesOf(PyObject* tensor, PyObject* key, Masks masks) const {
  if (!values_.has_arrays() || !IsTensor(tensor)) return {};
  static PyObject* whole = Method("torch.int64");
  static PyObject* truth = Method("torch.bool");
  const auto tensor_of = [&](PyObject* part) {
    PyObject* own = IsArray(part) ? TensorOf(part) : nullptr;
    if (own == nullptr) return PyRef();
    const PyRef dtype = PyRef::Steal(PyObject_GetAttrString(own, "dtype"));
    PyErr_Clear();
    const bool is_of_places =
        dtype.get() == whole && TensorMeta::Of(own).sizes.size() == 1;
    const bool is_mask = dtype.get() == truth && masks == Masks::kYes;
    return is_of_places || is_mask ? DataTensorOf(own) : PyRef();
  };
  if (!PyTuple_CheckExact(key)) return tensor_of(key);
  const PyRef places = PyRef::Steal(PyTuple_New(PyTuple_GET_SIZE(key)));
  bool is_any = false;
  for (Py_ssize_t i = 0; places && i < PyTuple_GET_SIZE(key); ++i) {
    PyObject* part = PyTuple_GET_ITEM(key, i);
    PyRef place = tensor_of(part);
    is_any |= static_cast<bool>(place);
    if (!place) place = PyRef::Share(part);
    PyTuple_SET_ITEM(places.get(), i, place.release());
  }
  PyErr_Clear();
  return is_any ? PyRef::Share(places.get()) : PyRef();
}

bool ArrayWatch::UseItem(PyObject* container, PyObject* key) {
  PyObject* tensor = TensorOf({&container, 1});
  if (tensor == nullptr || !IsPlainIndex(key)) return false;
  values_.MarkExactDeep(key);
  step_.viewed = PyRef::Share(tensor);
  step_.view_key = PyRef::Share(key);
  return true;
}

void ArrayWatch::AddView(PyObject* result) {
  const PyRef tensor = std::move(step_.viewed);
  const PyRef key = std::move(step_.view_key);
  if (result == nullptr) {  // It raised, which its form decided.
    reads_shapes_ = true;
    return;
  }
  if (refusal()) return;
  PyRef view;
  const PyRef seen = AsTensor(result);
  if (seen) {
    const PyRef data = DataTensorOf(tensor.get());
    static PyObject* item = Method("torch._C.TensorBase.__getitem__");
    if (key) {
      view = PyRef::Steal(
          PyObject_CallFunctionObjArgs(item, data.get(), key.get(), nullptr));
    }
    if (!view || !ShowAlike(view.get(), seen.get())) {
      view = WindowLike(data.get(), seen.get());
    }
  }
  PyErr_Clear();
  if (!view) {  // A number, or a copy.
    if (IsArray(result)) AddNew(result);
    return values_.ReadArray(tensor.get());
  }
  AddNew(result);
  values_.AddArray(result, view.get());
  values_.drawn().AddMadeOf(view.get(), tensor.get());
}

bool ArrayWatch::TellsForm(PyObject* owner, PyObject* name) {
  if (!IsArray(owner) || values_.TensorOf(owner) == nullptr) return false;
  const std::string word = PyText(name);
  if (word == "T") {
    reads_shapes_ = true;
    step_.viewed = PyRef::Share(values_.TensorOf(owner));
    return true;
  }
  static const auto& methods = *new absl::flat_hash_set<std::string>{
      "astype",   "copy",    "dtype",  "reshape", "transpose",
      "swapaxes", "squeeze", "tolist", "clip",    "mean",
      "sum",      "var",     "std",    "max",     "min"};
  if (methods.contains(word)) return true;
  if (word != "shape" && word != "ndim" && word != "size") return false;
  reads_shapes_ = true;
  return true;
}

}  // namespace mica
