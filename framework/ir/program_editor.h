// Changes what a Program says without changing what it is made of.

#ifndef MICA_FRAMEWORK_IR_PROGRAM_EDITOR_H_
#define MICA_FRAMEWORK_IR_PROGRAM_EDITOR_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "framework/ir/program.h"

namespace mica {

// Holds a private copy of a Program while its lines, sizes, arguments or
// constants change, and freezes it again. Ops, values and how they are wired
// stay: who changes those makes a new Program (ProgramBuilder, or
// analysis/rewrite.h). Whether ops still have the types that follow from their
// operands is the caller's to check. Single-thread.
class ProgramEditor {
 public:
  explicit ProgramEditor(Program program);

  // As it is by now; bodies are as they were given.
  const Program& program() const { return program_; }
  OpId num_ops() const { return static_cast<OpId>(program_.body_.ops.size()); }
  SourceLine& source(OpId op) { return program_.body_.ops[op].source; }
  // Only numbers, words and the like may change, no value.
  Arguments& arguments(OpId op) { return program_.body_.ops[op].arguments; }
  // Editors of the op's bodies, in order; copies of what others may share.
  absl::Span<ProgramEditor> bodies(OpId op);

  // Gives each value the type that `map` makes of its own: one with other
  // sizes. Bodies aren't looked into.
  void MapTypes(absl::FunctionRef<TensorType(TensorType)> map);
  // InvalidArgument unless there are as many bytes as its type, by now, has.
  absl::Status SetConstant(int index, std::vector<uint8_t> bytes);

  // The Program as it was changed, bodies too. The editor is empty afterwards.
  Program Freeze();

 private:
  Program program_;
  absl::flat_hash_map<OpId, std::vector<ProgramEditor>> bodies_;
};

}  // namespace mica

#endif  // MICA_FRAMEWORK_IR_PROGRAM_EDITOR_H_
