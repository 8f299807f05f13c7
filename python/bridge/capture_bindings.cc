#include <nanobind/stl/string.h>

#include "python/bridge/bindings.h"
#include "python/bridge/status.h"
#include "python/capture/compiled.h"
#include "python/capture/interpreter.h"
#include "python/capture/purity.h"
#include "python/capture/recorder.h"

namespace mica {
namespace {

namespace nb = nanobind;

// Once, after torch is imported.
void InitCapture(const std::string& torch_dir, const std::string& mica_dir) {
  if (!InitInterpreter(torch_dir, mica_dir) || !InitPurity()) {
    throw nb::python_error();
  }
  ThrowIfError(Recorder::Install());
}

}  // namespace

void BindCapture(nb::module_& m) {
  m.def("init_capture", &InitCapture, nb::arg("torch_dir"),
        nb::arg("mica_dir"));
  PyObject* type = MakeCompiledType();
  if (type == nullptr) throw nb::python_error();
  m.attr("Compiled") = nb::steal(type);
}

}  // namespace mica
