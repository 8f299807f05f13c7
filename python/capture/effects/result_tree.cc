#include "python/capture/effects/result_tree.h"

#include "python/capture/values/numbers.h"
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

PyObject* ResultTree::Make(absl::Span<PyObject* const> tensors,
                           absl::Span<const double> numbers,
                           const BoundInputs& inputs,
                           std::vector<PyRef>* left) const {
  const Node& root = nodes_[root_];
  if (root.kind == Kind::kTensor && left_roots_.empty()) {
    Py_INCREF(tensors[root.index]);
    return tensors[root.index];
  }
  std::vector<PyObject*> made(has_same_ ? nodes_.size() : 0);
  const Parts parts{tensors, numbers, inputs};
  PyRef result = PyRef::Steal(MakeNode(root_, parts, made));
  if (!result) return nullptr;
  for (const int id : left_roots_) {
    left->push_back(PyRef::Steal(MakeNode(id, parts, made)));
    if (!left->back()) return nullptr;
  }
  return result.release();
}

PyObject* ResultTree::MakeNode(int id, const Parts& parts,
                               std::vector<PyObject*>& made) const {
  const Node& node = nodes_[id];
  const auto keep = [&](PyObject* object) {
    if (has_same_) made[id] = object;  // Borrowed from its holder.
    return object;
  };
  switch (node.kind) {
    case Kind::kTensor:
      Py_INCREF(parts.tensors[node.index]);
      return keep(parts.tensors[node.index]);
    case Kind::kObject:
      Py_INCREF(node.object.get());
      return node.object.get();
    case Kind::kInput:
      Py_INCREF(parts.inputs.objects[node.index]);
      return parts.inputs.objects[node.index];
    case Kind::kNumber:
      return keep(
          MakeNumber(AsType(node.object.get()), parts.numbers[node.index])
              .release());
    case Kind::kPlace: {
      PyObject* holder = node.holder.get();
      PyObject* now = PyCell_Check(holder)
                          ? PyCell_GET(holder)
                          : PyDict_GetItemWithError(holder, node.key.get());
      if (now == nullptr) now = node.object.get();
      Py_INCREF(now);
      return now;
    }
    case Kind::kSame:
      Py_INCREF(made[node.index]);
      return made[node.index];
    default:
      break;
  }
  PyTypeObject* type = AsType(node.object.get());
  const auto count = static_cast<Py_ssize_t>(node.children.size());
  PyRef object;
  switch (node.kind) {
    case Kind::kMethod: {
      PyRef function = PyRef::Steal(MakeNode(node.children[0], parts, made));
      PyRef self = PyRef::Steal(MakeNode(node.children[1], parts, made));
      if (!function || !self) return nullptr;
      object = PyRef::Steal(PyMethod_New(function.get(), self.get()));
      return object ? keep(object.release()) : nullptr;
    }
    case Kind::kBuiltin: {
      PyRef self = PyRef::Steal(MakeNode(node.children[0], parts, made));
      if (!self) return nullptr;
      object = PyRef::Steal(
          PyCFunction_NewEx(node.method, self.get(), node.keys[1].get()));
      return object ? keep(object.release()) : nullptr;
    }
    case Kind::kTuple: {
      object = PyRef::Steal(PyTuple_New(count));
      if (!object) return nullptr;
      for (Py_ssize_t i = 0; i < count; ++i) {
        PyObject* item = MakeNode(node.children[i], parts, made);
        if (item == nullptr) return nullptr;
        PyTuple_SET_ITEM(object.get(), i, item);
      }
      if (type != &PyTuple_Type && !IsPythonClass(type)) {
        object = PyRef::Steal(PyObject_CallOneArg(
            reinterpret_cast<PyObject*>(type), object.get()));
        if (!object) return nullptr;
      } else if (type != &PyTuple_Type) {
        PyRef args = PyRef::Steal(PyTuple_Pack(1, object.get()));
        if (!args) return nullptr;
        object = PyRef::Steal(PyTuple_Type.tp_new(type, args.get(), nullptr));
        if (!object) return nullptr;
      }
      return keep(object.release());
    }
    case Kind::kList: {
      object = PyRef::Steal(PyList_New(count));
      if (!object) return nullptr;
      keep(object.get());
      for (Py_ssize_t i = 0; i < count; ++i) {
        PyObject* item = MakeNode(node.children[i], parts, made);
        if (item == nullptr) return nullptr;
        PyList_SET_ITEM(object.get(), i, item);
      }
      return object.release();
    }
    case Kind::kSet: {
      PyRef items = PyRef::Steal(PyList_New(count));
      if (!items) return nullptr;
      for (Py_ssize_t i = 0; i < count; ++i) {
        PyObject* item = MakeNode(node.children[i], parts, made);
        if (item == nullptr) return nullptr;
        PyList_SET_ITEM(items.get(), i, item);
      }
      object = PyRef::Steal(type == &PySet_Type ? PySet_New(items.get())
                                                : PyFrozenSet_New(items.get()));
      return keep(object.release());
    }
    default:
      break;
  }
  if (node.kind == Kind::kDict) {
    object = PyRef::Steal(type == &PyODict_Type ? PyODict_New() : PyDict_New());
  } else {
    static PyObject* no_args = PyTuple_New(0);
    object = PyRef::Steal(SolidBase(type)->tp_new(type, no_args, nullptr));
  }
  if (!object) return nullptr;
  keep(object.get());
  size_t child = 0;
  for (const PyRef& key : node.keys) {
    PyRef item = PyRef::Steal(MakeNode(node.children[child++], parts, made));
    if (!item) return nullptr;
    const int failed =
        PyODict_Check(object.get())
            ? PyODict_SetItem(object.get(), key.get(), item.get())
            : PyDict_SetItem(object.get(), key.get(), item.get());
    if (failed != 0) return nullptr;
  }
  if (node.kind == Kind::kDict || node.names.empty()) return object.release();
  PyRef attributes =
      PyRef::Steal(PyObject_GenericGetDict(object.get(), nullptr));
  if (!attributes) return nullptr;
  for (const PyRef& name : node.names) {
    PyRef item = PyRef::Steal(MakeNode(node.children[child++], parts, made));
    if (!item) return nullptr;
    if (PyDict_SetItem(attributes.get(), name.get(), item.get()) != 0) {
      return nullptr;
    }
  }
  return object.release();
}

}  // namespace mica
