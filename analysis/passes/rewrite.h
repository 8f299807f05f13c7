// Passes make a new Program from an old one with a Rewriter.

#ifndef MICA_ANALYSIS_PASSES_REWRITE_H_
#define MICA_ANALYSIS_PASSES_REWRITE_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "framework/base/large_vector.h"
#include "framework/ir/program.h"
#include "framework/ir/program_builder.h"
#include "framework/op/op_registry.h"

namespace mica {

// Copies a Program op by op into a builder; a pass leaves out, replaces and
// adds ops on the way. Names of values, sources and types are kept.
// Single-thread; `from` and `registry`, that of its ops, must outlive it.
class Rewriter {
 public:
  Rewriter(const Program& from, const OpRegistry& registry);

  // Copies only these inputs, in this order. Call it before the declarations.
  void set_inputs(std::vector<ValueId> inputs) { inputs_ = std::move(inputs); }
  // The types that the inputs have in the new Program, one for each. Call it
  // before the declarations, and after set_inputs().
  void set_input_types(std::vector<TensorType> types) {
    input_types_ = std::move(types);
  }
  // There will be so many ops of one result more than the old Program has. Call
  // it before the declarations.
  void ReserveMoreOps(size_t count) { more_ops_ = count; }
  // Copies inputs, variables, constants and declarations. Call it first: until
  // then a Rewriter takes no time, whether or not there is anything to do.
  absl::Status CopyDeclarations();
  // For who declares what he wants by himself, and calls it first then.
  void Begin();
  // Copies one op with its results.
  absl::Status CopyOp(const Op& op);
  // The same with other bodies, of the same types.
  absl::Status CopyOp(const Op& op, Bodies bodies);
  // Copies updates and returns, then builds.
  absl::StatusOr<Program> Finish();

  // From here on `from_value` of the old Program means `to_value` of the new.
  void Map(ValueId from_value, ValueId to_value) {
    new_ids_[from_value] = to_value;
    is_as_before_[from_value] =
        builder_.type(to_value) == from_.type(from_value);
  }
  // The new value that stands for the old one; kNoValue if none does yet.
  ValueId NewId(ValueId from_value) const { return new_ids_[from_value]; }
  ProgramBuilder& builder() { return builder_; }
  const ProgramBuilder& builder() const { return builder_; }

  // Applied to each type and each list of integers that is copied.
  void set_dim_map(std::function<Dim(Dim)> map) { dim_map_ = std::move(map); }
  // Applied to the name of each variable that is copied.
  void set_variable_names(std::function<std::string(const std::string&)> map) {
    variable_names_ = std::move(map);
  }
  // Replaces what the Program returns; ids are of the old Program.
  void set_outputs(absl::Span<const ValueId> outputs) {
    outputs_.assign(outputs.begin(), outputs.end());
  }

 private:
  TensorType MapType(TensorType type) const;
  absl::StatusOr<Program> MapDims(const Program& body) const;
  // The operator in the new Program.
  absl::StatusOr<const OpDef*> FindOp(const OpDef* def);
  // Copies an op whose operands have the types that they had.
  absl::Status CopyOpAsBefore(const Op& op);

  const Program& from_;
  const OpRegistry& registry_;
  ProgramBuilder builder_;
  size_t more_ops_ = 0;
  std::vector<ValueId> new_ids_;
  std::vector<ValueId> inputs_;
  std::vector<TensorType> input_types_;  // Empty: as they were.
  std::vector<bool> is_as_before_;  // By old value: the new type is the old.
  absl::flat_hash_map<const OpDef*, const OpDef*> defs_;
  std::vector<ValueId> outputs_;
  std::function<Dim(Dim)> dim_map_;
  // By dim_map_: what bodies are then, so that functions stay shared.
  using MappedBodies =
      absl::flat_hash_map<const Program*, std::shared_ptr<const Program>>;
  std::shared_ptr<MappedBodies> mapped_ = std::make_shared<MappedBodies>();
  std::function<std::string(const std::string&)> variable_names_;
};

// The values among an op's arguments, in order.
std::vector<ValueId> OperandsOf(const Op& op);

// How many ops, updates and returns read each value.
std::vector<int> CountUses(const Program& program);

// The same and more of what one look at each op tells: in a large Program that
// is what an analysis of little work takes long for.
struct Reads {
  LargeVector<int> uses;      // CountUses().
  LargeVector<OpId> last_op;  // By value: the last op that reads it; -1.
  LargeVector<OpId> views;    // In order.
  // Of a Program without bodies: RemoveDeadOps() would leave some out.
  bool has_dead_ops = false;
};
Reads FindReads(const Program& program);

// The same Program with other names for its variables; those that `names`
// doesn't tell keep theirs. InvalidArgument if two then have one name.
absl::StatusOr<Program> RenameVariables(
    const Program& program,
    const absl::flat_hash_map<std::string, std::string>& names,
    const OpRegistry& registry);

// The static Program that `sizes` makes of a symbolic one. InvalidArgument if
// a symbol has no size, or naming the op whose types then don't fit.
absl::StatusOr<Program> Specialise(
    const Program& program,
    const absl::flat_hash_map<std::string, int64_t>& sizes,
    const OpRegistry& registry);

// The same where some symbols may stay: those that `sizes` doesn't tell.
absl::StatusOr<Program> SpecialiseKnown(
    const Program& program,
    const absl::flat_hash_map<std::string, int64_t>& sizes,
    const OpRegistry& registry);

}  // namespace mica

#endif  // MICA_ANALYSIS_PASSES_REWRITE_H_
