// What the process does when, recorded.

#include <nanobind/stl/string.h>

#include <string>

#include "framework/trace/recorder.h"
#include "python/bridge/bindings.h"
#include "python/bridge/status.h"

namespace mica {

namespace nb = nanobind;

void BindTrace(nb::module_& m) {
  m.def("start_trace", [] { ThrowIfError(StartTrace()); });
  m.def(
      "stop_trace",
      [](const std::string& path) { ThrowIfError(StopTraceInto(path)); },
      nb::arg("path"));
}

}  // namespace mica
