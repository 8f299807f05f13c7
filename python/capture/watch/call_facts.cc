#include "python/capture/watch/call_facts.h"

#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "python/capture/values/constants.h"
#include "python/capture/values/dicts.h"
#include "python/interpreter/interpreter.h"
#include "python/torch_side/tensors/tensor_access.h"

namespace mica {

bool ChangesContainer(PyObject* callable, PyObject* container) {
  if (container == nullptr || IsTensor(container)) return false;
  static const auto& methods = *new absl::flat_hash_set<std::string>{
      "__delitem__", "__ior__",     "__setitem__", "add",        "append",
      "appendleft",  "clear",       "discard",     "extend",     "extendleft",
      "insert",      "move_to_end", "pop",         "popitem",    "popleft",
      "remove",      "reverse",     "rotate",      "setdefault", "sort",
      "update"};
  if (!PyList_Check(container) && !PyDict_Check(container) &&
      !PyAnySet_Check(container) &&
      !PyType_IsSubtype(Py_TYPE(container), DequeType())) {
    return false;
  }
  const std::string name = CallableName(callable);
  return methods.contains(name.substr(name.rfind('.') + 1));
}

bool IsNumpyCall(PyObject* callable, absl::Span<PyObject* const> args) {
  for (PyObject* arg : args) {
    if (arg != nullptr && IsArray(arg)) return true;
  }
  if (!PyCFunction_Check(callable)) return false;
  PyObject* module = reinterpret_cast<PyCFunctionObject*>(callable)->m_module;
  return module != nullptr && PyUnicode_Check(module) &&
         absl::StartsWith(PyText(module), "numpy");
}

bool ForgetsItem(PyObject* callback) {
  if (!PyFunction_Check(callback)) return false;
  const auto* function = reinterpret_cast<PyFunctionObject*>(callback);
  const std::string module = PyText(function->func_module);
  return module == "weakref" || module == "_weakrefset";
}

bool HandsOnArguments(PyObject* callable) {
  // autograd.Function's apply, bound to its class.
  return PyCFunction_Check(callable) &&
         PyCFunction_GET_SELF(callable) != nullptr &&
         PyType_Check(PyCFunction_GET_SELF(callable)) &&
         absl::EndsWith(CallableName(callable), ".apply");
}

bool AsksIdentity(PyObject* callable) {
  const std::string name = CallableName(callable);
  return name == "_operator.is_" || name == "_operator.is_not";
}

bool TakesItems(PyObject* callable, absl::Span<PyObject* const> args,
                PyObject** items) {
  const std::string name = CallableName(callable);
  const bool is_join = name == "builtins.str.join";
  if (args.size() != (is_join ? 2 : 1) || args.back() == nullptr) return false;
  *items = args.back();
  // One of a dict's items is looked at as a whole, but not to put it in order.
  if (PyDictItems_Check(*items)) return name == "builtins.sorted";
  return is_join || name == "builtins.sorted" || name == "builtins.max" ||
         name == "builtins.min" || name == "builtins.any" ||
         name == "builtins.all" ||
         callable == reinterpret_cast<PyObject*>(&PySet_Type) ||
         callable == reinterpret_cast<PyObject*>(&PyFrozenSet_Type) ||
         callable == reinterpret_cast<PyObject*>(&PyBool_Type);
}

bool FollowsNumbers(CallKind kind) {
  switch (kind) {
    case CallKind::kPure:
    case CallKind::kNumberFunction:
    case CallKind::kMoves:
    case CallKind::kUseItem:
    case CallKind::kGetAttr:
    case CallKind::kSetAttr:
    case CallKind::kTypes:
    case CallKind::kRegistry:
    case CallKind::kContext:
    case CallKind::kNew:
    case CallKind::kOperator:
    case CallKind::kMakesTensor:
    case CallKind::kDraw:
    case CallKind::kGenerator:
    case CallKind::kAsk:
    case CallKind::kPrint:
    case CallKind::kLog:
    case CallKind::kHost:
    case CallKind::kIdentity:
    case CallKind::kReduce:
    case CallKind::kVars:
      return true;
    default:
      return false;
  }
}

bool IsHostCall(PyObject* callable) {
  if (PyMethod_Check(callable)) callable = PyMethod_GET_FUNCTION(callable);
  const CallKind kind = KindOfBuiltin(callable);
  return kind == CallKind::kPrint || kind == CallKind::kWarn ||
         kind == CallKind::kLog || kind == CallKind::kHost ||
         kind == CallKind::kDraw || kind == CallKind::kAsk ||
         kind == CallKind::kClock;
}

bool IsPureScript(PyObject* owner, int depth) {
  constexpr int kMaxDepth = 32;
  const PyRef nodes =
      PyRef::Steal(PyObject_CallMethod(owner, "nodes", nullptr));
  const PyRef list =
      nodes ? PyRef::Steal(PySequence_List(nodes.get())) : PyRef();
  if (!list || depth > kMaxDepth) return false;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.get()); ++i) {
    PyObject* node = PyList_GET_ITEM(list.get(), i);
    const PyRef kind = PyRef::Steal(PyObject_CallMethod(node, "kind", nullptr));
    if (!kind || !IsPureScriptNode(PyText(kind.get()))) return false;
    const PyRef all =
        PyRef::Steal(PyObject_CallMethod(node, "blocks", nullptr));
    const PyRef blocks =
        all ? PyRef::Steal(PySequence_List(all.get())) : PyRef();
    if (!blocks) return false;
    for (Py_ssize_t j = 0; j < PyList_GET_SIZE(blocks.get()); ++j) {
      if (!IsPureScript(PyList_GET_ITEM(blocks.get(), j), depth + 1)) {
        return false;
      }
    }
  }
  return true;
}

bool IsPureCall(PyObject* callable) {
  if (PyType_Check(callable)) {
    return IsPureType(AsType(callable)) &&
           callable != reinterpret_cast<PyObject*>(&PyType_Type);
  }
  return (PyCFunction_Check(callable) ||
          Py_TYPE(callable) == &PyMethodDescr_Type) &&
         KindOfBuiltin(callable) == CallKind::kPure;
}

bool MayDiffer(PyObject* callable) {
  if (IsLruCache(callable)) return true;
  const CallAnnotation* known = FindAnnotation(callable);
  if (known == nullptr) return false;
  if (!known->read.empty() || !known->changed.empty()) return true;
  switch (known->kind) {
    case CallKind::kUnknown:  // Refused, or Python code.
    case CallKind::kPure:
    case CallKind::kOperator:
    case CallKind::kNumberFunction:
    case CallKind::kMoves:
    case CallKind::kTypes:
    case CallKind::kRegistry:
    case CallKind::kReadsState:
    case CallKind::kReadsModes:
    case CallKind::kAsksAgain:
    case CallKind::kGetAttr:
    case CallKind::kUseItem:
    case CallKind::kText:
    case CallKind::kVars:
    case CallKind::kNew:
    case CallKind::kMakesTensor:
    case CallKind::kRecurrent:
    case CallKind::kSplit:
      return false;
    default:
      return true;
  }
}

bool MakesIterator(PyObject* callable, absl::Span<PyObject* const> args) {
  if (callable == reinterpret_cast<PyObject*>(&PyEnum_Type) ||
      callable == reinterpret_cast<PyObject*>(&PyZip_Type) ||
      callable == reinterpret_cast<PyObject*>(&PyReversed_Type)) {
    return true;
  }
  return args.size() == 1 && CallableName(callable) == "builtins.iter";
}

bool UpdatesDict(absl::Span<PyObject* const> args) {
  if (!PyDict_Check(args[0]) || PyODict_Check(args[0]) ||
      !HasPlainItems(args[0])) {
    return false;
  }
  return args.size() == 1 ||
         (args.size() == 2 && PyDict_CheckExact(args[1]) && args[1] != args[0]);
}

bool RunsForItems(PyObject* iterator) {
  const PyTypeObject* type = Py_TYPE(iterator);
  return PyGen_CheckExact(iterator) || type == &PyMap_Type ||
         type == &PyFilter_Type || type == &PyZip_Type || type == &PyEnum_Type;
}

bool TellsMoreThanSizes(PyObject* name) {
  static constexpr absl::string_view kNames[] = {
      "_version", "grad",    "_grad",     "grad_fn",         "_grad_fn",
      "_base",    "is_leaf", "output_nr", "_backward_hooks", "retains_grad"};
  return absl::c_linear_search(kNames, PyText(name));
}

}  // namespace mica
