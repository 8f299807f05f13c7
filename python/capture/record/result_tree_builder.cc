// How a ResultTree is made of what a run left.

#include <cmath>
#include <optional>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "python/capture/effects/result_tree.h"
#include "python/capture/known/purity.h"
#include "python/capture/values/constants.h"
#include "python/capture/values/dicts.h"
#include "python/capture/values/numbers.h"
#include "python/capture/watch/state_watch.h"
#include "python/interpreter/interpreter.h"

namespace mica {
namespace {

constexpr int kMaxDepth = 64;

// Whether there is but one object of its value.
bool IsShared(PyObject* constant) {
  return PyBool_Check(constant) || constant == Py_None ||
         (PyLong_CheckExact(constant) && SharedInt(constant).get() == constant);
}

}  // namespace

class ResultTree::Builder {
 public:
  Builder(ResultTree* tree, StateWatch& watch, const InputGuards& inputs,
          std::vector<PyObject*>* tensors)
      : tree_(*tree), watch_(watch), inputs_(inputs), tensors_(*tensors) {}

  int Add(PyObject* object, int depth);
  const Refusal& refusal() const { return refusal_; }

 private:
  int NewNode(Kind kind, PyObject* object) {
    tree_.nodes_.push_back({.kind = kind, .object = PyRef::Share(object)});
    return static_cast<int>(tree_.nodes_.size()) - 1;
  }
  int NewContainer(Kind kind, PyObject* object) {
    const int id = NewNode(kind, reinterpret_cast<PyObject*>(Py_TYPE(object)));
    node_of_[object] = id;
    return id;
  }
  int Refuse(std::string reason, std::string mend = "") {
    if (!refusal_) {
      refusal_ = {.reason = std::move(reason), .mend = std::move(mend)};
    }
    return 0;
  }
  // The same object again.
  int AddSame(int node) {
    const int id = NewNode(Kind::kSame, nullptr);
    tree_.nodes_[id].index = node;
    tree_.has_same_ = true;
    return id;
  }
  int AddInput(int node) {
    const int id = NewNode(Kind::kInput, nullptr);
    tree_.nodes_[id].index = node;
    return id;
  }
  int AddPlace(PyObject* object, PyObject* holder, PyObject* key) {
    const int id = NewNode(Kind::kPlace, object);
    tree_.nodes_[id].holder = PyRef::Share(holder);
    tree_.nodes_[id].key = PyRef::Share(key);
    return id;
  }
  int AddTensor(PyObject* tensor);
  int AddConstant(PyObject* constant, int depth);
  // Whether a hit finds it, or what it holds, in a place or among the
  // arguments, or makes it anew.
  bool IsObjectOfHit(PyObject* constant) const;
  // Whether the program made it, a NaN: sets and comparisons of lists tell one
  // NaN from another.
  bool IsNewNaN(PyObject* constant) const;
  // A promoted scalar: if nothing was computed of it, the very object that a
  // hit finds in its place.
  int AddPromoted(HostValues::Id number, PyObject* object);
  int AddText(HostValues::Id text, int depth);
  int AddNew(PyObject* object, int depth);
  int AddTuple(PyObject* tuple, int depth);
  int AddSet(PyObject* set, int depth);
  // A method in C, bound to an object.
  int AddBuiltin(PyObject* object, int depth);
  void AddChild(int id, PyObject* object, int depth);
  void AddItems(int id, PyObject* sequence, int depth);
  void AddDict(int id, PyObject* dict, int depth);
  void AddAttributes(int id, PyObject* object, int depth);
  // The object, an argument or one in the tree, whose attributes a dict is;
  // null if there is none.
  PyObject* OwnerOf(PyObject* dict);

  ResultTree& tree_;
  StateWatch& watch_;
  const InputGuards& inputs_;
  std::vector<PyObject*>& tensors_;
  absl::flat_hash_map<PyObject*, int> node_of_;
  absl::flat_hash_map<HostValues::Id, int> node_of_number_;
  // Constants that are objects of their own: where a hit finds them.
  std::optional<absl::flat_hash_map<PyObject*, std::pair<Kept, Kept>>> places_;
  std::vector<PyObject*> arguments_;
  absl::flat_hash_map<PyObject*, PyObject*> owners_;  // By their attributes.
  bool knows_owners_ = false;            // Those among the arguments.
  absl::flat_hash_map<int, bool> open_;  // Tuples under construction.
  Refusal refusal_;
};

int ResultTree::Builder::AddTensor(PyObject* tensor) {
  if (!IsPlainTensor(tensor)) {
    return Refuse(absl::StrCat("returns a ", TypeName(Py_TYPE(tensor)),
                               ", a subclass of torch.Tensor"));
  }
  if (watch_.tensors().gradients().IsOldGradient(tensor)) {
    return Refuse("returns a gradient that was there before the call");
  }
  if (HasOwnAttributes(tensor)) {
    return Refuse("returns a tensor with attributes of its own");
  }
  const int id = NewContainer(Kind::kTensor, tensor);
  tree_.nodes_[id].index = static_cast<int>(tensors_.size());
  tensors_.push_back(tensor);
  return id;
}

int ResultTree::Builder::Add(PyObject* object, int depth) {
  if (refusal_) return 0;
  if (depth > kMaxDepth) return Refuse("returns a result nested too deeply");
  HostValues& values = watch_.values();
  const HostValues::Id number = values.Find(object);
  if (const int node = number < 0 ? -1 : values.input_node(number); node >= 0) {
    return AddInput(node);
  }
  // A hit at other sizes would give another one.
  if (number >= 0 && values.IsSize(number)) values.PinSize(number);
  if (number >= 0 && values.IsDynamic(number)) {
    return AddPromoted(number, object);
  }
  if (const HostValues::Id text = values.FindText(object);
      text >= 0 && values.IsDynamic(text)) {
    return AddText(text, depth);
  }
  if (IsConstant(object) && !values.HasKnown(object)) {
    values.MarkExactDeep(object);  // It may be an address.
    return AddConstant(object, depth);
  }
  if (values.FindAny(object) >= 0) {
    return AddConstant(values.PlainOf(object).get(), depth);
  }
  if (const auto it = node_of_.find(object); it != node_of_.end()) {
    if (open_[it->second]) return Refuse("returns a tuple that holds itself");
    return AddSame(it->second);
  }
  if (const int node = inputs_.FindNode(object); node >= 0) {
    return AddInput(node);
  }
  // Before its age: that of an argument may be older than the run.
  if (PyObject* owner = OwnerOf(object)) {
    const int id = NewContainer(Kind::kAttributes, object);
    AddChild(id, owner, depth);
    return id;
  }
  if (watch_.ages().IsKnownOld(object) ||
      (watch_.ages().IsOld(object) && IsImmutableType(Py_TYPE(object)))) {
    return NewNode(Kind::kObject, object);
  }
  if (IsTensor(object)) return AddTensor(object);
  return AddNew(object, depth);
}

bool ResultTree::Builder::IsNewNaN(PyObject* constant) const {
  return PyFloat_CheckExact(constant) &&
         std::isnan(PyFloat_AS_DOUBLE(constant)) &&
         !watch_.guards().HasConstant(constant) &&
         !absl::c_linear_search(arguments_, constant);
}

bool ResultTree::Builder::IsObjectOfHit(PyObject* constant) const {
  if (IsShared(constant)) return false;
  if (IsNewNaN(constant)) return true;
  if (places_->contains(constant) ||
      absl::c_linear_search(arguments_, constant)) {
    return true;
  }
  if (!PyTuple_CheckExact(constant)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(constant); ++i) {
    if (IsObjectOfHit(PyTuple_GET_ITEM(constant, i))) return true;
  }
  return false;
}

int ResultTree::Builder::AddConstant(PyObject* constant, int depth) {
  if (!places_.has_value()) {
    places_ = watch_.guards().PlacesOfConstants();
    arguments_ = inputs_.Recorded().objects;
  }
  if (IsShared(constant)) return NewNode(Kind::kObject, constant);
  if (const auto it = absl::c_find(arguments_, constant);
      it != arguments_.end()) {
    return AddInput(static_cast<int>(it - arguments_.begin()));
  }
  if (const auto it = places_->find(constant); it != places_->end()) {
    return AddPlace(constant, it->second.first.get(), it->second.second.get());
  }
  if (IsNewNaN(constant)) {
    if (const auto it = node_of_.find(constant); it != node_of_.end()) {
      return AddSame(it->second);
    }
    return NewContainer(Kind::kNaN, constant);
  }
  // A tuple that the program made of what it found.
  if (PyTuple_CheckExact(constant) && IsObjectOfHit(constant)) {
    return AddNew(constant, depth);
  }
  // Found elsewhere (in a class, a list, a slot), an equal one is another.
  watch_.guards().DemandSame(constant);
  return NewNode(Kind::kObject, constant);
}

int ResultTree::Builder::AddPromoted(HostValues::Id number, PyObject* object) {
  const NumberSource& source = watch_.values().source(number);
  if (source.dict) {
    return AddPlace(object, source.dict.get(), source.key.get());
  }
  if (const auto it = node_of_number_.find(number);
      it != node_of_number_.end()) {
    return AddSame(it->second);
  }
  const int id =
      NewNode(Kind::kNumber, reinterpret_cast<PyObject*>(Py_TYPE(object)));
  tree_.nodes_[id].index = static_cast<int>(tree_.numbers_.size());
  tree_.numbers_.push_back(number);
  node_of_number_[number] = id;
  return id;
}

int ResultTree::Builder::AddText(HostValues::Id text, int depth) {
  if (const auto it = node_of_number_.find(text); it != node_of_number_.end()) {
    return AddSame(it->second);
  }
  const TextRecipe& recipe = *watch_.values().recipe(text);
  const int id = NewNode(Kind::kText, recipe.function.get());
  node_of_number_[text] = id;
  for (const PyRef& arg : recipe.args) AddChild(id, arg.get(), depth);
  if (recipe.keyword_names) {
    tree_.nodes_[id].keys.push_back(recipe.keyword_names);
  }
  return id;
}

int ResultTree::Builder::AddNew(PyObject* object, int depth) {
  PyTypeObject* type = Py_TYPE(object);
  PyTypeObject* base = SolidBase(type);
  const bool is_class = IsPythonClass(type);
  if (is_class && !watch_.ages().IsOld(reinterpret_cast<PyObject*>(type))) {
    return Refuse(absl::StrCat("returns a ", TypeName(type),
                               ", a class made during the call"));
  }
  if (is_class && HasSlots(type)) {
    return Refuse(
        absl::StrCat("returns a ", TypeName(type), ", a class with __slots__"));
  }
  // torch.return_types are C classes that take a sequence.
  if (base == &PyTuple_Type ||
      (PyTuple_Check(object) && type->tp_base == &PyTuple_Type)) {
    return AddTuple(object, depth);
  }
  if (type == &PyList_Type) {
    const int id = NewContainer(Kind::kList, object);
    AddItems(id, object, depth);
    return id;
  }
  if (type == &PyDict_Type || type == &PyODict_Type) {
    const int id = NewContainer(Kind::kDict, object);
    AddDict(id, object, depth);
    return id;
  }
  if (type == &PySet_Type || type == &PyFrozenSet_Type) {
    return AddSet(object, depth);
  }
  if (is_class && (base == &PyBaseObject_Type || base == &PyDict_Type ||
                   base == &PyODict_Type)) {
    const int id = NewContainer(Kind::kInstance, object);
    if (PyDict_Check(object)) AddDict(id, object, depth);
    AddAttributes(id, object, depth);
    return id;
  }
  if (type == &PyMethod_Type) {
    const int id = NewContainer(Kind::kMethod, object);
    AddChild(id, PyMethod_GET_FUNCTION(object), depth);
    AddChild(id, PyMethod_GET_SELF(object), depth);
    return id;
  }
  if (type == &PyCFunction_Type && PyCFunction_GET_SELF(object) != nullptr &&
      !PyModule_Check(PyCFunction_GET_SELF(object))) {
    return AddBuiltin(object, depth);
  }
  return Refuse(absl::StrCat("returns a ", TypeName(type),
                             ", which can't be made again"));
}

int ResultTree::Builder::AddTuple(PyObject* tuple, int depth) {
  PyObject* dict = InstanceDict(tuple);
  if (dict != nullptr && PyDict_GET_SIZE(dict) > 0) {
    return Refuse("returns a tuple with attributes");
  }
  const int id = NewContainer(Kind::kTuple, tuple);
  open_[id] = true;
  AddItems(id, tuple, depth);
  open_[id] = false;
  return id;
}

int ResultTree::Builder::AddSet(PyObject* set, int depth) {
  const int id = NewContainer(Kind::kSet, set);
  tree_.nodes_[id].set_form = std::make_shared<SetForm>(SetForm::Of(set));
  PyRef items = PyRef::Steal(PySequence_List(set));
  for (Py_ssize_t i = 0; items && i < PyList_GET_SIZE(items.get()); ++i) {
    PyObject* item = PyList_GET_ITEM(items.get(), i);
    if (!IsConstant(item)) return Refuse("returns a set of objects");
    watch_.values().MarkExactDeep(item);
    AddChild(id, item, depth);
  }
  return id;
}

int ResultTree::Builder::AddBuiltin(PyObject* object, int depth) {
  auto* function = reinterpret_cast<PyCFunctionObject*>(object);
  const int id = NewContainer(Kind::kBuiltin, object);
  AddChild(id, function->m_self, depth);
  Node& node = tree_.nodes_[id];
  node.method = function->m_ml;
  // The definition is the class's.
  node.keys.push_back(
      PyRef::Share(reinterpret_cast<PyObject*>(Py_TYPE(function->m_self))));
  node.keys.push_back(PyRef::Share(function->m_module));
  return id;
}

void ResultTree::Builder::AddChild(int id, PyObject* object, int depth) {
  const int child = Add(object, depth + 1);
  tree_.nodes_[id].children.push_back(child);
}

void ResultTree::Builder::AddItems(int id, PyObject* sequence, int depth) {
  const bool is_tuple = PyTuple_Check(sequence);
  for (Py_ssize_t i = 0; i < Py_SIZE(sequence); ++i) {
    PyObject* item =
        is_tuple ? PyTuple_GET_ITEM(sequence, i) : PyList_GET_ITEM(sequence, i);
    AddChild(id, item, depth);
  }
}

void ResultTree::Builder::AddDict(int id, PyObject* dict, int depth) {
  for (const PyRef& own : KeysOf(dict)) {
    PyObject* key = own.get();
    if (!IsConstant(key) && !watch_.ages().IsOld(key)) {
      Refuse("returns a dict with a key that isn't a constant");
      return;
    }
    watch_.values().MarkExactDeep(key);
    PyObject* value = PyDict_GetItemWithError(dict, key);
    if (value == nullptr) return PyErr_Clear();
    AddChild(id, value, depth);
    tree_.nodes_[id].keys.push_back(watch_.values().PlainOf(key));
  }
}

void ResultTree::Builder::AddAttributes(int id, PyObject* object, int depth) {
  PyObject* dict = InstanceDict(object);
  if (dict == nullptr) return;
  if (node_of_.contains(dict) || inputs_.FindNode(dict) >= 0 ||
      watch_.ages().IsKnownOld(dict) || OwnerOf(dict) != nullptr) {
    // As of a dict that is its own `__dict__`.
    tree_.nodes_[id].index = kHasDict;
    return AddChild(id, dict, depth);
  }
  owners_[dict] = object;
  Py_ssize_t position = 0;
  PyObject *key = nullptr, *value = nullptr;
  while (PyDict_Next(dict, &position, &key, &value)) {
    watch_.values().MarkExactDeep(key);  // Any key, by way of the dict.
    AddChild(id, value, depth);
    tree_.nodes_[id].names.push_back(watch_.values().PlainOf(key));
  }
}

PyObject* ResultTree::Builder::OwnerOf(PyObject* dict) {
  if (!PyDict_Check(dict)) return nullptr;
  if (!knows_owners_) {
    knows_owners_ = true;
    for (PyObject* object : inputs_.covered()) {
      PyObject* attributes =
          IsPythonClass(Py_TYPE(object)) ? InstanceDict(object) : nullptr;
      if (attributes != nullptr) owners_[attributes] = object;
    }
  }
  const auto it = owners_.find(dict);
  return it == owners_.end() ? nullptr : it->second;
}

std::pair<ResultTree, Refusal> ResultTree::Build(
    PyObject* result, absl::Span<PyObject* const> left, StateWatch& watch,
    const InputGuards& inputs, std::vector<PyObject*>* tensors) {
  ResultTree tree;
  Builder builder(&tree, watch, inputs, tensors);
  tree.root_ = builder.Add(result, 0);
  for (PyObject* object : left) {
    if (object != nullptr) tree.left_roots_.push_back(builder.Add(object, 0));
  }
  Refusal refusal = builder.refusal();
  return {std::move(tree), std::move(refusal)};
}

}  // namespace mica
