#include "python/capture/values/constants.h"

#include <cmath>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "python/interpreter/interpreter.h"
#include "python/torch_side/tensors/tensor_access.h"

namespace mica {
namespace {

bool IsScalar(PyTypeObject* type) {
  return type == &PyLong_Type || type == &PyFloat_Type ||
         type == &PyUnicode_Type || type == &PyBool_Type ||
         type == Py_TYPE(Py_None) || type == &PyBytes_Type ||
         type == &PyComplex_Type;
}

bool SameDouble(double was, double now) {
  return std::memcmp(&was, &now, sizeof was) == 0;
}

// numpy's numbers and strings: they show their value as a buffer.
bool IsNumpyScalar(PyObject* object) {
  static PyTypeObject* generic = nullptr;
  static PyTypeObject* compound = nullptr;
  if (generic == nullptr) {
    // Only objects of numpy's come here, so that numpy is imported.
    if (absl::string_view(Py_TYPE(object)->tp_name).substr(0, 6) != "numpy.") {
      return false;
    }
    PyObject* numpy = PyDict_GetItemString(PyImport_GetModuleDict(), "numpy");
    if (numpy == nullptr) return false;
    generic = reinterpret_cast<PyTypeObject*>(
        PyObject_GetAttrString(numpy, "generic"));
    compound =
        reinterpret_cast<PyTypeObject*>(PyObject_GetAttrString(numpy, "void"));
    if (generic == nullptr || compound == nullptr) {
      PyErr_Clear();
      generic = nullptr;
      return false;
    }
  }
  return PyType_IsSubtype(Py_TYPE(object), generic) &&
         !PyType_IsSubtype(Py_TYPE(object), compound) &&
         (Py_TYPE(object)->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0;
}

bool SameBuffer(PyObject* was, PyObject* now) {
  Py_buffer a, b;
  if (PyObject_GetBuffer(was, &a, PyBUF_SIMPLE) != 0) {
    PyErr_Clear();
    return false;
  }
  bool same = PyObject_GetBuffer(now, &b, PyBUF_SIMPLE) == 0;
  if (same) {
    same = a.len == b.len &&
           std::memcmp(a.buf, b.buf, static_cast<size_t>(a.len)) == 0;
    PyBuffer_Release(&b);
  } else {
    PyErr_Clear();
  }
  PyBuffer_Release(&a);
  return same;
}

// By their own numbers: ranges of the same items are equal.
bool SameRange(PyObject* was, PyObject* now) {
  for (const char* name : {"start", "stop", "step"}) {
    const PyRef a = PyRef::Steal(PyObject_GetAttrString(was, name));
    const PyRef b = PyRef::Steal(PyObject_GetAttrString(now, name));
    if (!a || !b) PyErr_Clear();
    if (!SameValue(a.get(), b.get())) return false;
  }
  return true;
}

// Tuples whose class adds nothing that a comparison would miss: they can get no
// attributes.
bool IsPlainTuple(PyObject* object) {
  return PyTuple_Check(object) && Py_TYPE(object)->tp_dictoffset == 0;
}

}  // namespace

bool IsArray(PyObject* object) {
  static PyTypeObject* type = nullptr;
  const char* name = Py_TYPE(object)->tp_name;
  if (type == nullptr && absl::string_view(name) == "numpy.ndarray") {
    type = Py_TYPE(object);
  }
  return type != nullptr && PyObject_TypeCheck(object, type);
}

bool IsConstant(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (IsScalar(type)) return true;
  if (IsPlainTuple(object)) {
    const Py_ssize_t size = PyTuple_GET_SIZE(object);
    for (Py_ssize_t i = 0; i < size; ++i) {
      if (!IsConstant(PyTuple_GET_ITEM(object, i))) return false;
    }
    return true;
  }
  if (type == &PySlice_Type) {
    const auto* slice = reinterpret_cast<PySliceObject*>(object);
    return IsConstant(slice->start) && IsConstant(slice->stop) &&
           IsConstant(slice->step);
  }
  if (type == &PyEllipsis_Type || type == &PyRange_Type) return true;
  return IsTorchConstant(object) || IsNumpyScalar(object);
}

bool SameValue(PyObject* was, PyObject* now) {
  if (was == now) return true;
  if (was == nullptr || now == nullptr) return false;
  PyTypeObject* type = Py_TYPE(was);
  if (Py_TYPE(now) != type) return false;
  if (type == &PyLong_Type || type == &PyUnicode_Type ||
      type == &PyBytes_Type) {
    const int equal = PyObject_RichCompareBool(was, now, Py_EQ);
    if (equal < 0) PyErr_Clear();
    return equal == 1;
  }
  if (type == &PyFloat_Type) {
    // Whether a NaN is in a list follows from which object it is.
    return !std::isnan(PyFloat_AS_DOUBLE(was)) &&
           SameDouble(PyFloat_AS_DOUBLE(was), PyFloat_AS_DOUBLE(now));
  }
  if (type == &PyComplex_Type) {
    return SameDouble(PyComplex_RealAsDouble(was),
                      PyComplex_RealAsDouble(now)) &&
           SameDouble(PyComplex_ImagAsDouble(was), PyComplex_ImagAsDouble(now));
  }
  if (IsPlainTuple(was) && IsPlainTuple(now)) {
    const Py_ssize_t size = PyTuple_GET_SIZE(was);
    if (PyTuple_GET_SIZE(now) != size) return false;
    for (Py_ssize_t i = 0; i < size; ++i) {
      if (!SameValue(PyTuple_GET_ITEM(was, i), PyTuple_GET_ITEM(now, i))) {
        return false;
      }
    }
    return true;
  }
  if (type == &PyRange_Type) return SameRange(was, now);
  if (type == &PySlice_Type) {
    const auto* a = reinterpret_cast<PySliceObject*>(was);
    const auto* b = reinterpret_cast<PySliceObject*>(now);
    return SameValue(a->start, b->start) && SameValue(a->stop, b->stop) &&
           SameValue(a->step, b->step);
  }
  if (IsTorchConstant(was)) return SameTorchConstant(was, now);
  return IsNumpyScalar(was) && SameBuffer(was, now);
}

std::string TypeName(PyTypeObject* type) {
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0) return type->tp_name;
  const auto* heap = reinterpret_cast<PyHeapTypeObject*>(type);
  PyObject* module = TypeDict(type) == nullptr
                         ? nullptr
                         : PyDict_GetItemString(TypeDict(type), "__module__");
  const std::string name = PyText(heap->ht_qualname);
  if (module == nullptr || !PyUnicode_Check(module)) return name;
  return absl::StrCat(PyText(module), ".", name);
}

std::string DescribeValue(PyObject* value) {
  constexpr size_t kMaxText = 60;
  if (value == nullptr) return "absent";
  if (IsTensor(value)) {
    return IsPlainTensor(value) ? TensorMeta::Of(value).ToString()
                                : TypeName(Py_TYPE(value));
  }
  if (PyFunction_Check(value)) {
    return absl::StrCat(
        "function ",
        PyText(reinterpret_cast<PyFunctionObject*>(value)->func_qualname));
  }
  if (PyType_Check(value)) {
    return absl::StrCat("class ",
                        TypeName(reinterpret_cast<PyTypeObject*>(value)));
  }
  if (PyModule_Check(value)) {
    const char* name = PyModule_GetName(value);
    if (name == nullptr) PyErr_Clear();
    return absl::StrCat("module ", name == nullptr ? "?" : name);
  }
  if (IsConstant(value)) {
    PyRef text = PyRef::Steal(PyObject_Repr(value));
    if (!text) PyErr_Clear();
    std::string shown = PyText(text.get());
    if (shown.size() > kMaxText) shown = shown.substr(0, kMaxText) + "…";
    return shown;
  }
  if (PyDict_Check(value)) {
    return absl::StrCat(TypeName(Py_TYPE(value)), " of ",
                        PyDict_GET_SIZE(value), " items");
  }
  if (PyList_Check(value) || PyTuple_Check(value)) {
    return absl::StrCat(TypeName(Py_TYPE(value)), " of ", Py_SIZE(value),
                        " items");
  }
  return absl::StrCat("a ", TypeName(Py_TYPE(value)));
}

}  // namespace mica
