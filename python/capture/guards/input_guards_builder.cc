// How a call's arguments are described.

#include "python/capture/guards/input_guards_builder.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "python/capture/guards/plain_instances.h"
#include "python/capture/values/constants.h"
#include "python/capture/values/dicts.h"
#include "python/capture/values/numbers.h"
#include "python/capture/values/sequences.h"
#include "python/interpreter/interpreter.h"

namespace mica {
namespace {

constexpr int kMaxNodes = 20000;
constexpr int kMaxDepth = 64;

// types.SimpleNamespace.
PyTypeObject* NamespaceType() {
  static PyTypeObject* type = Py_TYPE(PySys_GetObject("implementation"));
  return type;
}

bool IsDataclass(PyTypeObject* type) {
  static PyObject* word = PyUnicode_InternFromString("__dataclass_fields__");
  return _PyType_Lookup(type, word) != nullptr;
}

bool HasConstantsOnly(PyObject* set) {
  const std::vector<PyRef> items = ItemsOf(set);
  return std::all_of(items.begin(), items.end(),
                     [](const PyRef& item) { return IsConstant(item.get()); });
}

}  // namespace

PyObject* InputGuards::Builder::Renew(int id) {
  Node& node = guards_.nodes_[id];
  if (node.kind == Kind::kNumber) {
    node.original = node.value;
    node.value = NewNumber(node.value.get());
    node.recorded = node.value.get();
  }
  return node.original ? node.value.get() : nullptr;
}

void InputGuards::Builder::RenewTuple(int id, PyObject* tuple,
                                      std::vector<PyObject*> items) {
  PyTypeObject* type = Py_TYPE(tuple);
  PyRef made = PyRef::Steal(PyTuple_New(static_cast<Py_ssize_t>(items.size())));
  for (size_t i = 0; made && i < items.size(); ++i) {
    Py_INCREF(items[i]);
    PyTuple_SET_ITEM(made.get(), static_cast<Py_ssize_t>(i), items[i]);
  }
  if (made && type != &PyTuple_Type) {
    const PyRef args = PyRef::Steal(PyTuple_Pack(1, made.get()));
    made = args ? PyRef::Steal(PyTuple_Type.tp_new(type, args.get(), nullptr))
                : PyRef();
  }
  if (!made) {
    PyErr_Clear();
    Refuse("no memory is left");
    return;
  }
  Node& node = guards_.nodes_[id];
  node.original = PyRef::Share(tuple);
  node.recorded = made.get();
  guards_.node_of_[made.get()] = id;
  guards_.covered_.push_back(made.get());
  node.value = std::move(made);
}

bool InputGuards::Builder::HoldsPromoted(PyObject* object,
                                         const std::string& path) const {
  if (!PyTuple_Check(object) || !HasNoAttributes(object)) return false;
  const std::string prefix = path + "[";
  return absl::c_any_of(promoted_, [&](const std::string& promoted) {
    return absl::StartsWith(promoted, prefix);
  });
}

int InputGuards::Builder::NewNode(Kind kind, PyObject* object,
                                  std::string path) {
  const int id = static_cast<int>(guards_.nodes_.size());
  Node node;
  node.kind = kind;
  node.type = PyRef::Share(reinterpret_cast<PyObject*>(Py_TYPE(object)));
  node.path = std::move(path);
  node.recorded = object;
  guards_.nodes_.push_back(std::move(node));
  return id;
}

bool InputGuards::Builder::IsStructuralList(PyObject* object) const {
  PyTypeObject* type = Py_TYPE(object);
  if (type == &PyList_Type) return true;
  return apart_.structural.contains(type) && IsPythonClass(type) &&
         !HasSlots(type) && SolidBase(type) == &PyList_Type &&
         HasNoAttributes(object);
}

bool InputGuards::Builder::IsStructuralDeque(PyObject* object) const {
  if (!IsDeque(object) || Py_SIZE(object) > kMaxListedNumbers ||
      BoundOf(object) > std::numeric_limits<int>::max()) {
    return false;
  }
  return absl::c_linear_search(slots_, object) ||
         apart_.structural.contains(Py_TYPE(object));
}

bool InputGuards::Builder::IsStructural(PyObject* object) const {
  PyTypeObject* type = Py_TYPE(object);
  // An OrderedDict may have attributes, too.
  if (type == &PyODict_Type) return true;
  if (type == NamespaceType()) return apart_.structural.contains(type);
  if (!IsPythonClass(type) || HasSlots(type)) return false;
  PyTypeObject* base = SolidBase(type);
  if (base == &PyODict_Type || base == &PyDict_Type) return true;
  if (base != &PyBaseObject_Type) return false;
  if (IsDataclass(type) || apart_.structural.contains(type) ||
      plain_.contains(object)) {
    return true;
  }
  // What nothing but such an object holds comes and goes with it.
  return is_in_structural_ && Py_REFCNT(object) == 1 && IsPlainInstance(object);
}

void InputGuards::Builder::TakeApart(PyObject* argument) {
  PyTypeObject* type = Py_TYPE(argument);
  if (apart_.whole.contains(type)) return;
  const auto instances = FindPlainInstances(argument);
  if (instances.empty()) return;
  guards_.plain_types_.insert(type);
  plain_.insert(instances.begin(), instances.end());
}

int InputGuards::Builder::Add(PyObject* object, std::string path, int depth) {
  if (refusal_) return 0;
  if (depth > kMaxDepth || guards_.nodes_.size() > kMaxNodes) {
    return RefuseArgument(path,
                          " is nested too deeply, or holds too many objects");
  }
  if (IsConstant(object)) return AddConstant(object, std::move(path), depth);
  if (const auto it = guards_.node_of_.find(object);
      it != guards_.node_of_.end()) {
    const int id = NewNode(Kind::kSame, object, std::move(path));
    guards_.nodes_[id].index = it->second;
    return id;
  }
  const int next = static_cast<int>(guards_.nodes_.size());
  guards_.node_of_[object] = next;
  if (IsTensor(object)) return AddTensor(object, std::move(path));
  if (PyRef tensor = TensorOfArray(object);
      tensor && !UnsupportedTensor(tensor.get()).has_value()) {
    return AddArray(object, std::move(tensor), std::move(path));
  }
  if (instance_dicts_.contains(object)) return RefuseAttributes(path);
  const Kind kind = KindOf(object);
  const int id = NewNode(kind, object, path);
  if (kind == Kind::kPinned) {
    guards_.nodes_[id].value = PyRef::Share(object);
    guards_.pinned_.push_back(PyRef::Share(object));
    guards_.pinned_paths_.push_back(std::move(path));
    return id;
  }
  guards_.covered_.push_back(object);
  switch (kind) {
    case Kind::kTuple:
    case Kind::kList:
      AddItems(id, object, path, depth);
      return id;
    case Kind::kDeque:
      guards_.nodes_[id].index = static_cast<int>(BoundOf(object));
      AddItems(id, object, path, depth);
      return id;
    case Kind::kDict:
      AddDictItems(id, object, path, depth);
      if (const PyRef factory = FactoryOf(object)) {
        const int child = Add(
            factory.get(), absl::StrCat(path, ".default_factory"), depth + 1);
        guards_.nodes_[id].children.push_back(child);
      }
      return id;
    case Kind::kSet:
      guards_.nodes_[id].keys = ItemsOf(object);
      return id;
    default:
      if (PyDict_Check(object)) AddDictItems(id, object, path, depth);
      AddAttributes(id, object, path, depth);
      return id;
  }
}

int InputGuards::Builder::AddConstant(PyObject* object, std::string path,
                                      int depth) {
  if (HoldsPromoted(object, path)) {  // It may be one object with others by
    const int id = NewNode(Kind::kTuple, object, path);  // chance.
    AddItems(id, object, path, depth);
    return id;
  }
  const std::optional<double> number = NumberOf(object);
  const bool is_number = number.has_value() && !std::isnan(*number) &&
                         !is_in_fixed_ && promoted_.contains(path);
  const int id = NewNode(is_number ? Kind::kNumber : Kind::kConstant, object,
                         std::move(path));
  guards_.nodes_[id].value = PyRef::Share(object);
  if (is_number) guards_.numbers_.push_back(id);
  return id;
}

int InputGuards::Builder::AddTensor(PyObject* object, std::string path) {
  if (!IsPlainTensor(object)) {
    return RefuseArgument(path,
                          absl::StrCat(" is a ", TypeName(Py_TYPE(object)),
                                       ", a subclass of torch.Tensor"));
  }
  if (const auto why = UnsupportedTensor(object)) {
    return RefuseArgument(path, absl::StrCat(" is ", *why));
  }
  if (HasOwnAttributes(object)) {
    return RefuseArgument(path, " is a tensor with attributes of its own");
  }
  return AddTensorNode(Kind::kTensor, object, object, std::move(path));
}

int InputGuards::Builder::AddArray(PyObject* object, PyRef tensor,
                                   std::string path) {
  guards_.of_arrays_.push_back(tensor);
  guards_.covered_.push_back(tensor.get());
  return AddTensorNode(Kind::kArray, object, tensor.get(), std::move(path));
}

int InputGuards::Builder::AddTensorNode(Kind kind, PyObject* object,
                                        PyObject* tensor, std::string path) {
  const int id = NewNode(kind, object, path);
  guards_.nodes_[id].index = static_cast<int>(guards_.tensors_.size());
  guards_.tensors_.push_back({.recorded = tensor,
                              .meta = TensorMeta::Of(tensor),
                              .path = std::move(path)});
  guards_.covered_.push_back(object);
  return id;
}

InputGuards::Kind InputGuards::Builder::KindOf(PyObject* object) const {
  PyTypeObject* type = Py_TYPE(object);
  if (PyTuple_CheckExact(object) ||
      (PyTuple_Check(object) && HasNoAttributes(object))) {
    return Kind::kTuple;
  }
  if (IsStructuralList(object)) return Kind::kList;
  if (IsStructuralDeque(object)) return Kind::kDeque;
  if (PyDict_CheckExact(object) || type == DefaultDictType() ||
      (type == &PyODict_Type && HasNoAttributes(object))) {
    return Kind::kDict;
  }
  if (type == &PySet_Type && HasConstantsOnly(object)) return Kind::kSet;
  return IsStructural(object) ? Kind::kInstance : Kind::kPinned;
}

void InputGuards::Builder::AddItems(int id, PyObject* sequence,
                                    const std::string& path, int depth) {
  const bool is_tuple = PyTuple_Check(sequence);
  const bool is_fixed = is_tuple && !PyTuple_CheckExact(sequence) &&
                        !IsPythonClass(Py_TYPE(sequence));
  std::vector<PyObject*> items;
  bool is_renewed = false;
  const std::vector<PyRef> known =
      is_tuple ? std::vector<PyRef>() : ItemsInOrder(sequence);
  for (Py_ssize_t i = 0; i < Py_SIZE(sequence); ++i) {
    PyObject* item = is_tuple ? PyTuple_GET_ITEM(sequence, i) : known[i].get();
    const bool was_fixed = std::exchange(is_in_fixed_, is_fixed);
    const int child = Add(item, absl::StrCat(path, "[", i, "]"), depth + 1);
    is_in_fixed_ = was_fixed;
    guards_.nodes_[id].children.push_back(child);
    PyObject* renewed = Renew(child);
    items.push_back(renewed == nullptr ? item : renewed);
    if (renewed == nullptr) continue;
    is_renewed = true;
    if (is_tuple) continue;
    if (!SetItemAt(sequence, i, renewed)) PyErr_Clear();
  }
  if (is_tuple && is_renewed && !refusal_) {
    RenewTuple(id, sequence, std::move(items));
  }
}

void InputGuards::Builder::AddDictItems(int id, PyObject* dict,
                                        const std::string& path, int depth) {
  for (PyRef& key : KeysOf(dict)) {
    if (!IsConstant(key.get())) {
      RefuseArgument(path, " is a dict with a key that isn't a constant");
      return;
    }
    PyObject* value = PyDict_GetItemWithError(dict, key.get());
    if (value == nullptr) return PyErr_Clear();
    const int child =
        Add(value, absl::StrCat(path, "[", DescribeValue(key.get()), "]"),
            depth + 1);
    guards_.nodes_[id].children.push_back(child);
    if (PyObject* number = Renew(child)) {
      PyDict_SetItem(dict, key.get(), number);
    }
    guards_.nodes_[id].keys.push_back(std::move(key));
  }
}

void InputGuards::Builder::AddAttributes(int id, PyObject* object,
                                         const std::string& path, int depth) {
  PyObject* dict = InstanceDict(object);
  if (dict == nullptr) return;
  if (guards_.node_of_.contains(dict)) {
    RefuseAttributes(path);
    return;
  }
  instance_dicts_.insert(dict);
  const bool was_in = std::exchange(is_in_structural_, true);
  for (PyRef& name : KeysOf(dict)) {
    PyObject* value = PyDict_GetItemWithError(dict, name.get());
    if (value == nullptr) return PyErr_Clear();
    const int child =
        Add(value, absl::StrCat(path, ".", PyText(name.get())), depth + 1);
    guards_.nodes_[id].children.push_back(child);
    if (PyObject* number = Renew(child)) {
      PyDict_SetItem(dict, name.get(), number);
    }
    guards_.nodes_[id].names.push_back(std::move(name));
  }
  is_in_structural_ = was_in;
}

std::pair<InputGuards, Refusal> InputGuards::Build(
    const CallArgs& args, absl::Span<const std::string> names,
    absl::Span<const std::string> slots, const ApartTypes& apart,
    const absl::flat_hash_set<std::string>& promoted) {
  InputGuards guards;
  Builder builder(&guards, apart, promoted,
                  absl::MakeConstSpan(args.slots, args.num_slots));
  guards.num_positional_ = args.num_positional;
  guards.keyword_names_ = PyRef::Share(args.keyword_names);
  for (Py_ssize_t i = 0; i < args.size(); ++i) {
    std::string path;
    if (i >= args.num_positional) {
      path =
          PyText(PyTuple_GET_ITEM(args.keyword_names, i - args.num_positional));
    } else if (static_cast<size_t>(i) < names.size()) {
      path = names[i];
    } else {
      path = absl::StrCat("args[", i, "]");
    }
    builder.TakeApart(args.args[i]);
    guards.roots_.push_back(builder.Add(args.args[i], std::move(path), 0));
  }
  for (size_t i = 0; i < args.num_slots; ++i) {
    guards.roots_.push_back(builder.Add(args.slots[i], slots[i], 0));
  }
  Refusal refusal = builder.refusal();
  if (!refusal) {
    for (const int root : guards.roots_) builder.Renew(root);
  }
  return {std::move(guards), std::move(refusal)};
}

}  // namespace mica
