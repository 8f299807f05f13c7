#include "python/capture/guards/input_guards.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "python/capture/values/constants.h"
#include "python/interpreter/interpreter.h"

namespace mica {
namespace {

bool IsInTuple(PyObject* tuple, PyObject* object) {
  if (!PyTuple_Check(tuple)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); ++i) {
    PyObject* item = PyTuple_GET_ITEM(tuple, i);
    if (item == object || IsInTuple(item, object)) return true;
  }
  return false;
}

}  // namespace

bool InputGuards::HasNoAttributes(PyObject* object) {
  PyObject* dict = InstanceDict(object);
  return dict == nullptr || PyDict_GET_SIZE(dict) == 0;
}

void InputGuards::Pin(PyObject* object) {
  const int id = FindNode(object);
  if (id >= 0) nodes_[id].same_object = PyRef::Share(object);
}

std::vector<int> InputGuards::FindConstant(PyObject* object) {
  std::vector<int> found;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    Node& node = nodes_[i];
    if (node.kind != Kind::kConstant) continue;
    if (node.recorded == object) {
      found.push_back(static_cast<int>(i));
    } else if (IsInTuple(node.recorded, object)) {
      node.same_object = PyRef::Share(node.recorded);
    }
  }
  return found;
}

void InputGuards::PinConstant(PyObject* object) {
  for (const int node : FindConstant(object)) {
    nodes_[node].same_object = PyRef::Share(object);
  }
}

void InputGuards::KeepConstantsApart(PyObject* a, PyObject* b) {
  const std::vector<int> of_b = FindConstant(b);
  for (const int node : of_b) nodes_[node].others.push_back(a);
  for (const int node : FindConstant(a)) {
    nodes_[node].others.push_back(b);
    for (const int other : of_b) constants_apart_.emplace_back(node, other);
  }
}

bool InputGuards::IsKey(PyObject* object) const {
  const auto is_it = [object](const PyRef& key) { return key.get() == object; };
  if (keyword_names_ && IsInTuple(keyword_names_.get(), object)) return true;
  return absl::c_any_of(nodes_, [&](const Node& node) {
    return absl::c_any_of(node.keys, is_it) ||
           absl::c_any_of(node.names, is_it);
  });
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
  absl::flat_hash_set<PyObject*> all_others = others;
  for (PyObject* object : objects) {
    const int id = FindNode(object);
    if (id < 0) continue;
    // One of the state is to be the same object, and so none of the rest.
    if (nodes_[id].same_object) {
      all_others.insert(object);
    } else {
      nodes.push_back(id);
    }
  }
  KeepNodesApart(std::move(nodes), all_others);
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
  return kind == Kind::kList || kind == Kind::kDeque || kind == Kind::kDict ||
         kind == Kind::kSet || kind == Kind::kInstance;
}

bool InputGuards::has_mutable_containers() const {
  return std::any_of(nodes_.begin(), nodes_.end(),
                     [](const Node& node) { return IsMutable(node.kind); });
}

void InputGuards::ForEachArray(
    absl::FunctionRef<void(PyObject*, PyObject*)> visit) const {
  for (const Node& node : nodes_) {
    if (node.kind != Kind::kArray) continue;
    visit(node.recorded, tensors_[node.index].recorded);
  }
}

void InputGuards::EndRecording() {
  of_arrays_.clear();
  node_of_.clear();
  covered_.clear();
  pinned_.clear();
  pinned_paths_.clear();
  for (Tensor& tensor : tensors_) tensor.recorded = nullptr;
  for (Node& node : nodes_) {
    node.recorded = nullptr;
    node.original = LooseRef();
    if (node.kind == Kind::kTuple) node.value = LooseRef();
  }
}

std::string InputGuards::Describe(const Node& node) const {
  switch (node.kind) {
    case Kind::kTensor:
      return tensors_[node.index].meta.ToString(tensors_[node.index].open);
    case Kind::kArray:
      return absl::StrCat("numpy.ndarray ", tensors_[node.index].meta.ToString(
                                                tensors_[node.index].open));
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

void InputGuards::LetGo(absl::FunctionRef<void(LooseRef*)> let_go) {
  for (Node& node : nodes_) {
    let_go(&node.type);
    if (node.kind == Kind::kPinned) let_go(&node.value);
    let_go(&node.same_object);
  }
  for (auto& [tensor, pin] : forbidden_) let_go(&pin);
}

int InputGuards::Traverse(visitproc visit, void* arg) const {
  for (const Node& node : nodes_) {
    Py_VISIT(node.type.held());
    Py_VISIT(node.value.held());
    Py_VISIT(node.same_object.held());
    for (const PyRef& key : node.keys) Py_VISIT(key.get());
    for (const PyRef& name : node.names) Py_VISIT(name.get());
  }
  for (const PyRef& object : pinned_) Py_VISIT(object.get());
  for (const PyRef& tensor : of_arrays_) Py_VISIT(tensor.get());
  for (const auto& [tensor, pin] : forbidden_) Py_VISIT(pin.held());
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

void InputGuards::FindOtherSizes(
    const InputGuards& other,
    absl::flat_hash_set<std::pair<std::string, int>>* found) const {
  const size_t count = std::min(tensors_.size(), other.tensors_.size());
  for (size_t i = 0; i < count; ++i) {
    const auto& sizes = tensors_[i].meta.sizes;
    const auto& others = other.tensors_[i].meta.sizes;
    for (size_t dim = 0; dim < std::min(sizes.size(), others.size()); ++dim) {
      if (sizes[dim] == others[dim]) continue;
      found->insert({tensors_[i].path, static_cast<int>(dim)});
    }
  }
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
