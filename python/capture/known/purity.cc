#include "python/capture/known/purity.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "python/capture/known/purity_table.h"
#include "python/capture/known/purity_words.h"
#include "python/capture/values/constants.h"
#include "python/interpreter/interpreter.h"
#include "python/torch_side/tensors/tensor_access.h"

namespace mica {
namespace {

// What identifies a callable in the tables: many objects may stand for one
// function in C.
const void* KeyOf(PyObject* callable) {
  const PyMethodDef* method = MethodDefOf(callable);
  return method != nullptr ? static_cast<const void*>(method) : callable;
}

// Bound: the wrapper is its class's attribute of the same name. Else itself.
PyRef Unbound(PyObject* callable) {
  if (Py_TYPE(callable) != MethodWrapperType()) {
    return PyRef::Share(callable);
  }
  PyRef owner = PyRef::Steal(PyObject_GetAttrString(callable, "__objclass__"));
  PyRef name = PyRef::Steal(PyObject_GetAttrString(callable, "__name__"));
  if (!owner || !name) {
    PyErr_Clear();
    return PyRef();
  }
  return PyRef::Share(_PyType_Lookup(AsType(owner.get()), name.get()));
}

// Of torch.ops.aten.add, which goes by the dispatcher: "torch._ops.aten". ""
// for what isn't such a function.
std::string OperatorModule(PyObject* callable) {
  if (!PyCFunction_Check(callable)) return "";
  PyObject* module = reinterpret_cast<PyCFunctionObject*>(callable)->m_module;
  if (module == nullptr || !PyUnicode_Check(module)) return "";
  std::string name = PyText(module);
  return absl::StartsWith(name, "torch._ops.") ? name : "";
}

}  // namespace

bool InitPurity() {
  if (purity != nullptr) return true;
  purity = new Purity;
  AddPython();
  AddTypes();
  AddTorch();
  return true;
}

void NoteImports() {
  static bool has_told = false;
  if (has_told) return;
  static PyObject* module = Interned(kToldModule);
  PyObject* modules = PyImport_GetModuleDict();
  if (PyDict_GetItemWithError(modules, module) == nullptr) return;
  has_told = true;
  for (const absl::string_view path : kTold) AddKind(path, CallKind::kHost);
}

PyRef ResolveName(absl::string_view path) {
  const std::vector<std::string> parts = absl::StrSplit(path, '.');
  PyRef object = PyRef::Steal(PyImport_ImportModule(parts[0].c_str()));
  for (size_t i = 1; object && i < parts.size(); ++i) {
    object =
        PyRef::Steal(PyObject_GetAttrString(object.get(), parts[i].c_str()));
  }
  PyErr_Clear();
  return object;
}

const CallAnnotation* FindAnnotation(PyObject* callable) {
  const PyRef unbound = Unbound(callable);
  if (!unbound) return nullptr;
  callable = unbound.get();
  const void* key = KeyOf(callable);
  if (!purity->users.empty()) {
    const auto own = purity->users.find(key);
    if (own != purity->users.end()) return &own->second;
  }
  const PyMethodDef* method = MethodDefOf(callable);
  if (method == nullptr) {
    const auto it = purity->objects.find(key);
    return it == purity->objects.end() ? nullptr : &it->second;
  }
  const auto it = purity->functions.find(method);
  if (it != purity->functions.end()) return &it->second;
  static const CallAnnotation dispatched{.kind = CallKind::kOperator};
  return OperatorModule(callable).empty() ? nullptr : &dispatched;
}

bool MayCallKernelInPython(PyObject* callable) {
  const PyRef unbound = Unbound(callable);
  if (!unbound) return false;
  const std::string module = OperatorModule(unbound.get());
  const PyMethodDef* method = MethodDefOf(unbound.get());
  return (!module.empty() && module != "torch._ops.aten") ||
         (method != nullptr &&
          absl::string_view(method->ml_name) == "redispatch_boxed");
}

CallKind KindOfBuiltin(PyObject* callable) {
  const CallAnnotation* annotation = FindAnnotation(callable);
  return annotation == nullptr ? CallKind::kUnknown : annotation->kind;
}

bool Annotate(PyObject* callable, CallAnnotation annotation) {
  if (PyMethod_Check(callable)) {
    PyErr_SetString(PyExc_TypeError,
                    "a bound method is a new object each time: annotate its "
                    "class's function");
    return false;
  }
  const PyRef unbound = Unbound(callable);
  if (!unbound) {
    PyErr_SetString(PyExc_TypeError, "wants a callable with a name");
    return false;
  }
  const bool is_new =
      purity->users
          .insert_or_assign(KeyOf(unbound.get()), std::move(annotation))
          .second;
  // For the life of the process, as the table; Python functions may be many.
  if (is_new && !PyFunction_Check(callable)) Py_INCREF(unbound.get());
  return true;
}

void DropAnnotation(const void* callable) { purity->users.erase(callable); }

absl::Span<PyObject* const> OwnArguments(PyObject* callable,
                                         absl::Span<PyObject* const> args) {
  const bool is_bound = PyCFunction_Check(callable) && !args.empty() &&
                        PyCFunction_GET_SELF(callable) == args[0];
  return is_bound ? args.subspan(1) : args;
}

bool IsOtherGeneratorMethod(absl::string_view name) {
  return HasWord(kOtherGeneratorMethods, name) ||
         (absl::StartsWith(name, "_") && !HasWord(kRandomMethods, name));
}

bool IsPureType(PyTypeObject* type) {
  return purity->pure_types.contains(type);
}
bool IsMovingType(PyTypeObject* type) {
  return purity->moving_types.contains(type);
}
bool IsAllocation(PyObject* callable) {
  const PyMethodDef* method = MethodDefOf(callable);
  return method != nullptr && (absl::StartsWith(method->ml_name, "empty") ||
                               absl::StartsWith(method->ml_name, "new_empty"));
}
bool IsTensorConstructor(PyTypeObject* type) {
  return reinterpret_cast<PyObject*>(type) == purity->tensor ||
         absl::string_view(Py_TYPE(type)->tp_name) == "torch.tensortype";
}
bool IsImmutableType(PyTypeObject* type) {
  return purity->immutable_types.contains(type);
}
bool IsClassCounter(PyObject* object) {
  return object == purity->class_counter && object != nullptr;
}

bool IsPureCallableType(PyTypeObject* type) {
  return purity->callable_types.contains(type);
}

bool HasPureOperators(PyTypeObject* type) {
  if (purity->contextual_types.contains(type)) return false;
  const bool has_operators =
      type->tp_as_number != nullptr ||
      (type->tp_richcompare != nullptr &&
       type->tp_richcompare != PyBaseObject_Type.tp_richcompare);
  return !has_operators || type == Py_TYPE(Py_None) ||
         type == Py_TYPE(Py_NotImplemented) || type == Py_TYPE(Py_Ellipsis) ||
         PyType_IsSubtype(type, &PyType_Type) || IsTensorType(type) ||
         purity->operator_types.contains(type) || IsPureType(type) ||
         IsMovingType(type) || IsImmutableType(type) ||
         IsPureCallableType(type);
}

bool IsContextualType(PyTypeObject* type) {
  return purity->contextual_types.contains(type);
}

bool IsAttributeGetterType(PyTypeObject* type) {
  return type == purity->attribute_getter;
}

PyTypeObject* HookHandleType() {
  static PyObject* type =
      ResolveName("torch.utils.hooks.RemovableHandle").release();
  return type != nullptr && PyType_Check(type) ? AsType(type) : nullptr;
}

bool IsLibraryCounter(PyTypeObject* type, PyObject* name) {
  const auto is_named = [name](const char* word) {
    return PyUnicode_CompareWithASCIIString(name, word) == 0;
  };
  if (type == HookHandleType()) return is_named("next_id");
  return is_named("generation") &&
         TypeName(type) == "torch._dynamo.mutation_guard.GenerationTracker";
}

bool IsScriptFunctionType(PyTypeObject* type) {
  return purity->script_function != nullptr &&
         PyType_IsSubtype(type, purity->script_function);
}

bool IsPureScriptNode(absl::string_view kind) {
  if (!absl::ConsumePrefix(&kind, "aten::")) {
    return HasWord(kPureScriptNodes, kind);
  }
  return !HasWord(kImpureScriptOps, kind) && !HasWord(kUnsafeTensorOps, kind) &&
         !HasWord(kDataReaders, kind) && !HasWord(kTensorMakers, kind);
}

bool IsSafeTensorAttribute(const std::string& name, bool requires_grad) {
  return purity->tensor_attributes.contains(name) ||
         (!requires_grad && purity->grad_attributes.contains(name));
}

std::string CallableName(PyObject* callable) {
  if (PyType_Check(callable)) {
    return TypeName(reinterpret_cast<PyTypeObject*>(callable));
  }
  PyRef qualified =
      PyRef::Steal(PyObject_GetAttrString(callable, "__qualname__"));
  if (!qualified) PyErr_Clear();
  if (!qualified || !PyUnicode_Check(qualified.get())) {
    return absl::StrCat("a ", TypeName(Py_TYPE(callable)));
  }
  PyRef module = PyRef::Steal(PyObject_GetAttrString(callable, "__module__"));
  if (!module) PyErr_Clear();
  const std::string name = PyText(qualified.get());
  if (!module || !PyUnicode_Check(module.get())) return name;
  return absl::StrCat(PyText(module.get()), ".", name);
}

FunctionKind KindOfFunction(PyObject* function) {
  const auto* made = reinterpret_cast<const PyFunctionObject*>(function);
  const std::string module = PyText(made->func_module);
  if ((module == "torch._functorch.vmap" ||
       module == "torch._functorch.predispatch") &&
      PyText(made->func_name) == "lazy_load_decompositions") {
    static PyObject* loaded = Interned("DECOMPOSITIONS_LOADED");
    return PyDict_GetItem(made->func_globals, loaded) == Py_True
               ? FunctionKind::kPlain
               : FunctionKind::kSetsUpAnother;
  }
  if (module == "torch._ops") {
    static constexpr absl::string_view kAtFirstUse[] = {
        "_get_packet", "_handle", "_namespace", "_opname"};
    return absl::c_linear_search(kAtFirstUse, PyText(made->func_name))
               ? FunctionKind::kSetsUpAnother
               : FunctionKind::kPlain;
  }
  const std::string name =
      absl::StrCat(module, ".", PyText(made->func_qualname));
  // They number hooks. The second is called by code in C, of a node.
  if (name == "torch.utils.hooks.RemovableHandle.__init__" ||
      name == "torch.autograd.function._HookMixin._register_hook") {
    return FunctionKind::kBookkeeping;
  }
  if (!absl::StartsWith(module, "torch._dynamo.")) return FunctionKind::kPlain;
  if (name == "torch._dynamo.decorators.disable") {
    return FunctionKind::kSetsUpAnother;
  }
  // The second forgets a module that dies.
  return name == "torch._dynamo.mutation_guard.GenerationTracker.tag" ||
                 absl::StartsWith(name,
                                  "torch._dynamo.utils.ExactWeakKeyDictionary.")
             ? FunctionKind::kBookkeeping
             : FunctionKind::kPlain;
}

}  // namespace mica
