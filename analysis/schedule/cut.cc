#include "analysis/schedule/cut.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "analysis/rewrite.h"
#include "analysis/schedule/stage_map.h"
#include "framework/base/status.h"

namespace mica {
namespace {

std::string SumName(const std::string& variable) {
  return absl::StrCat("sum of gradients: ", variable);
}

// What one class of Jobs runs.
struct Piece {
  JobClass jobs;
  std::set<OpId> ops;  // In the Program's order.
  // Values that it reads and doesn't make; those in `sums` are gradients of
  // which it reads the sum.
  std::set<ValueId> reads;
  std::set<ValueId> sums;
  std::vector<ValueId> returns;
  std::vector<Update> updates;
  std::vector<ValueId> gradients;  // That it adds to their sums.
  double cost = 0;
};

class Cutter {
 public:
  Cutter(const Program& program, const StageMap& map, bool is_split,
         int num_stages, const OpRegistry& registry)
      : program_(program), map_(map), registry_(registry) {
    std::vector<JobType> types = {JobType::kForward};
    if (!map.gradients().empty()) {
      if (is_split) {
        types.insert(types.end(),
                     {JobType::kBackwardInput, JobType::kBackwardWeight});
      } else {
        types.push_back(JobType::kBackward);
      }
      types.push_back(JobType::kUpdate);
    }
    for (int stage = 0; stage < num_stages; ++stage) {
      for (JobType type : types) pieces_.push_back({.jobs = {type, stage}});
    }
    for (const Variable& variable : program.variables()) {
      names_[variable.value] = variable.name;
    }
  }

  absl::StatusOr<CutProgram> Cut() {
    Distribute();
    MICA_RETURN_IF_ERROR(DistributeUpdates());
    for (Piece& piece : pieces_) Complete(piece);
    CutProgram result;
    MICA_RETURN_IF_ERROR(AddReturns(result));
    for (const Piece& piece : pieces_) {
      auto program = Make(piece);
      if (!program.ok()) {
        return Annotate(program.status(),
                        absl::StrCat(ToString(piece.jobs.type), "(",
                                     piece.jobs.stage, ")"));
      }
      result.stages.push_back({.jobs = piece.jobs,
                               .program = *std::move(program),
                               .cost = piece.cost});
    }
    return result;
  }

 private:
  Piece& Find(const JobClass& jobs) {
    return *absl::c_find_if(
        pieces_, [&](const Piece& piece) { return piece.jobs == jobs; });
  }

  void Distribute() {
    for (OpId op = 0; op < static_cast<OpId>(program_.ops().size()); ++op) {
      if (!map_.op_class(op).has_value()) continue;
      Piece& piece = Find(*map_.op_class(op));
      piece.ops.insert(op);
      piece.cost += EstimateCost(program_, program_.ops()[op]);
    }
    for (const auto& [gradient, variable] : map_.gradients()) {
      Find(map_.SummingClass(variable)).gradients.push_back(gradient);
    }
    for (Piece& piece : pieces_) absl::c_sort(piece.gradients);
  }

  absl::Status DistributeUpdates() {
    for (size_t i = 0; i < program_.updates().size(); ++i) {
      const Update& update = program_.updates()[i];
      const std::string& name = program_.value(update.target).name;
      if (program_.value(update.target).kind != ValueKind::kVariable) {
        return absl::InvalidArgumentError(
            absl::StrCat("%", name, ": an input can't be updated"));
      }
      const std::optional<int> stage = map_.update_stage(static_cast<int>(i));
      if (stage.has_value()) {
        Find({JobType::kUpdate, *stage}).updates.push_back(update);
        continue;
      }
      const Value& value = program_.value(update.value);
      if (value.kind != ValueKind::kResult) {
        return absl::InvalidArgumentError(
            absl::StrCat("%", name, ": its update is of no op's result"));
      }
      Find(*map_.op_class(value.index)).updates.push_back(update);
    }
    return absl::OkStatus();
  }

  // Finds what the piece reads; adds views, and an update's own ops.
  void Complete(Piece& piece) {
    std::vector<OpId> todo(piece.ops.begin(), piece.ops.end());
    const auto need = [&](ValueId id) { Need(piece, id, todo); };
    for (const Update& update : piece.updates) need(update.value);
    for (ValueId gradient : piece.gradients) need(gradient);
    while (!todo.empty()) {
      const OpId op = todo.back();
      todo.pop_back();
      ForEachValue(program_.ops()[op].arguments, need);
    }
  }

  void Need(Piece& piece, ValueId id, std::vector<OpId>& todo) {
    const Value& value = program_.value(id);
    const bool is_update = piece.jobs.type == JobType::kUpdate;
    if (is_update && map_.gradients().contains(id)) {
      piece.sums.insert(id);
      return;
    }
    if (value.kind == ValueKind::kResult) {
      if (piece.ops.contains(value.index)) return;
      const OpDef& def = *program_.ops()[value.index].def;
      if (is_update || (def.is_view() && !def.has_effect())) {
        piece.ops.insert(value.index);
        todo.push_back(value.index);
        return;
      }
    }
    piece.reads.insert(id);
  }

  absl::Status AddReturns(CutProgram& result) {
    std::set<ValueId> returned;
    for (const Piece& piece : pieces_) {
      for (ValueId id : piece.reads) {
        if (program_.value(id).kind == ValueKind::kResult) returned.insert(id);
      }
    }
    for (ValueId id : program_.outputs()) {
      const Value& value = program_.value(id);
      if (value.kind != ValueKind::kResult) {
        return absl::InvalidArgumentError(
            absl::StrCat("returns %", value.name, ", which no op computes"));
      }
      returned.insert(id);
      if (absl::c_linear_search(result.fetches, value.name)) continue;
      result.fetches.push_back(value.name);
    }
    for (ValueId id : returned) {
      Find(*map_.op_class(program_.value(id).index)).returns.push_back(id);
    }
    for (const Variable& variable : program_.variables()) {
      for (const auto& [gradient, of_variable] : map_.gradients()) {
        if (of_variable != variable.value) continue;
        result.accumulators.push_back(SumName(variable.name));
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Program> Make(const Piece& piece) {
    Rewriter rewriter(program_, registry_);
    ProgramBuilder& builder = rewriter.builder();
    for (const OpDef* def : program_.OpaqueDefs()) {
      MICA_RETURN_IF_ERROR(builder.DeclareOpaque(def->schema()));
    }
    for (ValueId id : Declared(piece)) {
      MICA_ASSIGN_OR_RETURN(const ValueId made, Declare(builder, id));
      rewriter.Map(id, made);
    }
    for (ValueId gradient : piece.sums) {
      MICA_ASSIGN_OR_RETURN(const ValueId sum, DeclareSum(builder, gradient));
      rewriter.Map(gradient, sum);
    }
    for (OpId op : piece.ops) {
      MICA_RETURN_IF_ERROR(rewriter.CopyOp(program_.ops()[op]));
    }
    for (const Update& update : piece.updates) {
      MICA_RETURN_IF_ERROR(builder.AddUpdate(rewriter.NewId(update.target),
                                             rewriter.NewId(update.value)));
    }
    for (ValueId gradient : piece.gradients) {
      MICA_ASSIGN_OR_RETURN(const ValueId sum, DeclareSum(builder, gradient));
      MICA_ASSIGN_OR_RETURN(const OpDef* add,
                            builder.FindOp("aten.add.Tensor"));
      ProgramBuilder::OpSpec spec = {
          .def = add,
          .arguments = {ValueRef{sum}, ValueRef{rewriter.NewId(gradient)}},
          .types = {builder.type(sum)}};
      MICA_ASSIGN_OR_RETURN(const auto results, builder.AddOp(std::move(spec)));
      MICA_RETURN_IF_ERROR(builder.AddUpdate(sum, results[0]));
    }
    std::vector<ValueId> outputs;
    for (ValueId id : piece.returns) outputs.push_back(rewriter.NewId(id));
    return builder.Build(outputs);
  }

  // What a piece reads or writes without making it, in the Program's order.
  std::set<ValueId> Declared(const Piece& piece) const {
    std::set<ValueId> ids = piece.reads;
    for (const Update& update : piece.updates) ids.insert(update.target);
    return ids;
  }

  absl::StatusOr<ValueId> Declare(ProgramBuilder& builder, ValueId id) const {
    const Value& value = program_.value(id);
    switch (value.kind) {
      case ValueKind::kVariable:
        return builder.AddVariable(value.name, names_.at(id), value.type);
      case ValueKind::kConstant:
        return builder.AddConstant(value.name, value.type,
                                   program_.constants()[value.index].bytes);
      case ValueKind::kInput:
      case ValueKind::kResult:
        return builder.AddInput(value.name, value.type);
    }
    return kNoValue;
  }

  absl::StatusOr<ValueId> DeclareSum(ProgramBuilder& builder,
                                     ValueId gradient) const {
    const Value& value = program_.value(gradient);
    TensorType type = value.type;
    if (!type.is_dense()) type.strides.clear();
    return builder.AddVariable(
        absl::StrCat("sum of ", value.name),
        SumName(names_.at(map_.gradients().at(gradient))), type);
  }

  const Program& program_;
  const StageMap& map_;
  const OpRegistry& registry_;
  std::vector<Piece> pieces_;
  absl::flat_hash_map<ValueId, std::string> names_;  // Of variables.
};

}  // namespace

double EstimateCost(const Program& program, const Op& op) {
  if (op.def->is_view()) return 0;
  double written = 0;
  for (ValueId id : op.results) {
    written += static_cast<double>(program.type(id).num_elements());
  }
  double read = 0;
  double largest = 0;
  double second = 0;
  ForEachValue(op.arguments, [&](ValueId id) {
    auto elements = static_cast<double>(program.type(id).num_elements());
    read += elements;
    if (elements > largest) std::swap(elements, largest);
    second = std::max(second, elements);
  });
  const double moved = read + written;
  if (op.def->is_elementwise() || second == 0) return moved;
  return std::max(moved, std::sqrt(largest * second * written));
}

absl::StatusOr<CutProgram> CutIntoStages(const Program& program,
                                         const CutOptions& options,
                                         const OpRegistry& registry) {
  if (!program.is_static()) {
    return absl::InvalidArgumentError(
        absl::StrCat("program @", program.name(), " has symbols"));
  }
  MICA_ASSIGN_OR_RETURN(const StageMap map, StageMap::Build(program, options));
  return Cutter(program, map, options.split_backward, options.num_stages,
                registry)
      .Cut();
}

}  // namespace mica
