#include "python/capture/record/result_tree_builder.h"

#include <cmath>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "python/capture/values/constants.h"
#include "python/capture/values/numbers.h"
#include "python/interpreter/interpreter.h"
#include "python/torch_side/tensors/autograd_access.h"

namespace mica {
namespace {

constexpr int kMaxDepth = 64;

// Whether there is but one object of its value.
bool IsShared(PyObject* constant) {
  return PyBool_Check(constant) || constant == Py_None ||
         (PyLong_CheckExact(constant) && SharedInt(constant).get() == constant);
}

}  // namespace

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
  if (HasGradientHooks(tensor)) {
    return Refuse("returns a tensor with a hook on its gradient");
  }
  if (IsOfStateArray(tensor)) return 0;
  static PyObject* type = ResolveName("torch.Tensor").release();
  PyObject* own = reinterpret_cast<PyObject*>(Py_TYPE(tensor));
  if (own == type)
    return AddOutput(NewContainer(Kind::kTensor, tensor), tensor);
  static PyObject* make = ResolveName("torch.Tensor._make_subclass").release();
  const int id = NewContainer(Kind::kText, tensor);
  tree_.nodes_[id].object = PyRef::Share(make);
  const int children[] = {NewNode(Kind::kObject, own),
                          AddOutput(NewNode(Kind::kTensor, nullptr), tensor)};
  tree_.nodes_[id].children.assign(children, children + 2);
  return id;
}

int ResultTree::Builder::AddOutput(int id, PyObject* tensor) {
  tree_.nodes_[id].index = static_cast<int>(tensors_.size());
  tensors_.push_back(tensor);
  return id;
}

bool ResultTree::Builder::IsOfStateArray(PyObject* tensor) {
  const void* data = DataOf(tensor);
  if (data == nullptr) return false;
  std::vector<StatePlace> places;
  const std::string path = watch_.guards().FindArrays(data, &places);
  if (path.empty()) return false;
  for (StatePlace& place : places) {
    watch_.refusals().WantSlot(std::move(place));
  }
  Refuse(absl::StrCat("returns a tensor in the memory of ", path,
                      ", a numpy array of the state"),
         "return a clone");
  return true;
}

int ResultTree::Builder::Add(PyObject* object, int depth) {
  if (refusal_) return 0;
  if (depth > kMaxDepth) return Refuse("returns a result nested too deeply");
  watch_.loops().Leave(object);
  HostValues& values = watch_.values();
  const HostValues::Id number = values.Find(object);
  if (const int node = number < 0 ? -1 : values.input_node(number); node >= 0) {
    return AddInput(node);
  }
  // A hit at other sizes gives another one.
  if (number >= 0 && (values.IsSize(number) || values.IsDynamic(number))) {
    return AddPromoted(number, object);
  }
  if (const HostValues::Id text = values.FindText(object);
      text >= 0 && (values.IsDynamic(text) || values.IsTextOfSizes(text))) {
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
  if (const int drawn = values.drawn().IndexOf(object); drawn >= 0) {
    const int id = NewNode(Kind::kDrawn, nullptr);
    tree_.nodes_[id].index = drawn;
    return id;
  }
  if (PyObject* tensor = values.TensorOf(object)) {
    return AddArray(object, tensor, depth);
  }
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
  // A tuple that the program made of what it found, or a named one that it
  // made: no code has such a constant.
  const bool is_plain = PyTuple_CheckExact(constant);
  if (is_plain ? IsObjectOfHit(constant)
               : PyTuple_Check(constant) && !watch_.ages().IsOld(constant)) {
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
  const int id = NewNode(
      Kind::kNumber, reinterpret_cast<PyObject*>(
                         object == nullptr ? &PyLong_Type : Py_TYPE(object)));
  tree_.nodes_[id].index = static_cast<int>(tree_.numbers_.size());
  tree_.numbers_.push_back(number);
  node_of_number_[number] = id;
  for (const HostValues::Id one : watch_.values().PickedFrom(number)) {
    const int child = AddPicked(one);
    if (child >= 0) tree_.nodes_[id].children.push_back(child);
  }
  return id;
}

int ResultTree::Builder::AddPicked(HostValues::Id number) {
  HostValues& values = watch_.values();
  if (const int node = values.input_node(number); node >= 0) {
    return AddInput(node);
  }
  if (!values.IsSize(number) && !values.IsDynamic(number)) return -1;
  PyObject* original = values.original(number);
  if (values.source(number).dict && original == nullptr) return -1;
  return AddPromoted(number, original);
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

int ResultTree::Builder::AddArray(PyObject* array, PyObject* tensor,
                                  int depth) {
  static PyObject* numpy = ResolveName("torch._C.TensorBase.numpy").release();
  static PyObject* list = ResolveName("torch._C.TensorBase.tolist").release();
  const int id = NewContainer(Kind::kText, array);
  tree_.nodes_[id].object = PyRef::Share(IsArray(array) ? numpy : list);
  AddChild(id, tensor, depth);
  return id;
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
