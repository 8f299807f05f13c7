#include "python/torch_side/tensors/cpu_modes.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <c10/core/SafePyObject.h>
#include <torch/csrc/Device.h>
#include <torch/csrc/PyInterpreter.h>

#include <algorithm>
#include <utility>

#include "python/interpreter/py_ref.h"

namespace mica {
namespace {

using Stack = at::impl::PythonTorchFunctionTLS;

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

}  // namespace

bool IsCpuDevice(PyObject* object) {
  return THPDevice_Check(object) &&
         reinterpret_cast<THPDevice*>(object)->device.is_cpu();
}

bool AreCpuModes() {
  const PyErrorKeeper keeper;  // The run may have raised.
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
