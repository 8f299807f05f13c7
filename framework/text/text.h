// The text form of Programs: the one file format for graphs.
//
//   program @mlp(%x: f32[32,784]) {
//     %w = variable "fc.weight" : f32[784,10]
//     %h = aten.mm(%x, %w) : f32[32,10] @ "model.py":12
//     %y = aten.relu(%h) : f32[32,10]
//     return %y
//   }
//
// Functions that it calls stand before it, each behind those that it calls.

#ifndef MICA_FRAMEWORK_TEXT_TEXT_H_
#define MICA_FRAMEWORK_TEXT_TEXT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/ir/program.h"
#include "framework/op/op_registry.h"

namespace mica {

struct TextOptions {
  bool print_sources = true;  // The user's file and line behind each op.
};

// Text that ParseProgram() reads back to an equal Program.
std::string ToText(const Program& program, const TextOptions& options = {});

// Reads a Program and checks all of it: names defined once and before use,
// operators known, arguments and types as inference says, sizes legal.
// InvalidArgument or NotFound name line and column of the text, the op, what
// was wanted and what came. Safe on any bytes.
absl::StatusOr<Program> ParseProgram(absl::string_view text,
                                     const OpRegistry& registry);

}  // namespace mica

#endif  // MICA_FRAMEWORK_TEXT_TEXT_H_
