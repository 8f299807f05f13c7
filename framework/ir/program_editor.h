// Changes what a Program says without changing what it is made of.

#ifndef MICA_FRAMEWORK_IR_PROGRAM_EDITOR_H_
#define MICA_FRAMEWORK_IR_PROGRAM_EDITOR_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
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
  // Editors of the op's bodies, in order; copies of what others may share. All
  // calls of a function have one, whatever block they are in.
  absl::Span<ProgramEditor> bodies(OpId op);

  // Gives it other bodies, with inputs and results of the same types. Those
  // have no editors.
  void SetBodies(OpId op, Bodies bodies) {
    program_.body_.ops[op].bodies = std::move(bodies);
  }

  // Calls `visit` for each op, of this block and of bodies, in the order of
  // flat ids (ForEachOp(const Program&, …)).
  void ForEachOp(absl::FunctionRef<void(ProgramEditor& block, OpId op)> visit);
  // Calls `visit` for this block and each body, once.
  void ForEachBlock(absl::FunctionRef<void(ProgramEditor& block)> visit);

  // Gives each value the type that `map` makes of its own: one with other
  // sizes. Bodies aren't looked into.
  void MapTypes(absl::FunctionRef<TensorType(TensorType)> map);
  // InvalidArgument unless there are as many bytes as its type, by now, has.
  absl::Status SetConstant(int index, std::vector<uint8_t> bytes);

  // The Program as it was changed, bodies too. The editor is empty afterwards.
  Program Freeze();

 private:
  // Functions by what they were, and what they are once they are frozen.
  struct Function {
    std::shared_ptr<const Program> was;
    std::vector<ProgramEditor> editor;  // One.
    std::shared_ptr<const Program> is;
  };
  using Functions =
      absl::flat_hash_map<const Program*, std::unique_ptr<Function>>;

  ProgramEditor(Program program, Functions* functions);
  void ForEachOp(absl::FunctionRef<void(ProgramEditor& block, OpId op)> visit,
                 absl::flat_hash_set<const ProgramEditor*>& seen);

  Program program_;
  absl::flat_hash_map<OpId, std::vector<ProgramEditor>> bodies_;
  std::unique_ptr<Functions> own_functions_;  // Of the outermost Program.
  Functions* functions_;  // Its own: editors of bodies don't keep them alive.
};

}  // namespace mica

#endif  // MICA_FRAMEWORK_IR_PROGRAM_EDITOR_H_
