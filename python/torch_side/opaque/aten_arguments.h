// An op's arguments as ATen's operator takes them.

#ifndef MICA_PYTHON_TORCH_SIDE_OPAQUE_ATEN_ARGUMENTS_H_
#define MICA_PYTHON_TORCH_SIDE_OPAQUE_ATEN_ARGUMENTS_H_

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "framework/ir/argument.h"
#include "framework/op/schema.h"

namespace mica {

// One parameter of a prepared call.
struct AtenParam {
  c10::IValue constant;  // Used if num_values is 0 and it is no list.
  bool is_list = false;
  bool is_scalar = false;  // Takes a number, not a tensor.
  bool is_mutated = false;
  bool has_optional_elements = false;
  std::vector<bool> is_present;  // Of a list's entries.
  int num_values = 0;
  std::optional<int64_t> generator;  // One of torch's, by number.
};

// Throws what ATen throws of a constant that its type can't take.
AtenParam MakeAtenParam(const Param& param, const c10::Argument& aten,
                        const Argument& argument);

}  // namespace mica

#endif  // MICA_PYTHON_TORCH_SIDE_OPAQUE_ATEN_ARGUMENTS_H_
