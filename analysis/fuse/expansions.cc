#include "analysis/fuse/expansions.h"

#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "analysis/passes/dead_ops.h"
#include "analysis/passes/program_facts.h"
#include "analysis/passes/rewrite.h"
#include "framework/base/status.h"

namespace mica {
namespace {

// Operators that broadcast their two tensors against each other.
constexpr absl::string_view kBroadcasting[] = {
    "aten.add.Tensor", "aten.sub.Tensor", "aten.mul.Tensor", "aten.div.Tensor"};

class Delayer {
 public:
  Delayer(const Program& program, const OpRegistry& ops)
      : program_(program),
        facts_(program),
        single_of_(program.num_values(), kNoValue),
        rewriter_(program, ops) {}

  bool HasChanges() const;
  absl::StatusOr<Program> Run();

 private:
  bool IsExpansion(const Op& op) const;
  // The op's tensors, of which it makes one of their dtype; none if it does
  // anything else.
  std::vector<ValueId> TensorsOf(const Op& op) const;
  // Only elementwise ops read the value, and none that looks at strides.
  bool MayBeExpanded(ValueId value) const;
  absl::Status Emit(const Op& op);
  // The op on single elements, with results of these types.
  absl::StatusOr<ValueId> EmitSingle(const Op& op, TensorType type);

  const Program& program_;
  const ProgramFacts facts_;
  // By old value that is expanded from a tensor without dims: that, new.
  std::vector<ValueId> single_of_;
  Rewriter rewriter_;
};

bool Delayer::IsExpansion(const Op& op) const {
  return op.def->name() == "aten.expand" &&
         program_.type(ProgramFacts::ValueOf(op, 0)).rank() == 0;
}

bool Delayer::HasChanges() const {
  return absl::c_any_of(program_.ops(), [&](const Op& op) {
    return IsExpansion(op) &&
           absl::c_any_of(facts_.ReadersOf(op.results[0]), [&](OpId id) {
             return !TensorsOf(facts_.op(id)).empty();
           });
  });
}

std::vector<ValueId> Delayer::TensorsOf(const Op& op) const {
  std::vector<ValueId> tensors;
  if (!op.def->is_elementwise() || op.def->is_opaque() ||
      op.results.size() != 1) {
    return tensors;
  }
  const DType dtype = program_.type(op.results[0]).dtype;
  bool is_one_type = true;
  ForEachValue(op.arguments, [&](ValueId id) {
    const TensorType& type = program_.type(id);
    if (type.is_scalar) return;
    is_one_type = is_one_type && type.dtype == dtype;
    tensors.push_back(id);
  });
  if (!is_one_type) tensors.clear();
  return tensors;
}

bool Delayer::MayBeExpanded(ValueId value) const {
  return facts_.MayChangeStrides(value) &&
         absl::c_all_of(facts_.ReadersOf(value), [&](OpId id) {
           return facts_.op(id).def->is_elementwise();
         });
}

absl::StatusOr<ValueId> Delayer::EmitSingle(const Op& op, TensorType type) {
  MICA_ASSIGN_OR_RETURN(const OpDef* def,
                        rewriter_.builder().FindOp(op.def->name()));
  Arguments arguments = op.arguments;
  RenameValues(arguments, [&](ValueId id) {
    return single_of_[id] != kNoValue ? single_of_[id] : rewriter_.NewId(id);
  });
  MICA_ASSIGN_OR_RETURN(auto results, rewriter_.builder().AddOp(
                                          {.def = def,
                                           .arguments = std::move(arguments),
                                           .types = {std::move(type)},
                                           .source = op.source}));
  return results[0];
}

absl::Status Delayer::Emit(const Op& op) {
  if (IsExpansion(op)) {
    single_of_[op.results[0]] = rewriter_.NewId(ProgramFacts::ValueOf(op, 0));
    return rewriter_.CopyOp(op);
  }
  const std::vector<ValueId> tensors = TensorsOf(op);
  const auto is_single = [&](ValueId id) { return single_of_[id] != kNoValue; };
  if (!absl::c_any_of(tensors, is_single)) return rewriter_.CopyOp(op);
  const ValueId result = op.results[0];
  const TensorType& type = program_.type(result);
  if (absl::c_all_of(tensors, is_single)) {
    if (!MayBeExpanded(result)) return rewriter_.CopyOp(op);
    MICA_ASSIGN_OR_RETURN(single_of_[result],
                          EmitSingle(op, {.dtype = type.dtype}));
    MICA_ASSIGN_OR_RETURN(
        ValueId expanded,
        rewriter_.builder().Add(
            "aten.expand",
            {ValueRef{single_of_[result]},
             std::vector<int64_t>(type.dims.begin(), type.dims.end())},
            op.source));
    rewriter_.Map(result, expanded);
    return absl::OkStatus();
  }
  // The other tensor has all dims of the result.
  const bool has_dims = absl::c_any_of(tensors, [&](ValueId id) {
    return !is_single(id) && program_.type(id).dims == type.dims;
  });
  if (!has_dims || !absl::c_linear_search(kBroadcasting, op.def->name())) {
    return rewriter_.CopyOp(op);
  }
  MICA_ASSIGN_OR_RETURN(ValueId value, EmitSingle(op, type));
  rewriter_.Map(result, value);
  return absl::OkStatus();
}

absl::StatusOr<Program> Delayer::Run() {
  MICA_RETURN_IF_ERROR(rewriter_.CopyDeclarations());
  for (const Op& op : program_.ops()) {
    const absl::Status status = Emit(op);
    if (!status.ok()) return Annotate(status, Describe(op));
  }
  return rewriter_.Finish();
}

}  // namespace

absl::StatusOr<Program> DelayExpansions(Program program,
                                        const OpRegistry& ops) {
  Delayer delayer(program, ops);
  if (!delayer.HasChanges()) return program;
  MICA_ASSIGN_OR_RETURN(Program delayed, delayer.Run());
  return RemoveDeadOps(std::move(delayed), ops);
}

}  // namespace mica
