// The extension module mica._mica.

#include <nanobind/nanobind.h>

#include "python/bridge/bindings.h"

NB_MODULE(_mica, m) {
  m.doc() = "The native part of mica. Import mica instead.";
  mica::BindProgram(m);
  mica::BindSaved(m);
  mica::BindExecutor(m);
  mica::BindSchedule(m);
  mica::BindPipeline(m);
  mica::BindCache(m);
  mica::BindCapture(m);
  mica::BindTrace(m);
}
