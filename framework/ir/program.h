// The static graph: ops in SSA form over typed values.

#ifndef MICA_FRAMEWORK_IR_PROGRAM_H_
#define MICA_FRAMEWORK_IR_PROGRAM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/base/large_vector.h"
#include "framework/ir/argument.h"
#include "framework/ir/name_index.h"
#include "framework/op/op_def.h"
#include "framework/tensor/tensor_type.h"
#include "framework/tensor/type_table.h"

namespace mica {

// An Op's index in its Block, which is also the order of execution.
using OpId = int32_t;

// Where in the user's program an op comes from. Line 0 means unknown.
struct SourceLine {
  std::shared_ptr<const std::string> file;
  int32_t line = 0;
  // Autograd ran it: it is part of the gradients of what `scope` computed.
  bool is_backward = false;
  // The innermost module that ran it, "encoder.layer.3"; null if none did. A
  // hint where to place an op, no part of what it means.
  std::shared_ptr<const std::string> scope = nullptr;
  // While passes rewrite a Program, and afterwards: the flat id (ForEachOp) of
  // the op of the Program that the first pass got. -1 for none. Passes carry it
  // along with the line, so each op keeps the op that it comes from.
  OpId origin = -1;
  // Of a call of a function that a pass has found, which has the origins of its
  // first copy: what leads from these to the origins of this copy.
  OpId origin_shift = 0;
  // "model.py:12", or "" if unknown.
  std::string ToString() const;
  friend bool operator==(const SourceLine& a, const SourceLine& b) {
    return a.ToString() == b.ToString();
  }
};

enum class ValueKind : uint8_t { kInput, kVariable, kConstant, kResult };

// What is computed with: an input, a variable, a constant or an op's result.
struct Value {
  std::string name;                  // Without the "%"; unique in its Program.
  const TensorType* type = nullptr;  // Its Program's.
  ValueKind kind = ValueKind::kResult;
  int32_t index = 0;   // Of the input, variable or constant, or of the Op.
  int32_t result = 0;  // Which of the Op's results.
};

class Program;

// What a branch or a loop runs: Programs of their own, without variables and
// updates, that see nothing of the one around them. What they use of it, they
// get as inputs.
using Bodies = std::vector<std::shared_ptr<const Program>>;

// One application of an operator.
struct Op {
  const OpDef* def = nullptr;
  Arguments arguments;  // As many as the schema has parameters.
  absl::InlinedVector<ValueId, 1> results;
  SourceLine source;
  Bodies bodies;  // As many as BodyNames() has for the operator.
};

// A sequence of Ops with the values that it gives.
struct Block {
  LargeVector<Op> ops;
  std::vector<ValueId> returns;
};

// State that outlives a run, by name: a parameter, a buffer.
struct Variable {
  std::string name;  // As the user knows it, "encoder.layer.0.weight".
  ValueId value = kNoValue;
};

// Numbers that are part of the Program: row-major bytes of the value's type.
struct Constant {
  ValueId value = kNoValue;
  std::vector<uint8_t> bytes;
};

// At the end of a run `target`, an input or a variable, takes the elements of
// `value`. All updates happen after all ops; none happens if an op failed.
struct Update {
  ValueId target = kNoValue;
  ValueId value = kNoValue;
};

// A static graph. It holds no tensor bytes but small constants.
//
// Immutable once a ProgramBuilder has built it, or a ProgramEditor has frozen
// it, and thread-safe then. Refers to
// OpDefs of the OpRegistry it was built with, which must outlive it, and owns
// the definitions of its opaque operators.
class Program {
 public:
  const std::string& name() const { return name_; }
  absl::Span<const ValueId> inputs() const { return inputs_; }
  absl::Span<const Variable> variables() const {
    return variables_ == nullptr ? absl::Span<const Variable>() : *variables_;
  }
  absl::Span<const Constant> constants() const { return constants_; }
  const Block& body() const { return body_; }
  absl::Span<const Op> ops() const { return body_.ops; }
  absl::Span<const Update> updates() const { return updates_; }
  // Of a body some may be absent, kNoValue: nobody may read these.
  absl::Span<const ValueId> outputs() const { return body_.returns; }

  int num_values() const { return static_cast<int>(values_.size()); }
  absl::Span<const Value> values() const { return values_; }
  const Value& value(ValueId id) const { return values_[id]; }
  const TensorType& type(ValueId id) const { return *values_[id].type; }
  // kNoValue if no value has this name.
  ValueId FindValue(absl::string_view name) const;
  // Definitions of the opaque operators that occur, sorted by name.
  std::vector<const OpDef*> OpaqueDefs() const;
  // False if a type or an argument mentions a symbol, in bodies too.
  bool is_static() const { return is_static_; }
  // The first op whose result has as many rows as data decides
  // (OpDef::is_bounded); -1 if there is none. Bodies aren't looked into.
  OpId first_bounded_op() const { return first_bounded_op_; }
  // How deep bodies stand in bodies; 0 if no op has any.
  int depth() const { return depth_; }

 private:
  friend class ProgramBuilder;
  friend class ProgramEditor;
  std::string name_;
  // Shared by copies of the Program, whose values have the same types.
  std::shared_ptr<TypeTable> types_ = std::make_shared<TypeTable>();
  LargeVector<Value> values_;
  std::vector<ValueId> inputs_;
  // Shared by copies, and by Programs that passes make of it: of a large one
  // the names are what takes long to copy. Null if there are none.
  std::shared_ptr<const std::vector<Variable>> variables_;
  std::vector<Constant> constants_;
  Block body_;
  std::vector<Update> updates_;
  NameIndex values_by_name_;
  std::vector<std::shared_ptr<const OpDef>> opaque_defs_;
  int depth_ = 0;
  bool is_static_ = true;
  OpId first_bounded_op_ = -1;
};

// "aten.mm (model.py:12)": how errors name an op.
std::string Describe(const Op& op);

}  // namespace mica

#endif  // MICA_FRAMEWORK_IR_PROGRAM_H_
