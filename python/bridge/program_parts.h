// A Program taken apart for Python.

#ifndef MICA_PYTHON_BRIDGE_PROGRAM_PARTS_H_
#define MICA_PYTHON_BRIDGE_PROGRAM_PARTS_H_

#include <nanobind/nanobind.h>

#include "framework/ir/program.h"

namespace mica {

//   inputs     names of values
//   variables  (value, the user's name)
//   constants  (value, type, row-major bytes)
//   ops        dicts: op, arguments as (parameter, argument), results and their
//              types, hidden (parameters that ATen writes and doesn't return:
//              further results), is_view, is_opaque, num_bodies, line, scope,
//              is_backward
//   updates    (target, value)
//   outputs    names of values
//
// An argument that is a value is ("%", name), a dtype ("dtype", "f32").
nanobind::dict PartsOfProgram(const Program& program);

}  // namespace mica

#endif  // MICA_PYTHON_BRIDGE_PROGRAM_PARTS_H_
