#include "python/capture/guards/input_guards.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "python/capture/values/constants.h"
#include "python/capture/values/dicts.h"
#include "python/capture/values/numbers.h"
#include "python/interpreter/interpreter.h"

namespace mica {
namespace {

constexpr int kMaxNodes = 20000;
constexpr int kMaxDepth = 64;

bool HasNoAttributes(PyObject* object) {
  PyObject* dict = InstanceDict(object);
  return dict == nullptr || PyDict_GET_SIZE(dict) == 0;
}

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

class InputGuards::Builder {
 public:
  Builder(InputGuards* guards,
          const absl::flat_hash_set<PyTypeObject*>& structural,
          const absl::flat_hash_set<std::string>& varying)
      : guards_(*guards), structural_(structural), varying_(varying) {}

  int Add(PyObject* object, std::string path, int depth);
  const Refusal& refusal() const { return refusal_; }
  // If it is a number that varies, or a tuple of such, a new object of its
  // value, to be put in its place; else null. Numbers are followed by identity,
  // and a number's object may stand in other places too.
  PyObject* Renew(int id);

 private:
  int NewNode(Kind kind, PyObject* object, std::string path);
  void AddItems(int id, PyObject* sequence, const std::string& path, int depth);
  void AddDictItems(int id, PyObject* dict, const std::string& path, int depth);
  void AddAttributes(int id, PyObject* object, const std::string& path,
                     int depth);
  // Makes a tuple anew of these items, some of them renewed.
  void RenewTuple(int id, PyObject* tuple, std::vector<PyObject*> items);
  // Lists, and objects of their subclasses as far as they are taken apart.
  bool IsStructuralList(PyObject* object) const;
  bool IsStructural(PyObject* object) const;
  // Whether a number in this tuple varies.
  bool HoldsVarying(PyObject* object, const std::string& path) const;
  int Refuse(std::string reason) {
    if (!refusal_) refusal_.reason = std::move(reason);
    return 0;
  }

  InputGuards& guards_;
  const absl::flat_hash_set<PyTypeObject*>& structural_;
  const absl::flat_hash_set<std::string>& varying_;
  Refusal refusal_;
  bool is_in_fixed_ = false;  // In a tuple that can't be made anew.
};

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

bool InputGuards::Builder::HoldsVarying(PyObject* object,
                                        const std::string& path) const {
  if (!PyTuple_Check(object) || !HasNoAttributes(object)) return false;
  const std::string prefix = path + "[";
  return absl::c_any_of(varying_, [&](const std::string& varying) {
    return absl::StartsWith(varying, prefix);
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
  return structural_.contains(type) && IsPythonClass(type) && !HasSlots(type) &&
         SolidBase(type) == &PyList_Type && HasNoAttributes(object);
}

bool InputGuards::Builder::IsStructural(PyObject* object) const {
  PyTypeObject* type = Py_TYPE(object);
  // An OrderedDict may have attributes, too.
  if (type == &PyODict_Type) return true;
  if (type == NamespaceType()) return structural_.contains(type);
  if (!IsPythonClass(type) || HasSlots(type)) return false;
  PyTypeObject* base = SolidBase(type);
  if (base == &PyODict_Type || base == &PyDict_Type) return true;
  if (base != &PyBaseObject_Type) return false;
  return IsDataclass(type) || structural_.contains(type);
}

int InputGuards::Builder::Add(PyObject* object, std::string path, int depth) {
  if (refusal_) return 0;
  if (depth > kMaxDepth || guards_.nodes_.size() > kMaxNodes) {
    return Refuse(absl::StrCat("argument ", path,
                               " is nested too deeply, or "
                               "holds too many objects"));
  }
  const bool is_constant = IsConstant(object);
  if (is_constant && !HoldsVarying(object, path)) {
    const std::optional<double> number = NumberOf(object);
    const bool is_number = number.has_value() && !std::isnan(*number) &&
                           !is_in_fixed_ && varying_.contains(path);
    const int id = NewNode(is_number ? Kind::kNumber : Kind::kConstant, object,
                           std::move(path));
    guards_.nodes_[id].value = PyRef::Share(object);
    if (is_number) guards_.numbers_.push_back(id);
    return id;
  }
  if (is_constant) {  // It may be one object with others by chance.
    const int id = NewNode(Kind::kTuple, object, path);
    AddItems(id, object, path, depth);
    return id;
  }
  if (const auto it = guards_.node_of_.find(object);
      it != guards_.node_of_.end()) {
    const int id = NewNode(Kind::kSame, object, std::move(path));
    guards_.nodes_[id].index = it->second;
    return id;
  }
  const int next = static_cast<int>(guards_.nodes_.size());
  guards_.node_of_[object] = next;
  if (IsTensor(object)) {
    if (!IsPlainTensor(object)) {
      return Refuse(absl::StrCat("argument ", path, " is a ",
                                 TypeName(Py_TYPE(object)),
                                 ", a subclass of torch.Tensor"));
    }
    if (const auto why = UnsupportedTensor(object)) {
      return Refuse(absl::StrCat("argument ", path, " is ", *why));
    }
    if (HasOwnAttributes(object)) {
      return Refuse(absl::StrCat("argument ", path,
                                 " is a tensor with attributes of its own"));
    }
    const int id = NewNode(Kind::kTensor, object, path);
    guards_.nodes_[id].index = static_cast<int>(guards_.tensors_.size());
    guards_.tensors_.push_back({.recorded = object,
                                .meta = TensorMeta::Of(object),
                                .path = std::move(path)});
    guards_.covered_.push_back(object);
    return id;
  }
  PyTypeObject* type = Py_TYPE(object);
  if (PyTuple_CheckExact(object) ||
      (PyTuple_Check(object) && HasNoAttributes(object))) {
    const int id = NewNode(Kind::kTuple, object, path);
    guards_.covered_.push_back(object);
    AddItems(id, object, path, depth);
    return id;
  }
  if (IsStructuralList(object)) {
    const int id = NewNode(Kind::kList, object, path);
    guards_.covered_.push_back(object);
    AddItems(id, object, path, depth);
    return id;
  }
  if (PyDict_CheckExact(object) ||
      (type == &PyODict_Type && HasNoAttributes(object))) {
    const int id = NewNode(Kind::kDict, object, path);
    guards_.covered_.push_back(object);
    AddDictItems(id, object, path, depth);
    return id;
  }
  if (type == &PySet_Type && HasConstantsOnly(object)) {
    const int id = NewNode(Kind::kSet, object, path);
    guards_.covered_.push_back(object);
    guards_.nodes_[id].keys = ItemsOf(object);
    return id;
  }
  if (IsStructural(object)) {
    const int id = NewNode(Kind::kInstance, object, path);
    guards_.covered_.push_back(object);
    if (PyDict_Check(object)) AddDictItems(id, object, path, depth);
    AddAttributes(id, object, path, depth);
    return id;
  }
  const int id = NewNode(Kind::kPinned, object, path);
  guards_.nodes_[id].value = PyRef::Share(object);
  guards_.pinned_.push_back(PyRef::Share(object));
  guards_.pinned_paths_.push_back(std::move(path));
  return id;
}

void InputGuards::Builder::AddItems(int id, PyObject* sequence,
                                    const std::string& path, int depth) {
  const bool is_tuple = PyTuple_Check(sequence);
  const bool is_fixed = is_tuple && !PyTuple_CheckExact(sequence) &&
                        !IsPythonClass(Py_TYPE(sequence));
  std::vector<PyObject*> items;
  bool is_renewed = false;
  for (Py_ssize_t i = 0; i < Py_SIZE(sequence); ++i) {
    PyObject* item =
        is_tuple ? PyTuple_GET_ITEM(sequence, i) : PyList_GET_ITEM(sequence, i);
    const bool was_fixed = std::exchange(is_in_fixed_, is_fixed);
    const int child = Add(item, absl::StrCat(path, "[", i, "]"), depth + 1);
    is_in_fixed_ = was_fixed;
    guards_.nodes_[id].children.push_back(child);
    PyObject* renewed = Renew(child);
    items.push_back(renewed == nullptr ? item : renewed);
    if (renewed == nullptr) continue;
    is_renewed = true;
    if (is_tuple) continue;
    Py_INCREF(renewed);
    PyList_SetItem(sequence, i, renewed);
  }
  if (is_tuple && is_renewed && !refusal_) {
    RenewTuple(id, sequence, std::move(items));
  }
}

void InputGuards::Builder::AddDictItems(int id, PyObject* dict,
                                        const std::string& path, int depth) {
  for (PyRef& key : KeysOf(dict)) {
    if (!IsConstant(key.get())) {
      Refuse(absl::StrCat("argument ", path,
                          " is a dict with a key that isn't a constant"));
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
}

std::pair<InputGuards, Refusal> InputGuards::Build(
    const CallArgs& args, absl::Span<const std::string> names,
    absl::Span<const std::string> slots,
    const absl::flat_hash_set<PyTypeObject*>& structural,
    const absl::flat_hash_set<std::string>& varying) {
  InputGuards guards;
  Builder builder(&guards, structural, varying);
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

void InputGuards::Pin(PyObject* object) {
  const int id = FindNode(object);
  if (id >= 0) nodes_[id].same_object = PyRef::Share(object);
}

void InputGuards::PinConstant(PyObject* object) {
  for (Node& node : nodes_) {
    if (node.kind != Kind::kConstant || node.recorded != object) continue;
    node.same_object = PyRef::Share(object);
  }
}

void InputGuards::KeepConstantApart(PyObject* object, PyObject* other) {
  for (Node& node : nodes_) {
    if (node.kind != Kind::kConstant || node.recorded != object) continue;
    node.other = other;
  }
}

void InputGuards::Forbid(absl::Span<const PyRef> tensors) {
  for (const PyRef& tensor : tensors) forbidden_[tensor.get()] = tensor;
}

int InputGuards::FindNode(PyObject* object) const {
  const auto it = node_of_.find(object);
  return it == node_of_.end() ? -1 : it->second;
}

BoundInputs InputGuards::Recorded() const {
  BoundInputs bound;
  for (const Node& node : nodes_) bound.objects.push_back(node.recorded);
  for (const Tensor& tensor : tensors_) {
    bound.tensors.push_back(tensor.recorded);
  }
  return bound;
}

void InputGuards::KeepApart(const absl::flat_hash_set<PyObject*>& others) {
  std::vector<int> nodes;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (IsMutable(nodes_[i].kind)) nodes.push_back(static_cast<int>(i));
  }
  KeepNodesApart(std::move(nodes), others);
}

void InputGuards::Distinguish(const absl::flat_hash_set<PyObject*>& objects,
                              const absl::flat_hash_set<PyObject*>& others) {
  std::vector<int> nodes;
  for (PyObject* object : objects) {
    // One of the state is to be the same object.
    if (const int id = FindNode(object); id >= 0 && !nodes_[id].same_object) {
      nodes.push_back(id);
    }
  }
  KeepNodesApart(std::move(nodes), others);
}

void InputGuards::KeepNodesApart(std::vector<int> nodes,
                                 const absl::flat_hash_set<PyObject*>& others) {
  apart_.insert(apart_.end(), nodes.begin(), nodes.end());
  std::sort(apart_.begin(), apart_.end());
  apart_.erase(std::unique(apart_.begin(), apart_.end()), apart_.end());
  apart_from_.insert(others.begin(), others.end());
  for (const int node : apart_) apart_from_.erase(nodes_[node].recorded);
}

bool InputGuards::IsMutable(Kind kind) {
  return kind == Kind::kList || kind == Kind::kDict || kind == Kind::kSet ||
         kind == Kind::kInstance;
}

bool InputGuards::has_mutable_containers() const {
  return std::any_of(nodes_.begin(), nodes_.end(),
                     [](const Node& node) { return IsMutable(node.kind); });
}

void InputGuards::EndRecording() {
  node_of_.clear();
  covered_.clear();
  for (Tensor& tensor : tensors_) tensor.recorded = nullptr;
  for (Node& node : nodes_) {
    node.recorded = nullptr;
    node.original = PyRef();
    if (node.kind == Kind::kTuple) node.value = PyRef();
  }
}

bool InputGuards::Match(const CallArgs& args, BoundInputs* bound,
                        Miss* miss) const {
  misplaced_type_ = nullptr;
  varying_paths_.clear();
  bool same_form = args.num_positional == num_positional_;
  PyObject* recorded = keyword_names_.get();
  if (same_form && recorded != args.keyword_names) {
    const Py_ssize_t count =
        recorded == nullptr ? 0 : PyTuple_GET_SIZE(recorded);
    same_form = count == args.num_keywords();
    for (Py_ssize_t i = 0; same_form && i < count; ++i) {
      same_form = SameValue(PyTuple_GET_ITEM(recorded, i),
                            PyTuple_GET_ITEM(args.keyword_names, i));
    }
  }
  if (!same_form) {
    if (miss != nullptr) {
      const Py_ssize_t keywords =
          recorded == nullptr ? 0 : PyTuple_GET_SIZE(recorded);
      *miss = {.kind = "input",
               .note = {.path = "the arguments"},
               .expected = absl::StrCat(num_positional_, " positional and ",
                                        keywords, " keyword ones"),
               .got = absl::StrCat(args.num_positional, " and ",
                                   args.num_keywords(), ", or other names")};
    }
    return false;
  }
  bound->objects.resize(nodes_.size());
  bound->tensors.resize(tensors_.size());
  const auto count = static_cast<size_t>(args.size());
  for (size_t i = 0; i < roots_.size(); ++i) {
    PyObject* object = i < count ? args.args[i] : args.slots[i - count];
    if (!MatchNode(roots_[i], object, bound, miss)) return false;
  }
  return MatchTensors(*bound, miss) && MatchApart(*bound, miss);
}

bool InputGuards::MatchNode(int id, PyObject* object, BoundInputs* bound,
                            Miss* miss) const {
  const Node& node = nodes_[id];
  bound->objects[id] = object;
  if ((node.same_object && node.same_object.get() != object) ||
      object == node.other) {
    if (miss != nullptr) {
      const bool is_known = static_cast<bool>(node.same_object);
      *miss = {.kind = "input",
               .note = {.path = node.path},
               .expected = is_known ? "an object of the program's state"
                                    : "an object of its own",
               .got = is_known ? "another" : "one of the program's state"};
    }
    return false;
  }
  switch (node.kind) {
    case Kind::kTensor:
      if (Py_TYPE(object) != AsType(node.type.get()) ||
          !tensors_[node.index].meta.Matches(object) ||
          HasOwnAttributes(object)) {
        return Differ(node, object, miss);
      }
      bound->tensors[node.index] = object;
      return true;
    case Kind::kConstant:
      if (SameValue(node.value.get(), object)) return true;
      if (!DifferInNumbers(node.value.get(), object, node.path,
                           &varying_paths_)) {
        varying_paths_.clear();
      }
      return Differ(node, object, miss);
    case Kind::kNumber:
      return AreNumbers(node.value.get(), object) || Differ(node, object, miss);
    case Kind::kPinned:
      if (node.value.get() == object) return true;
      if (Py_TYPE(object) == AsType(node.type.get())) {
        misplaced_type_ = AsType(node.type.get());
      }
      return Differ(node, object, miss);
    case Kind::kSame:
      return bound->objects[node.index] == object || Differ(node, object, miss);
    default:
      break;
  }
  if (Py_TYPE(object) != AsType(node.type.get()))
    return Differ(node, object, miss);
  const size_t num_children = node.children.size();
  if (node.kind == Kind::kTuple || node.kind == Kind::kList) {
    if (static_cast<size_t>(Py_SIZE(object)) != num_children ||
        !HasNoAttributes(object)) {
      return Differ(node, object, miss);
    }
    for (size_t i = 0; i < num_children; ++i) {
      PyObject* item = node.kind == Kind::kTuple ? PyTuple_GET_ITEM(object, i)
                                                 : PyList_GET_ITEM(object, i);
      if (!MatchNode(node.children[i], item, bound, miss)) return false;
    }
    return true;
  }
  if (node.kind == Kind::kSet) {
    const std::vector<PyRef> items = ItemsOf(object);
    bool same = items.size() == node.keys.size();
    for (size_t i = 0; same && i < items.size(); ++i) {
      same = SameValue(node.keys[i].get(), items[i].get());
    }
    return same || Differ(node, object, miss);
  }
  size_t child = 0;
  if (PyDict_Check(object)) {
    if (static_cast<size_t>(PyDict_GET_SIZE(object)) != node.keys.size()) {
      return Differ(node, object, miss);
    }
    if (PyODict_Check(object)) {
      const std::vector<PyRef> keys = KeysOf(object);
      for (size_t i = 0; i < node.keys.size(); ++i) {
        if (i >= keys.size() || !SameValue(node.keys[i].get(), keys[i].get())) {
          return Differ(node, object, miss);
        }
        PyObject* value = PyDict_GetItemWithError(object, keys[i].get());
        if (value == nullptr) return Differ(node, object, miss);
        if (!MatchNode(node.children[child++], value, bound, miss)) {
          return false;
        }
      }
    } else {
      Py_ssize_t position = 0;
      PyObject *key = nullptr, *value = nullptr;
      while (PyDict_Next(object, &position, &key, &value)) {
        if (!SameValue(node.keys[child].get(), key)) {
          return Differ(node, object, miss);
        }
        if (!MatchNode(node.children[child++], value, bound, miss)) {
          return false;
        }
      }
    }
  }
  if (node.kind != Kind::kInstance) {
    return HasNoAttributes(object) || Differ(node, object, miss);
  }
  PyObject* dict = InstanceDict(object);
  const size_t num_names = node.names.size();
  if ((dict == nullptr ? 0 : static_cast<size_t>(PyDict_GET_SIZE(dict))) !=
      num_names) {
    return Differ(node, object, miss);
  }
  if (num_names == 0) return true;
  Py_ssize_t position = 0;
  PyObject *key = nullptr, *value = nullptr;
  size_t name = 0;
  while (PyDict_Next(dict, &position, &key, &value)) {
    if (!SameValue(node.names[name++].get(), key)) {
      return Differ(node, object, miss);
    }
    if (!MatchNode(node.children[child++], value, bound, miss)) return false;
  }
  return true;
}

// Tensors that were different objects still have to be.
bool InputGuards::MatchTensors(const BoundInputs& bound, Miss* miss) const {
  const auto differ = [&](size_t a, size_t b) {
    if (miss != nullptr) {
      *miss = {.kind = "input",
               .note = {.path = tensors_[b].path},
               .expected = "a tensor of its own",
               .got = absl::StrCat("the same object as ", tensors_[a].path)};
    }
    return false;
  };
  const size_t count = bound.tensors.size();
  for (size_t i = 0; i < count && !forbidden_.empty(); ++i) {
    if (!forbidden_.contains(bound.tensors[i])) continue;
    if (miss != nullptr) {
      *miss = {.kind = "input",
               .note = {.path = tensors_[i].path},
               .expected = "a tensor apart from the program's state",
               .got = "one of the program's state"};
    }
    return false;
  }
  constexpr size_t kFew = 12;
  if (count <= kFew) {
    for (size_t b = 1; b < count; ++b) {
      for (size_t a = 0; a < b; ++a) {
        if (bound.tensors[a] == bound.tensors[b]) return differ(a, b);
      }
    }
    return true;
  }
  absl::flat_hash_map<PyObject*, size_t> first;
  for (size_t b = 0; b < count; ++b) {
    const auto [it, is_new] = first.try_emplace(bound.tensors[b], b);
    if (!is_new) return differ(it->second, b);
  }
  return true;
}

bool InputGuards::MatchApart(const BoundInputs& bound, Miss* miss) const {
  constexpr size_t kFew = 8;
  absl::flat_hash_set<PyObject*> seen;
  const auto is_first = [&](size_t i) {
    PyObject* object = bound.objects[apart_[i]];
    if (apart_.size() > kFew) return seen.insert(object).second;
    return std::none_of(apart_.begin(), apart_.begin() + i, [&](int earlier) {
      return bound.objects[earlier] == object;
    });
  };
  for (size_t i = 0; i < apart_.size(); ++i) {
    const int node = apart_[i];
    PyObject* object = bound.objects[node];
    PyObject* dict =
        nodes_[node].kind == Kind::kInstance ? InstanceDict(object) : nullptr;
    if (is_first(i) && !apart_from_.contains(object) &&
        (dict == nullptr || !apart_from_.contains(dict))) {
      continue;
    }
    if (miss != nullptr) {
      *miss = {.kind = "input",
               .note = {.path = nodes_[node].path},
               .expected = "an object of its own",
               .got = "one that is reached in another way too"};
    }
    return false;
  }
  return true;
}

std::string InputGuards::Describe(const Node& node) const {
  switch (node.kind) {
    case Kind::kTensor:
      return tensors_[node.index].meta.ToString();
    case Kind::kConstant:
      return DescribeValue(node.value.get());
    case Kind::kNumber:
      return absl::StrCat("any ", TypeName(AsType(node.type.get())));
    case Kind::kPinned:
      return absl::StrCat("the same ", TypeName(AsType(node.type.get())));
    case Kind::kSame:
      return absl::StrCat("the same object as ", nodes_[node.index].path);
    default:
      return absl::StrCat(TypeName(AsType(node.type.get())), " of ",
                          node.children.size(), " items");
  }
}

bool InputGuards::Differ(const Node& node, PyObject* got, Miss* miss) const {
  if (miss == nullptr) return false;
  std::string text = DescribeValue(got);
  if (node.kind == Kind::kPinned && misplaced_type_ != nullptr) {
    text = "another one";
  } else if (node.kind == Kind::kSame) {
    text = "another object";
  }
  *miss = {.kind = "input",
           .note = {.path = node.path},
           .expected = Describe(node),
           .got = std::move(text)};
  return false;
}

int InputGuards::Traverse(visitproc visit, void* arg) const {
  for (const Node& node : nodes_) {
    Py_VISIT(node.type.get());
    Py_VISIT(node.value.get());
    Py_VISIT(node.same_object.get());
    for (const PyRef& key : node.keys) Py_VISIT(key.get());
    for (const PyRef& name : node.names) Py_VISIT(name.get());
  }
  for (const PyRef& object : pinned_) Py_VISIT(object.get());
  for (const auto& [tensor, pin] : forbidden_) Py_VISIT(pin.get());
  Py_VISIT(keyword_names_.get());
  return 0;
}

std::vector<std::string> InputGuards::ToText() const {
  std::vector<std::string> lines;
  for (const Node& node : nodes_) {
    lines.push_back(absl::StrCat(node.path,
                                 node.kind == Kind::kConstant ? " == " : " is ",
                                 Describe(node)));
  }
  return lines;
}

std::string InputGuards::Family(
    const absl::flat_hash_set<std::pair<std::string, int>>& dynamic) const {
  std::string text;
  bool is_any = false;
  for (const Node& node : nodes_) {
    absl::StrAppend(&text, node.path, " ");
    if (node.kind != Kind::kTensor) {
      absl::StrAppend(&text, Describe(node), ";");
      continue;
    }
    const TensorMeta& meta = tensors_[node.index].meta;
    absl::StrAppend(&text, static_cast<int>(meta.dtype), "[");
    for (size_t dim = 0; dim < meta.sizes.size(); ++dim) {
      const bool varies = dynamic.contains({node.path, static_cast<int>(dim)});
      is_any |= varies;
      absl::StrAppend(&text, varies ? "?" : absl::StrCat(meta.sizes[dim]), ",");
    }
    absl::StrAppend(&text, meta.requires_grad ? "] grad;" : "];");
  }
  return is_any ? text : "";
}

}  // namespace mica
