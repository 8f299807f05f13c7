// Numpy's arrays as tensors.

#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/tensor_numpy.h>

#include <exception>

#include "absl/strings/string_view.h"
#include "python/torch_side/tensors/tensor_access.h"

namespace mica {

PyRef TensorOfArray(PyObject* object) {
  static PyTypeObject* array = nullptr;
  PyTypeObject* type = Py_TYPE(object);
  if (array == nullptr && absl::string_view(type->tp_name) == "numpy.ndarray") {
    array = type;
  }
  if (array == nullptr || type != array) return {};
  static PyObject* flags = PyUnicode_InternFromString("flags");
  static PyObject* writeable = PyUnicode_InternFromString("writeable");
  const PyRef all = PyRef::Steal(PyObject_GetAttr(object, flags));
  const PyRef is_writeable =
      all ? PyRef::Steal(PyObject_GetAttr(all.get(), writeable)) : PyRef();
  if (!is_writeable) PyErr_Clear();
  if (!is_writeable || is_writeable.get() != Py_True) return {};
  try {
    return PyRef::Steal(THPVariable_Wrap(torch::utils::tensor_from_numpy(
        object, /*warn_if_not_writeable=*/false)));
  } catch (const std::exception&) {
    PyErr_Clear();
    return {};
  }
}

}  // namespace mica
