// Builtins that are done in Python, where what they do is followed.

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "python/capture/known/stand_ins.h"
#include "python/capture/watch/array_forms.h"
#include "python/capture/watch/builtin_calls.h"
#include "python/capture/watch/call_facts.h"
#include "python/interpreter/call_with_names.h"
#include "python/interpreter/interpreter.h"
#include "python/torch_side/tensors/tensor_access.h"

namespace mica {
namespace {

// Functions of mica.in_python, mica.ordering (of what sorts) and
// mica.formatting, by what they are called in place of.
const absl::flat_hash_map<PyObject*, absl::string_view>& Functions() {
  static const auto& functions =
      *new absl::flat_hash_map<PyObject*, absl::string_view>{
          {ResolveName("builtins.any").release(), "any_of"},
          {ResolveName("builtins.all").release(), "all_of"},
          {ResolveName("builtins.max").release(), "largest"},
          {ResolveName("builtins.min").release(), "smallest"},
          {ResolveName("builtins.sum").release(), "add_up"},
          {ResolveName("builtins.str.join").release(), "join_texts"},
          {ResolveName("builtins.str.format").release(), "format_text"},
          {ResolveName("torch.Tensor.tolist").release(), "as_list"},
          {ResolveName("torch._C._nn.pad_sequence").release(), "pad"},
          {ResolveName("builtins.repr").release(), "text_of"},
          {ResolveName("builtins.dict.update").release(), "update_items"},
          {ResolveName("builtins.sorted").release(), "in_order"},
          {ResolveName("builtins.list.sort").release(), "sort_items"}};
  return functions;
}

// Whether pad_sequence() is called as torch's own function in Python does, and
// with what its C++ code takes.
bool PadsTensors(absl::Span<PyObject* const> args, size_t num_keywords) {
  constexpr size_t kNumArgs = 4;
  if (args.size() != kNumArgs || num_keywords != 0 ||
      !(PyList_CheckExact(args[0]) || PyTuple_CheckExact(args[0])) ||
      !PyBool_Check(args[1]) || !PyFloat_CheckExact(args[2]) ||
      !PyUnicode_CheckExact(args[3])) {
    return false;
  }
  const bool is_side = PyUnicode_CompareWithASCIIString(args[3], "left") == 0 ||
                       PyUnicode_CompareWithASCIIString(args[3], "right") == 0;
  PyObject** first = PySequence_Fast_ITEMS(args[0]);
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(args[0]);
  return is_side && count > 0 &&
         std::all_of(first, first + count, [](PyObject* item) {
           return IsTensor(item) && IsPlainTensor(item) && HasMemory(item) &&
                  !TensorMeta::Of(item).sizes.empty();
         });
}

// Whether sum() is of floats from 3.12 on, where it adds them with what was
// lost in rounding: each in more than one step.
bool AddsFloats(PyObject* items) {
  if (PY_VERSION_HEX < 0x030c0000) return false;
  PyObject** first = PySequence_Fast_ITEMS(items);
  return std::any_of(first, first + PySequence_Fast_GET_SIZE(items),
                     [](PyObject* item) { return PyFloat_CheckExact(item); });
}

// Whether the fields of a format show values as they are: no `{!r}`, `{0.real}`
// or `{:{width}}`. `has_specs` is set if one has a spec.
bool HasPlainFields(absl::string_view text, bool* has_specs) {
  bool is_inside = false, is_spec = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char letter = text[i];
    if (!is_inside) {
      const bool is_doubled = i + 1 < text.size() && text[i + 1] == letter;
      if (letter == '{' && is_doubled) ++i;
      is_inside = letter == '{' && !is_doubled;
      is_spec = false;
    } else if (letter == '}') {
      is_inside = false;
    } else if (letter == '{' || letter == '!') {
      return false;
    } else if (letter == ':') {
      *has_specs = is_spec = true;
    } else if (!is_spec && (letter == '.' || letter == '[')) {
      return false;
    }
  }
  return true;
}

bool IsPlainList(PyObject* items) {
  return PyList_CheckExact(items) || PyTuple_CheckExact(items);
}

// The sizes of a tensor are listed, too.
bool IsListed(PyObject* items) {
  return IsPlainList(items) ||
         absl::string_view(Py_TYPE(items)->tp_name) == "torch.Size";
}

// Whether items are known to be in a certain order, if they are any.
bool IsSequence(PyObject* items) {
  const PyTypeObject* type = Py_TYPE(items);
  return PyList_CheckExact(items) || PyTuple_CheckExact(items) ||
         PyRange_Check(items) || type == &PyDict_Type ||
         type == &PyDictKeys_Type || type == &PyDictValues_Type ||
         type == &PyDictItems_Type;
}

}  // namespace

// Whether it may go by numbers, and is called as it should be. By a tuple's own
// method in_order() has C code sort.
bool BuiltinCalls::SortsByNumbers(absl::Span<PyObject* const> args,
                                  PyObject* keyword_names, bool is_method) {
  constexpr Py_ssize_t kMostItems = 32;
  const size_t num_keywords = NumNames(keyword_names);
  PyObject* items = args[0];
  if (args.size() - num_keywords != 1) return false;
  if (is_method && (!PyList_CheckExact(items) || IsOld(items))) return false;
  bool has_key = false;
  for (size_t i = 0; i < num_keywords; ++i) {
    PyObject* name = PyTuple_GET_ITEM(keyword_names, i);
    PyObject* value = args[args.size() - num_keywords + i];
    if (PyUnicode_CompareWithASCIIString(name, "key") == 0) {
      has_key = value != Py_None;
      if (!PyCallable_Check(value) && has_key) return false;
      if (Py_TYPE(value) == MethodWrapperType()) return false;
    } else if (PyUnicode_CompareWithASCIIString(name, "reverse") != 0 ||
               !PyBool_Check(value)) {
      return false;
    }
  }
  if (RunsForItems(items)) return true;
  if (!IsSequence(items)) return false;
  const Py_ssize_t count = PyObject_Size(items);
  return count > 1 && count <= kMostItems &&
         (has_key || values_.HasKnown(items) ||
          (!values_.empty() && !PyList_CheckExact(items) &&
           !PyTuple_CheckExact(items)));
}

bool BuiltinCalls::TellsNumbers(PyObject* container) const {
  if (PyList_CheckExact(container) || PyTuple_CheckExact(container)) {
    return values_.HasKnown(container);
  }
  if (!PyDict_CheckExact(container) || values_.empty()) return false;
  Py_ssize_t position = 0;
  PyObject *key = nullptr, *value = nullptr;
  while (PyDict_Next(container, &position, &key, &value)) {
    if (values_.HasKnown(value)) return true;
  }
  return false;
}

// Whether it shows tensors of no dims, whose text is made of their numbers, or
// containers of numbers that vary.
bool BuiltinCalls::FormatsNumbers(absl::Span<PyObject* const> args) const {
  bool has_specs = false, is_any = false, has_containers = false;
  if (!PyUnicode_CheckExact(args[0]) || values_.FindText(args[0]) >= 0 ||
      !HasPlainFields(PyText(args[0]), &has_specs)) {
    return false;
  }
  static PyObject* tensor = ResolveName("torch.Tensor").release();
  for (PyObject* arg : args.subspan(1)) {
    is_any |= reinterpret_cast<PyObject*>(Py_TYPE(arg)) == tensor &&
              IsPlainTensor(arg) && HasMemory(arg) &&
              TensorMeta::Of(arg).sizes.empty();
    has_containers |= TellsNumbers(arg);
  }
  return has_containers ? !has_specs : is_any;
}

// functools.reduce() and math.prod(), which hide what they have so far.
PyRef BuiltinCalls::FoldInPython(PyObject* callable,
                                 absl::Span<PyObject* const> args,
                                 PyObject* keyword_names) const {
  static PyObject* reduce = ResolveName("functools.reduce").release();
  static PyObject* prod = ResolveName("math.prod").release();
  const size_t num_keywords = NumNames(keyword_names);
  constexpr Py_ssize_t kMostItems = 1024;
  const auto is_followed = [this](PyObject* items) {
    return RunsForItems(items) ||
           (IsListed(items) && !values_.empty() &&
            PySequence_Fast_GET_SIZE(items) <= kMostItems);
  };
  if (callable == prod && args.size() - num_keywords == 1 &&
      is_followed(args[0])) {
    return FunctionInPython("multiply", "mica.folds");
  }
  if (callable == reduce && num_keywords == 0 && args.size() >= 2 &&
      args.size() <= 3 && is_followed(args[1])) {
    return FunctionInPython("reduce_items", "mica.folds");
  }
  return PyRef();
}

bool BuiltinCalls::CallInPython(PyObject* callable,
                                absl::Span<PyObject* const> args,
                                PyObject* keyword_names) {
  const auto function = Functions().find(callable);
  if (function == Functions().end()) {
    PyRef fold = FoldInPython(callable, args, keyword_names);
    if (!fold) return false;
    step_.in_place_of_call = std::move(fold);
    return true;
  }
  if (args.empty()) return false;
  const absl::string_view name = function->second;
  const bool is_sum = name == "add_up";
  const size_t num_keywords = NumNames(keyword_names);
  const size_t num_positional = args.size() - num_keywords;
  bool is_ours = false;
  const bool is_method = name == "sort_items";
  if (is_method || name == "in_order") {
    if (!SortsByNumbers(args, keyword_names, is_method)) return false;
    step_.in_place_of_call = FunctionInPython(name.data(), "mica.ordering");
    return static_cast<bool>(step_.in_place_of_call);
  }
  if (name == "update_items") {
    is_ours = UpdatesDict(args.first(num_positional));
  } else if (name == "pad") {
    is_ours = PadsTensors(args, num_keywords);
  } else if (name == "as_list") {
    constexpr int64_t kMaxNumbers = 64;
    is_ours = args.size() == 1 && IsTensor(args[0]) && IsPlainTensor(args[0]) &&
              HasMemory(args[0]) && NumElements(args[0]) > 0 &&
              NumElements(args[0]) <= kMaxNumbers;
  } else if (name == "text_of") {
    is_ours = args.size() == 1 && TellsNumbers(args[0]);
  } else if (name == "format_text") {
    if (!FormatsNumbers(args)) return false;
    step_.in_place_of_call = FunctionInPython(name.data(), "mica.formatting");
    return static_cast<bool>(step_.in_place_of_call);
  } else if (name == "join_texts") {
    is_ours = args.size() == 2 && RunsForItems(args[1]);
  } else if (num_positional == 1 || (is_sum && num_positional == 2)) {
    PyObject* items = args[0];
    const bool is_list = IsListed(items) && PySequence_Fast_GET_SIZE(items) > 0;
    const bool has_key = absl::c_any_of(
        args.subspan(1), [](PyObject* arg) { return PyFunction_Check(arg); });
    is_ours = RunsForItems(items) || (is_list && has_key) ||
              (PyDictValues_Check(items) && !values_.empty()) ||
              (is_list && values_.HasKnown(items) &&
               (!is_sum || AddsFloats(items) || !IsPlainList(items)));
  }
  if (!is_ours) return false;
  step_.in_place_of_call = FunctionInPython(name.data());
  return static_cast<bool>(step_.in_place_of_call);
}

}  // namespace mica
