// What each part of the extension module adds to it.

#ifndef MICA_PYTHON_BRIDGE_BINDINGS_H_
#define MICA_PYTHON_BRIDGE_BINDINGS_H_

#include <nanobind/nanobind.h>

#include <memory>

#include "framework/ir/program.h"

namespace mica {

// A Program that Python holds.
struct PyProgram {
  std::shared_ptr<const Program> program;
};

void BindProgram(nanobind::module_& m);
void BindSaved(nanobind::module_& m);
void BindExecutor(nanobind::module_& m);
void BindSchedule(nanobind::module_& m);
void BindPipeline(nanobind::module_& m);
void BindCache(nanobind::module_& m);
void BindCapture(nanobind::module_& m);
void BindTrace(nanobind::module_& m);

}  // namespace mica

#endif  // MICA_PYTHON_BRIDGE_BINDINGS_H_
