#include "python/torch_side/tensors/cpu_modes.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <c10/core/SafePyObject.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/PyInterpreter.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <new>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "python/interpreter/py_ref.h"

namespace mica {
namespace {

using Stack = at::impl::PythonTorchFunctionTLS;

PyObject* tensor_at_start = nullptr;  // torch.Tensor's entries.

// torch.utils._device.DeviceContext, which torch itself imports when it makes
// the first. Null if it didn't yet.
PyObject* DeviceContextType() {
  static PyObject* type = nullptr;
  if (type != nullptr) return type;
  PyObject* module = PyImport_GetModule(
      PyRef::Steal(PyUnicode_FromString("torch.utils._device")).get());
  if (module != nullptr) {
    type = PyObject_GetAttrString(module, "DeviceContext");
    Py_DECREF(module);
  }
  if (type == nullptr) PyErr_Clear();
  return type;
}

bool IsCpuMode(PyObject* mode) {
  PyObject* type = DeviceContextType();
  if (type == nullptr || Py_TYPE(mode) != AsType(type)) return false;
  const PyRef device = PyRef::Steal(PyObject_GetAttrString(mode, "device"));
  if (!device) PyErr_Clear();
  return device && IsCpuDevice(device.get());
}

bool IsTorchsFunction(PyObject* function) {
  PyObject* module = PyFunction_GET_MODULE(function);
  if (module == nullptr || !PyUnicode_Check(module)) return false;
  const char* name = PyUnicode_AsUTF8(module);
  if (name == nullptr) PyErr_Clear();
  return name != nullptr && absl::StartsWith(name, "torch");
}

// Whether an entry of torch.Tensor's is one that torch made, or no code.
bool IsTorchsEntry(PyObject* value) {
  if (PyFunction_Check(value)) return IsTorchsFunction(value);
  if (Py_TYPE(value) == &PyProperty_Type) {
    const PyRef get = PyRef::Steal(PyObject_GetAttrString(value, "fget"));
    if (!get) PyErr_Clear();
    return get && (!PyFunction_Check(get.get()) || IsTorchsFunction(get.get()));
  }
  PyTypeObject* const kinds[] = {&PyMethodDescr_Type, &PyGetSetDescr_Type,
                                 &PyWrapperDescr_Type, &PyCFunction_Type,
                                 &PyClassMethod_Type};
  return absl::c_linear_search(kinds, Py_TYPE(value)) ||
         (PyCallable_Check(value) == 0 &&
          Py_TYPE(value)->tp_descr_get == nullptr);
}

bool IsNameOfTorchs(PyObject* name) {
  return PyDict_Contains(tensor_at_start, name) != 0 ||
         _PyType_Lookup(AsType(THPVariableClass)->tp_base, name) != nullptr;
}

// Whether torch.Tensor's methods are torch's own. Under a mode torch looks a
// method up by its name, and calls it: one that a program put there, and that
// calls the one before, runs twice. Names that are the program's own it doesn't
// look up.
bool HasTorchsMethods() {
  static unsigned known_version = 0;
  static bool known = false;
  PyTypeObject* type = AsType(THPVariableClass);
  const bool has_version =
      PyType_HasFeature(type, Py_TPFLAGS_VALID_VERSION_TAG);
  const unsigned version = has_version ? type->tp_version_tag : 0;
  if (version != 0 && version == known_version) return known;
  known = true;
  PyObject *name = nullptr, *value = nullptr;
  Py_ssize_t at = 0;
  while (known && PyDict_Next(type->tp_dict, &at, &name, &value) != 0) {
    known = IsTorchsEntry(value) || !IsNameOfTorchs(name);
  }
  known_version = version;
  return known;
}

}  // namespace

void InitCpuModes() {
  tensor_at_start = PyDict_Copy(AsType(THPVariableClass)->tp_dict);
  if (tensor_at_start != nullptr) return;
  PyErr_Clear();
  throw std::bad_alloc();
}

bool IsCpuDevice(PyObject* object) {
  return THPDevice_Check(object) &&
         reinterpret_cast<THPDevice*>(object)->device.is_cpu();
}

bool AreCpuModes() {
  const PyErrorKeeper keeper;  // The run may have raised.
  if (Stack::stack_len() > 0 && !HasTorchsMethods()) return false;
  for (int64_t i = 0; i < Stack::stack_len(); ++i) {
    if (!IsCpuMode(Stack::get_stack_at(i)->ptr(getPyInterpreter()))) {
      return false;
    }
  }
  return true;
}

void CpuModes::Show() {
  if (hidden_.empty()) return;
  std::vector<Mode> above;
  while (Stack::stack_len() > 0) above.push_back(Stack::pop_stack());
  std::reverse(above.begin(), above.end());
  for (std::vector<Mode>* modes : {&hidden_, &above}) {
    for (Mode& mode : *modes) Stack::push_onto_stack(std::move(mode));
  }
  hidden_.clear();
}

void CpuModes::Hide() {
  if (!is_on_ || Stack::stack_len() == 0 || !AreCpuModes()) return;
  const auto size = static_cast<std::ptrdiff_t>(hidden_.size());
  while (Stack::stack_len() > 0) {
    hidden_.insert(hidden_.begin() + size, Stack::pop_stack());
  }
}

}  // namespace mica
