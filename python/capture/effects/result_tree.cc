#include "python/capture/effects/result_tree.h"

#include <cmath>
#include <iterator>
#include <utility>

#include "python/capture/values/numbers.h"
#include "python/capture/values/sequences.h"
#include "python/interpreter/call_with_names.h"
#include "python/interpreter/interpreter.h"

namespace mica {

void ResultTree::LetGo(absl::FunctionRef<void(LooseRef*)> let_go) {
  for (Node& node : nodes_) {
    let_go(&node.object);
    let_go(&node.holder);
    let_go(&node.key);
  }
}

int ResultTree::Traverse(visitproc visit, void* arg) const {
  for (const Node& node : nodes_) {
    Py_VISIT(node.object.held());
    Py_VISIT(node.holder.held());
    Py_VISIT(node.key.held());
    for (const PyRef& key : node.keys) Py_VISIT(key.get());
    for (const PyRef& name : node.names) Py_VISIT(name.get());
  }
  return 0;
}

// Makes the objects of one call.
class ResultTree::Maker {
 public:
  // All outlive this.
  Maker(const ResultTree& tree, absl::Span<PyObject* const> tensors,
        absl::Span<const double> numbers, const BoundInputs& inputs)
      : tree_(tree),
        tensors_(tensors),
        numbers_(numbers),
        inputs_(inputs),
        made_(tree.has_same_ ? tree.nodes_.size() : 0) {}

  // A new reference; null with a Python error set.
  PyObject* Make(int id);

 private:
  // Borrowed from its holder.
  PyObject* Keep(int id, PyObject* object) {
    if (!made_.empty()) made_[id] = object;
    return object;
  }
  static PyTypeObject* TypeOf(const Node& node) {
    return AsType(node.object.get());
  }
  // What the place of a kPlace holds, or as recorded if it is gone. Borrowed.
  static PyObject* Now(const Node& node) {
    PyObject* holder = node.holder.get();
    PyObject* now = PyCell_Check(holder) ? PyCell_GET(holder)
                                         : ItemOf(holder, node.key.get());
    return now == nullptr ? node.object.get() : now;
  }
  // Null if the dict has no such key. One that has become unhashable is found
  // as the object that it is. Borrowed.
  static PyObject* ItemOf(PyObject* dict, PyObject* key) {
    PyObject* value = PyDict_GetItemWithError(dict, key);
    if (value != nullptr || PyErr_Occurred() == nullptr) return value;
    PyErr_Clear();
    Py_ssize_t position = 0;
    PyObject* other = nullptr;
    while (PyDict_Next(dict, &position, &other, &value)) {
      if (other == key) return value;
    }
    return nullptr;
  }
  static PyObject* Share(PyObject* object) {
    Py_INCREF(object);
    return object;
  }
  PyObject* MakeContainer(int id, const Node& node);
  // The very object of a child that is that number, else a new one.
  PyObject* MakeNumberOf(const Node& node);
  PyObject* MakeMethod(const Node& node);
  PyObject* MakeText(const Node& node);
  PyObject* MakeTuple(const Node& node);
  PyObject* MakeDeque(int id, const Node& node);
  PyObject* MakeSet(const Node& node);
  PyObject* MakeDictOrInstance(int id, const Node& node);
  // Puts the children into a tuple or a list. False with an error set.
  bool MakeItems(const Node& node, PyObject* sequence);
  // Sets the keys and the attributes.
  bool MakeKeys(const Node& node, PyObject* object);

  const ResultTree& tree_;
  const absl::Span<PyObject* const> tensors_;
  const absl::Span<const double> numbers_;
  const BoundInputs& inputs_;
  std::vector<PyObject*> made_;  // Empty if nothing occurs twice.
  std::vector<PyRef> kept_;      // What texts were made of, till all is made.
};

PyObject* ResultTree::Maker::Make(int id) {
  const Node& node = tree_.nodes_[id];
  switch (node.kind) {
    case Kind::kTensor:
      return Keep(id, Share(tensors_[node.index]));
    case Kind::kObject:
      return Share(node.object.get());
    case Kind::kInput:
      return Share(inputs_.objects[node.index]);
    case Kind::kDrawn:
      return Share(inputs_.drawn[node.index].get());
    case Kind::kNumber:
      return Keep(id, MakeNumberOf(node));
    case Kind::kNaN:
      return Keep(id, PyFloat_FromDouble(NAN));
    case Kind::kPlace:
      return Share(Now(node));
    case Kind::kSame:
      return Share(made_[node.index]);
    default:
      return MakeContainer(id, node);
  }
}

PyObject* ResultTree::Maker::MakeNumberOf(const Node& node) {
  const double number = numbers_[node.index];
  PyObject* picked = nullptr;
  for (const int child : node.children) {
    PyRef one = PyRef::Steal(Make(child));
    if (!one) return nullptr;
    if (picked == nullptr && NumberOf(one.get()) == number) picked = one.get();
    kept_.push_back(std::move(one));
  }
  return picked != nullptr ? Share(picked)
                           : MakeNumber(TypeOf(node), number).release();
}

PyObject* ResultTree::Maker::MakeContainer(int id, const Node& node) {
  switch (node.kind) {
    case Kind::kMethod:
    case Kind::kBuiltin:
      return Keep(id, MakeMethod(node));
    case Kind::kText:
      return Keep(id, MakeText(node));
    case Kind::kTuple:
      return Keep(id, MakeTuple(node));
    case Kind::kList: {
      PyRef list = PyRef::Steal(
          PyList_New(static_cast<Py_ssize_t>(node.children.size())));
      if (!list) return nullptr;
      Keep(id, list.get());
      return MakeItems(node, list.get()) ? list.release() : nullptr;
    }
    case Kind::kDeque:
      return MakeDeque(id, node);
    case Kind::kSet:
      return Keep(id, MakeSet(node));
    case Kind::kAttributes: {
      const PyRef owner = PyRef::Steal(Make(node.children[0]));
      if (!owner) return nullptr;
      return Keep(id, PyObject_GenericGetDict(owner.get(), nullptr));
    }
    default:
      return MakeDictOrInstance(id, node);
  }
}

bool ResultTree::Maker::MakeItems(const Node& node, PyObject* sequence) {
  const bool is_list = PyList_CheckExact(sequence);
  for (size_t i = 0; i < node.children.size(); ++i) {
    PyObject* item = Make(node.children[i]);
    if (item == nullptr) return false;
    const auto index = static_cast<Py_ssize_t>(i);
    if (is_list) {
      PyList_SET_ITEM(sequence, index, item);
    } else {
      PyTuple_SET_ITEM(sequence, index, item);
    }
  }
  return true;
}

PyObject* ResultTree::Maker::MakeMethod(const Node& node) {
  PyRef first = PyRef::Steal(Make(node.children[0]));
  if (!first) return nullptr;
  if (node.kind == Kind::kBuiltin) {
    return PyCFunction_NewEx(node.method, first.get(), node.keys[1].get());
  }
  PyRef self = PyRef::Steal(Make(node.children[1]));
  return self ? PyMethod_New(first.get(), self.get()) : nullptr;
}

PyObject* ResultTree::Maker::MakeText(const Node& node) {
  std::vector<PyRef> args;
  for (const int child : node.children) {
    args.push_back(PyRef::Steal(Make(child)));
    if (!args.back()) return nullptr;
  }
  PyRef text = CallWithNames(node.object.get(), args,
                             node.keys.empty() ? nullptr : node.keys[0].get());
  // One of them may occur elsewhere, too.
  if (!made_.empty()) {
    std::move(args.begin(), args.end(), std::back_inserter(kept_));
  }
  return text.release();
}

PyObject* ResultTree::Maker::MakeTuple(const Node& node) {
  PyTypeObject* type = TypeOf(node);
  PyRef tuple =
      PyRef::Steal(PyTuple_New(static_cast<Py_ssize_t>(node.children.size())));
  if (!tuple || !MakeItems(node, tuple.get())) return nullptr;
  if (type == &PyTuple_Type) return tuple.release();
  if (type == &PySlice_Type) {
    return PySlice_New(PyTuple_GET_ITEM(tuple.get(), 0),
                       PyTuple_GET_ITEM(tuple.get(), 1),
                       PyTuple_GET_ITEM(tuple.get(), 2));
  }
  if (!IsPythonClass(type)) {
    return PyObject_CallOneArg(reinterpret_cast<PyObject*>(type), tuple.get());
  }
  PyRef args = PyRef::Steal(PyTuple_Pack(1, tuple.get()));
  if (!args) return nullptr;
  return PyTuple_Type.tp_new(type, args.get(), nullptr);
}

PyObject* ResultTree::Maker::MakeDeque(int id, const Node& node) {
  PyRef deque = NewDeque(node.index);
  if (!deque) return nullptr;
  Keep(id, deque.get());
  for (const int child : node.children) {
    const PyRef item = PyRef::Steal(Make(child));
    if (!item || !AppendTo(deque.get(), item.get())) return nullptr;
  }
  return deque.release();
}

PyObject* ResultTree::Maker::MakeSet(const Node& node) {
  std::vector<PyRef> members;
  for (const int child : node.children) {
    members.push_back(PyRef::Steal(Make(child)));
    if (!members.back()) return nullptr;
  }
  return node.set_form->Make(TypeOf(node), members).release();
}

PyObject* ResultTree::Maker::MakeDictOrInstance(int id, const Node& node) {
  static PyObject* no_args = PyTuple_New(0);
  PyTypeObject* type = TypeOf(node);
  PyRef object;
  if (node.kind != Kind::kDict) {
    object = PyRef::Steal(SolidBase(type)->tp_new(type, no_args, nullptr));
  } else {
    object = PyRef::Steal(
        type == &PyDict_Type
            ? PyDict_New()
            : PyObject_CallNoArgs(reinterpret_cast<PyObject*>(type)));
  }
  if (!object) return nullptr;
  Keep(id, object.get());
  return MakeKeys(node, object.get()) ? object.release() : nullptr;
}

bool ResultTree::Maker::MakeKeys(const Node& node, PyObject* object) {
  size_t child = 0;
  for (const PyRef& key : node.keys) {
    PyRef item = PyRef::Steal(Make(node.children[child++]));
    if (!item) return false;
    const int failed = PyODict_Check(object)
                           ? PyODict_SetItem(object, key.get(), item.get())
                           : PyDict_SetItem(object, key.get(), item.get());
    if (failed != 0) return false;
  }
  if (node.kind == Kind::kInstance && node.index == kHasDict) {
    const PyRef dict = PyRef::Steal(Make(node.children[child]));
    return dict && PyObject_GenericSetDict(object, dict.get(), nullptr) == 0;
  }
  if (node.kind == Kind::kDict && child < node.children.size()) {
    const PyRef factory = PyRef::Steal(Make(node.children[child]));
    return factory && PyObject_SetAttrString(object, "default_factory",
                                             factory.get()) == 0;
  }
  if (node.kind == Kind::kDict || node.names.empty()) return true;
  PyRef attributes = PyRef::Steal(PyObject_GenericGetDict(object, nullptr));
  if (!attributes) return false;
  for (const PyRef& name : node.names) {
    PyRef item = PyRef::Steal(Make(node.children[child++]));
    if (!item) return false;
    if (PyDict_SetItem(attributes.get(), name.get(), item.get()) != 0) {
      return false;
    }
  }
  return true;
}

PyObject* ResultTree::Make(absl::Span<PyObject* const> tensors,
                           absl::Span<const double> numbers,
                           const BoundInputs& inputs,
                           std::vector<PyRef>* left) const {
  const Node& root = nodes_[root_];
  if (root.kind == Kind::kTensor && left_roots_.empty()) {
    Py_INCREF(tensors[root.index]);
    return tensors[root.index];
  }
  Maker maker(*this, tensors, numbers, inputs);
  PyRef result = PyRef::Steal(maker.Make(root_));
  if (!result) return nullptr;
  for (const int id : left_roots_) {
    left->push_back(PyRef::Steal(maker.Make(id)));
    if (!left->back()) return nullptr;
  }
  return result.release();
}

}  // namespace mica
