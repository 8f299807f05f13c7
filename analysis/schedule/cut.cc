#include "analysis/schedule/cut.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "analysis/cost/op_work.h"
#include "analysis/passes/rewrite.h"
#include "analysis/schedule/stage_map.h"
#include "framework/base/status.h"
#include "framework/ir/control_flow.h"
#include "framework/trace/recorder.h"

namespace mica {
namespace {

// A value that goes to a device.
using Message = std::pair<ValueId, int>;

std::string MessageName(const std::string& value, int device) {
  return absl::StrCat(value, " to ", device);
}

std::string SumName(const std::string& gradient) {
  return absl::StrCat("sum of ", gradient);
}

// What one class of Jobs runs.
struct Piece {
  JobClass jobs;
  absl::btree_set<OpId> ops;  // In the Program's order.
  // Values that it reads and doesn't make; those in `sums` are gradients of
  // which it reads the sum.
  absl::btree_set<ValueId> reads;
  absl::btree_set<ValueId> sums;
  absl::btree_set<ValueId> returns;
  absl::btree_set<Message> sends;
  absl::btree_set<ValueId> reduces;  // What updates read of its gradients.
  std::vector<Update> updates;
  std::vector<ValueId> gradients;  // That it adds to their sums.
  double cost = 0;
};

class Cutter {
 public:
  Cutter(const Program& program, const StageMap& map, const CutOptions& options,
         const OpRegistry& registry)
      : program_(program),
        map_(map),
        options_(options),
        registry_(registry),
        has_reduce_(options.reduce || map.needs_reduce()) {
    std::vector<JobType> types = {JobType::kForward};
    if (!map.gradients().empty()) {
      if (options.split_backward) {
        types.insert(types.end(),
                     {JobType::kBackwardInput, JobType::kBackwardWeight});
      } else {
        types.push_back(JobType::kBackward);
      }
      if (has_reduce_) types.push_back(JobType::kReduce);
      types.push_back(JobType::kUpdate);
    }
    for (int stage = 0; stage < options.num_stages; ++stage) {
      for (JobType type : types) {
        place_of_type_[type] = static_cast<int>(pieces_.size()) % types.size();
        pieces_.push_back({.jobs = {type, stage}});
      }
    }
    num_types_ = static_cast<int>(types.size());
    for (const Variable& variable : program.variables()) {
      names_[variable.value] = variable.name;
    }
    NameSums();
  }

  absl::StatusOr<CutProgram> Cut() {
    Distribute();
    MICA_RETURN_IF_ERROR(DistributeUpdates());
    DistributeOutputs();
    for (Piece& piece : pieces_) {
      if (piece.jobs.type != JobType::kReduce) Complete(piece);
    }
    // What these have to give is known when all updates are.
    for (Piece& piece : pieces_) {
      if (piece.jobs.type == JobType::kReduce) Complete(piece);
    }
    CutProgram result;
    MICA_RETURN_IF_ERROR(AddReturns(result));
    for (const Piece& piece : pieces_) {
      auto program = Make(piece);
      if (!program.ok()) {
        return Annotate(program.status(), Describe(piece.jobs));
      }
      result.stages.push_back({.jobs = piece.jobs,
                               .program = *std::move(program),
                               .cost = piece.cost});
    }
    return result;
  }

 private:
  // An update may read a gradient in two forms: as it is, and as a view.
  void NameSums() {
    for (const auto& [gradient, variable] : map_.gradients()) {
      sum_names_[gradient];  // In the Program's order, not the map's.
    }
    absl::flat_hash_map<ValueId, int> num_sums;
    for (auto& [gradient, name] : sum_names_) {
      const ValueId variable = map_.gradients().at(gradient);
      name = absl::StrCat("sum of gradients: ", names_.at(variable));
      if (const int number = ++num_sums[variable]; number > 1) {
        absl::StrAppend(&name, " (", number, ")");
      }
    }
  }

  Piece& Find(const JobClass& jobs) {
    return pieces_[jobs.stage * num_types_ + place_of_type_.at(jobs.type)];
  }

  void Distribute() {
    for (OpId op = 0; op < static_cast<OpId>(program_.ops().size()); ++op) {
      if (!map_.op_class(op).has_value()) continue;
      Piece& piece = Find(*map_.op_class(op));
      piece.ops.insert(op);
      piece.cost += StageCostOf(program_, program_.ops()[op]);
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

  // What is of all micro-batches is returned where it is reduced, or else by
  // the update of its stage; what is of several stages by the first one's.
  void DistributeOutputs() {
    for (ValueId id : program_.outputs()) {
      if (!map_.is_of_all_batches(id)) continue;
      const int stage = std::max(0, *map_.gradient_stage(id));
      const bool is_reduced = has_reduce_ && map_.is_joined(id);
      Piece& maker =
          Find({is_reduced ? JobType::kReduce : JobType::kUpdate, stage});
      maker.returns.insert(id);
    }
  }

  // Finds what the piece reads; adds views, and an update's own ops.
  void Complete(Piece& piece) {
    std::vector<OpId> todo(piece.ops.begin(), piece.ops.end());
    const auto need = [&](ValueId id) { Need(piece, id, todo); };
    for (const Update& update : piece.updates) need(update.value);
    for (ValueId gradient : piece.gradients) need(gradient);
    for (ValueId reduced : piece.reduces) need(reduced);
    for (ValueId output : piece.returns) need(output);
    while (!todo.empty()) {
      const OpId op = todo.back();
      todo.pop_back();
      ForEachValue(program_.ops()[op].arguments, need);
    }
  }

  // Lets an update read what is joined with what is of other stages from its
  // stage. False for anything else, for a sum of gradients on the update's own
  // device, and for what is of its own stage, unless that is a mere number: it
  // is computed again rather than kept.
  bool NeedReduced(Piece& piece, ValueId id) {
    if (piece.jobs.type != JobType::kUpdate || !has_reduce_ ||
        !map_.is_joined(id)) {
      return false;
    }
    Piece& maker = Find({JobType::kReduce, *map_.gradient_stage(id)});
    if (map_.gradients().contains(id) && DeviceOf(maker) == DeviceOf(piece)) {
      return false;
    }
    if (maker.jobs.stage == piece.jobs.stage &&
        program_.type(id).num_elements() > 1) {
      return false;
    }
    piece.reads.insert(id);
    maker.reduces.insert(id);
    return true;
  }

  void Need(Piece& piece, ValueId id, std::vector<OpId>& todo) {
    if (NeedReduced(piece, id)) return;
    const Value& value = program_.value(id);
    const bool is_late = IsForAllMicroBatches(piece.jobs.type);
    if (is_late && map_.gradients().contains(id)) {
      piece.sums.insert(id);
      return;
    }
    if (value.kind == ValueKind::kResult) {
      if (piece.ops.contains(value.index)) return;
      const OpDef& def = *program_.ops()[value.index].def;
      if (is_late || (def.is_view() && !def.has_effect())) {
        piece.ops.insert(value.index);
        todo.push_back(value.index);
        return;
      }
    }
    piece.reads.insert(id);
  }

  // That makes what `piece` reads, a result.
  Piece& MakerOf(const Piece& piece, ValueId id) {
    return IsForAllMicroBatches(piece.jobs.type)
               ? Find({JobType::kReduce, *map_.gradient_stage(id)})
               : Find(*map_.op_class(program_.value(id).index));
  }

  absl::Status AddReturns(CutProgram& result) {
    for (const Piece& piece : pieces_) {
      for (ValueId id : piece.reads) {
        if (program_.value(id).kind != ValueKind::kResult) continue;
        Piece& maker = MakerOf(piece, id);
        if (ArrivesFrom(piece, id).has_value()) {
          maker.sends.insert({id, DeviceOf(piece)});
        } else {
          maker.returns.insert(id);
        }
      }
    }
    for (ValueId id : program_.outputs()) {
      const Value& value = program_.value(id);
      if (value.kind != ValueKind::kResult) {
        return absl::InvalidArgumentError(
            absl::StrCat("returns %", value.name, ", which no op computes"));
      }
      if (!map_.is_of_all_batches(id)) {
        Find(*map_.op_class(value.index)).returns.insert(id);
      }
      if (absl::c_linear_search(result.fetches, value.name)) continue;
      result.fetches.push_back(value.name);
    }
    // In the variables' order, those of one in the order of its gradients.
    std::vector<std::pair<int, const std::string*>> sums;
    for (const auto& [gradient, name] : sum_names_) {
      const ValueId variable = map_.gradients().at(gradient);
      sums.emplace_back(program_.value(variable).index, &name);
    }
    absl::c_stable_sort(
        sums, [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& sum : sums) result.accumulators.push_back(*sum.second);
    return absl::OkStatus();
  }

  absl::StatusOr<Program> Make(const Piece& piece) {
    Rewriter rewriter(program_, registry_);
    rewriter.Begin();
    ProgramBuilder& builder = rewriter.builder();
    builder.Reserve(piece.reads.size() + piece.ops.size(), piece.ops.size());
    for (const OpDef* def : program_.OpaqueDefs()) {
      MICA_RETURN_IF_ERROR(builder.DeclareOpaque(def->schema()));
    }
    for (ValueId id : Declared(piece)) {
      const std::optional<int> from = ArrivesFrom(piece, id);
      MICA_ASSIGN_OR_RETURN(const ValueId made,
                            from.has_value()
                                ? Receive(piece, id, *from, builder)
                                : Declare(builder, id));
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
    for (const auto& [id, device] : piece.sends) {
      MICA_ASSIGN_OR_RETURN(outputs.emplace_back(),
                            Send(piece, id, device, rewriter));
    }
    return builder.Build(outputs);
  }

  int DeviceOf(const Piece& piece) const {
    return options_.device_of_stage.empty()
               ? piece.jobs.stage
               : options_.device_of_stage[piece.jobs.stage];
  }

  // The device that sends what a piece reads; nothing for what is there.
  std::optional<int> ArrivesFrom(const Piece& piece, ValueId id) {
    const Value& value = program_.value(id);
    if (value.kind != ValueKind::kResult || value.type->is_scalar) {
      return std::nullopt;
    }
    if (!piece.reads.contains(id)) return std::nullopt;
    const int from = DeviceOf(MakerOf(piece, id));
    if (from == DeviceOf(piece)) return std::nullopt;
    return from;
  }

  // What goes by its name in a piece, and is sent: of all micro-batches, a
  // gradient is the sum.
  std::string NameIn(const Piece& piece, ValueId id) const {
    const std::string& name = program_.value(id).name;
    const bool is_sum =
        IsForAllMicroBatches(piece.jobs.type) && map_.gradients().contains(id);
    return is_sum ? SumName(name) : name;
  }

  absl::StatusOr<ValueId> Receive(const Piece& piece, ValueId id, int from,
                                  ProgramBuilder& builder) const {
    const Value& value = program_.value(id);
    MICA_ASSIGN_OR_RETURN(
        const ValueId message,
        builder.AddInput(MessageName(NameIn(piece, id), DeviceOf(piece)),
                         MessageType(*value.type)));
    MICA_ASSIGN_OR_RETURN(const OpDef* receive, builder.FindOp("mica.receive"));
    MICA_ASSIGN_OR_RETURN(
        const auto results,
        builder.AddOp({.def = receive,
                       .arguments = {ValueRef{message}, int64_t{from}},
                       .types = {builder.type(message)},
                       .names = {NameIn(piece, id)},
                       .source = program_.ops()[value.index].source}));
    return results[0];
  }

  absl::StatusOr<ValueId> Send(const Piece& piece, ValueId id, int device,
                               Rewriter& rewriter) const {
    const Value& value = program_.value(id);
    ProgramBuilder& builder = rewriter.builder();
    MICA_ASSIGN_OR_RETURN(const OpDef* send, builder.FindOp("mica.send"));
    MICA_ASSIGN_OR_RETURN(
        const auto results,
        builder.AddOp(
            {.def = send,
             .arguments = {ValueRef{rewriter.NewId(id)}, int64_t{device}},
             .types = {MessageType(*value.type)},
             .names = {MessageName(NameIn(piece, id), device)},
             .source = program_.ops()[value.index].source}));
    return results[0];
  }

  // Ops behind a message were typed by the strides of what is sent.
  static TensorType MessageType(TensorType type) {
    if (!type.is_dense()) type.strides.clear();
    return type;
  }

  // What a piece reads or writes without making it, in the Program's order.
  absl::btree_set<ValueId> Declared(const Piece& piece) const {
    absl::btree_set<ValueId> ids = piece.reads;
    for (const Update& update : piece.updates) ids.insert(update.target);
    return ids;
  }

  absl::StatusOr<ValueId> Declare(ProgramBuilder& builder, ValueId id) const {
    const Value& value = program_.value(id);
    switch (value.kind) {
      case ValueKind::kVariable:
        return builder.CopyVariable(program_,
                                    program_.variables()[value.index]);
      case ValueKind::kConstant:
        return builder.AddConstant(value.name, *value.type,
                                   program_.constants()[value.index].bytes);
      case ValueKind::kInput:
      case ValueKind::kResult:
        return builder.AddInput(value.name, *value.type);
    }
    return kNoValue;
  }

  absl::StatusOr<ValueId> DeclareSum(ProgramBuilder& builder,
                                     ValueId gradient) const {
    const Value& value = program_.value(gradient);
    TensorType type = *value.type;
    if (!type.is_dense()) type.strides.clear();
    return builder.AddVariable(SumName(value.name), sum_names_.at(gradient),
                               type);
  }

  const Program& program_;
  const StageMap& map_;
  const CutOptions& options_;
  const OpRegistry& registry_;
  const bool has_reduce_;
  std::vector<Piece> pieces_;  // By stage, then by type.
  std::map<JobType, int> place_of_type_;
  int num_types_ = 0;
  absl::flat_hash_map<ValueId, std::string> names_;  // Of variables.
  std::map<ValueId, std::string> sum_names_;         // By gradient.
};

}  // namespace

double StageCostOf(const Program& program, const Op& op) {
  const OpWork work = WorkOf(program, op);
  return std::max(work.moved, work.products);
}

absl::StatusOr<CutProgram> CutIntoStages(const Program& program,
                                         const CutOptions& options,
                                         const OpRegistry& registry) {
  const TraceSpan span("pass", "cut into stages");
  if (!program.is_static()) {
    return absl::InvalidArgumentError(
        absl::StrCat("program @", program.name(), " has symbols"));
  }
  if (!options.device_of_stage.empty() &&
      static_cast<int>(options.device_of_stage.size()) != options.num_stages) {
    return absl::InvalidArgumentError(
        absl::StrCat("wants a device for each of ", options.num_stages,
                     " stages, got ", options.device_of_stage.size()));
  }
  for (const Op& op : program.ops()) {
    if (options.keeps_random_order || !HasEffect(op)) continue;
    return absl::UnimplementedError(absl::StrCat(
        Describe(op), ": a Schedule can't keep the order of random numbers"));
  }
  MICA_ASSIGN_OR_RETURN(const StageMap map, StageMap::Build(program, options));
  return Cutter(program, map, options, registry).Cut();
}

}  // namespace mica
