#include "python/bridge/status.h"

#include <Python.h>
#include <nanobind/nanobind.h>

#include <string>

namespace mica {
namespace {

PyObject* ExceptionType(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
      return PyExc_ValueError;
    case absl::StatusCode::kNotFound:
      return PyExc_LookupError;
    case absl::StatusCode::kUnimplemented:
      return PyExc_NotImplementedError;
    case absl::StatusCode::kResourceExhausted:
      return PyExc_MemoryError;
    default:
      return PyExc_RuntimeError;
  }
}

}  // namespace

void ThrowIfError(const absl::Status& status) {
  if (status.ok()) return;
  PyErr_SetString(ExceptionType(status.code()),
                  std::string(status.message()).c_str());
  throw nanobind::python_error();
}

}  // namespace mica
