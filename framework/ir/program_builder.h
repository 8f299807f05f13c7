// Makes a Program from nothing.

#ifndef MICA_FRAMEWORK_IR_PROGRAM_BUILDER_H_
#define MICA_FRAMEWORK_IR_PROGRAM_BUILDER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/ir/program.h"
#include "framework/op/op_registry.h"

namespace mica {

// Appends values and ops in execution order and checks each as it comes, so
// that what Build() returns is well-typed and acyclic. Single-thread. After an
// error the builder is to be thrown away.
//
// A value's name may be empty: it gets a number then.
class ProgramBuilder {
 public:
  // `registry` must outlive the builder and the Program.
  explicit ProgramBuilder(const OpRegistry& registry, absl::string_view name);

  // Room for about so many, so that large Programs aren't moved as they grow.
  void Reserve(size_t num_values, size_t num_ops);

  absl::StatusOr<ValueId> AddInput(absl::string_view name, TensorType type);
  absl::StatusOr<ValueId> AddVariable(absl::string_view name,
                                      absl::string_view variable_name,
                                      TensorType type);
  // `bytes` are the elements in row-major order.
  absl::StatusOr<ValueId> AddConstant(absl::string_view name, TensorType type,
                                      std::vector<uint8_t> bytes);
  // Declares an operator that only its schema is known of.
  absl::Status DeclareOpaque(Schema schema);

  // The registered operator or the declared opaque one; NotFound otherwise.
  absl::StatusOr<const OpDef*> FindOp(absl::string_view name) const;

  // How results get their types: `types` empty infers them. Given types must
  // agree with inference in dtype and dims; strides are the caller's to
  // choose, but for views. Opaque operators need them.
  struct OpSpec {
    const OpDef* def = nullptr;
    Arguments arguments;  // Trailing defaults may be left out.
    std::vector<TensorType> types = {};
    std::vector<std::string> names = {};
    SourceLine source = {};
    Bodies bodies = {};
  };
  absl::StatusOr<absl::InlinedVector<ValueId, 1>> AddOp(OpSpec spec);
  // Appends a copy of an op of `from`, a Program of the same operators, with
  // these arguments in place of its own: for a pass that changes nothing of it.
  // Its operands must have the types of those in `from`; then results do, and
  // nothing is inferred again.
  absl::StatusOr<absl::InlinedVector<ValueId, 1>> CopyOp(const Program& from,
                                                         const Op& op,
                                                         const OpDef* def,
                                                         Arguments arguments);
  // Appends a copy of a variable of `from`, of the same name and type. Who
  // copies all of them, in order, to the same numbers of values, copies none:
  // both Programs have one list.
  absl::StatusOr<ValueId> CopyVariable(const Program& from,
                                       const Variable& variable);
  // Appends what op number `like` is of other operands, in their order, whose
  // types have to be those of its own: then nothing needs to be checked again.
  // False, and nothing is appended, if one isn't, or a name is taken or empty.
  bool AddOpLike(OpId like, absl::Span<const ValueId> operands,
                 absl::Span<const absl::string_view> names);
  // The single result of an op with inferred type.
  absl::StatusOr<ValueId> Add(absl::string_view op, Arguments arguments,
                              SourceLine source = {});

  // `target` must be an input or a variable of the type of `value`, updated
  // once at most.
  absl::Status AddUpdate(ValueId target, ValueId value);

  const TensorType& type(ValueId id) const { return program_.type(id); }
  const Value& value(ValueId id) const { return program_.value(id); }
  int num_values() const { return program_.num_values(); }
  ValueId FindValue(absl::string_view name) const {
    return program_.FindValue(name);
  }
  // Of those added by now; kNoValue if there is none of this name.
  ValueId FindVariable(absl::string_view name) const;
  absl::Span<const Op> ops() const { return program_.ops(); }
  // From now on no number given as a name is the name of a value of `other`:
  // for a pass that copies `other` and adds values of its own on the way.
  void AvoidNumbersOf(const Program& other);
  // A shared copy of the name of a file or scope, for SourceLine.
  std::shared_ptr<const std::string> InternName(absl::string_view name);

  // The Program that returns `outputs`. The builder is empty afterwards.
  absl::StatusOr<Program> Build(absl::Span<const ValueId> outputs);
  // A body of a branch or a loop: some outputs may be kNoValue.
  absl::StatusOr<Program> BuildBody(absl::Span<const ValueId> outputs);

 private:
  absl::StatusOr<ValueId> AddValue(absl::string_view name, TensorType type,
                                   ValueKind kind, int index, int result = 0);
  // What AddValue() does with a name and a type, one of the Program's own, that
  // are known to be right.
  absl::StatusOr<ValueId> AppendValue(std::string name, const TensorType* type,
                                      ValueKind kind, int index, int result);
  // The Program's own for a type of `from`.
  const TensorType* OwnType(const Program& from, const TensorType* type);
  // Appends an op whose results are yet to come.
  Op& AppendOp(Op op);
  absl::Status CheckValueId(ValueId id) const;
  int num_variables() const {
    return num_shared_variables_ + static_cast<int>(variables_.size());
  }
  // Copies what CopyVariable() hasn't, before there are others.
  void OwnVariables();
  // The list of them, for the Program.
  std::shared_ptr<const std::vector<Variable>> TakeVariables();

  const OpRegistry& registry_;
  Program program_;
  absl::flat_hash_map<std::string, std::shared_ptr<const OpDef>> opaque_;
  absl::flat_hash_map<std::string, std::shared_ptr<const std::string>> names_;
  // The Program's are the first `num_shared_variables_` of another's, or, if
  // that is 0, its own.
  std::shared_ptr<const std::vector<Variable>> shared_variables_;
  int num_shared_variables_ = 0;
  std::vector<Variable> variables_;
  // But those copied last.
  absl::flat_hash_map<std::string, ValueId> variables_by_name_;
  // By type of the Program copied from last, whose types these are.
  absl::flat_hash_map<const TensorType*, const TensorType*> own_types_;
  std::shared_ptr<const TypeTable> types_copied_;
  std::vector<bool> is_updated_;  // By value, to the last that is.
  int64_t next_number_ = 0;
};

}  // namespace mica

#endif  // MICA_FRAMEWORK_IR_PROGRAM_BUILDER_H_
