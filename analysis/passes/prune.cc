#include "analysis/passes/prune.h"

#include <memory>

#include "absl/types/span.h"
#include "analysis/passes/dead_ops.h"
#include "analysis/passes/program_facts.h"
#include "analysis/passes/rewrite.h"
#include "framework/base/status.h"
#include "framework/ir/control_flow.h"

namespace mica {
namespace {

// The inputs of `body` that `outputs` and effects in it depend on.
std::vector<bool> FindNeededInputs(const Program& body,
                                   absl::Span<const ValueId> outputs) {
  const Live live = FindLive(body, outputs);
  std::vector<bool> needed;
  for (ValueId id : body.inputs()) needed.push_back(live.values[id]);
  return needed;
}

class Pruner {
 public:
  Pruner(const Program& program, const Op& op, const OpRegistry& registry)
      : program_(program),
        op_(op),
        registry_(registry),
        operands_(BodyOperands(op)) {
    pruned_.op = {
        .def = op.def, .arguments = op.arguments, .source = op.source};
  }

  absl::StatusOr<PrunedControl> Run(const std::vector<bool>& is_live) {
    MICA_RETURN_IF_ERROR(ControlKindOf(*op_.def) == ControlKind::kIf
                             ? PruneIf(is_live)
                             : PruneWhile(is_live));
    pruned_.is_needed = !pruned_.op.results.empty() || HasEffect(pruned_.op);
    return std::move(pruned_);
  }

 private:
  const Program& body(size_t index) const { return *op_.bodies[index]; }

  // True if `input` of the bodies may stand for the result: it is the operand
  // itself, in memory like a result's.
  bool MayForward(size_t input, ValueId result) const {
    return program_.type(operands_[input]) == program_.type(result);
  }

  absl::Status PruneIf(const std::vector<bool>& is_live) {
    std::vector<ValueId> outputs[2];
    for (size_t i = 0; i < op_.results.size(); ++i) {
      const ValueId result = op_.results[i];
      if (!is_live[result]) continue;
      const int input = InputOfBoth(i);
      if (input >= 0 && MayForward(input, result)) {
        pruned_.forwarded.emplace_back(result, operands_[input]);
        continue;
      }
      pruned_.op.results.push_back(result);
      for (int b : {0, 1}) outputs[b].push_back(body(b).outputs()[i]);
    }
    std::vector<Program> lean;
    MICA_RETURN_IF_ERROR(MakeLean({outputs[0], outputs[1]}, &lean));
    const std::vector<bool> is_read = FindRead(lean);
    std::vector<size_t> inputs;
    for (size_t i = 0; i < operands_.size(); ++i) {
      if (is_read[i]) inputs.push_back(i);
    }
    pruned_.op.arguments[1] = RefsTo(inputs);
    return TakeInputs(std::move(lean), inputs);
  }

  // The input that both branches return as result `index`; -1 if none.
  int InputOfBoth(size_t index) const {
    int found[2];
    for (int b : {0, 1}) {
      const ValueId id = body(b).outputs()[index];
      if (id == kNoValue || body(b).value(id).kind != ValueKind::kInput) {
        return -1;
      }
      found[b] = body(b).value(id).index;
    }
    return found[0] == found[1] ? found[0] : -1;
  }

  absl::Status PruneWhile(const std::vector<bool>& is_live) {
    const std::vector<bool> is_carried = FindCarried(is_live);
    std::vector<size_t> inputs, invariants;
    std::vector<ValueId> outputs;
    for (size_t i = 0; i < is_carried.size(); ++i) {
      if (!is_carried[i]) continue;
      const ValueId result = op_.results[i];
      const bool stays = body(1).outputs()[i] == body(1).inputs()[i];
      if (stays && MayForward(i, result)) {
        if (is_live[result]) {
          pruned_.forwarded.emplace_back(result, operands_[i]);
        }
        invariants.push_back(i);
        continue;
      }
      pruned_.op.results.push_back(result);
      inputs.push_back(i);
      outputs.push_back(body(1).outputs()[i]);
    }
    pruned_.op.arguments[0] = RefsTo(inputs);
    for (size_t i = is_carried.size(); i < operands_.size(); ++i) {
      invariants.push_back(i);
    }
    const ValueId condition = body(0).outputs()[0];
    std::vector<Program> lean;
    MICA_RETURN_IF_ERROR(MakeLean({{condition}, outputs}, &lean));
    const std::vector<bool> is_read = FindRead(lean);
    std::vector<size_t> read;
    for (size_t i : invariants) {
      if (is_read[i]) read.push_back(i);
    }
    pruned_.op.arguments[1] = RefsTo(read);
    inputs.insert(inputs.end(), read.begin(), read.end());
    return TakeInputs(std::move(lean), inputs);
  }

  // Which carried values are read behind the loop or by a later round.
  std::vector<bool> FindCarried(const std::vector<bool>& is_live) const {
    std::vector<bool> is_carried;
    for (ValueId id : op_.results) is_carried.push_back(is_live[id]);
    std::vector<bool> needed = FindNeededInputs(body(0), body(0).outputs());
    for (bool has_changed = true; has_changed;) {
      has_changed = false;
      std::vector<ValueId> outputs;
      for (size_t i = 0; i < is_carried.size(); ++i) {
        has_changed = has_changed || (needed[i] && !is_carried[i]);
        is_carried[i] = is_carried[i] || needed[i];
        if (is_carried[i]) outputs.push_back(body(1).outputs()[i]);
      }
      needed = FindNeededInputs(body(1), outputs);
      for (size_t i = 0; i < is_carried.size(); ++i) {
        has_changed = has_changed || (needed[i] && !is_carried[i]);
      }
    }
    return is_carried;
  }

  // The bodies that return `outputs`, without dead ops.
  absl::Status MakeLean(const std::vector<std::vector<ValueId>>& outputs,
                        std::vector<Program>* lean) {
    for (size_t b = 0; b < op_.bodies.size(); ++b) {
      MICA_ASSIGN_OR_RETURN(Program program,
                            KeepLiveOps(body(b), outputs[b], registry_));
      lean->push_back(std::move(program));
    }
    return absl::OkStatus();
  }

  // By input: some body reads it.
  std::vector<bool> FindRead(const std::vector<Program>& bodies) const {
    std::vector<bool> is_read(operands_.size(), false);
    for (const Program& body : bodies) {
      const std::vector<int> uses = CountUses(body);
      for (size_t i = 0; i < is_read.size(); ++i) {
        is_read[i] = is_read[i] || uses[body.inputs()[i]] > 0;
      }
    }
    return is_read;
  }

  ValueRefs RefsTo(const std::vector<size_t>& inputs) const {
    ValueRefs refs;
    for (size_t i : inputs) refs.push_back(ValueRef{operands_[i]});
    return refs;
  }

  // Leaves `bodies` with these of their inputs, in this order.
  absl::Status TakeInputs(std::vector<Program> bodies,
                          const std::vector<size_t>& inputs) {
    bool is_same = inputs.size() == operands_.size();
    for (size_t i = 0; i < inputs.size(); ++i) {
      is_same = is_same && inputs[i] == i;
    }
    for (Program& body : bodies) {
      if (!is_same) {
        Rewriter rewriter(body, registry_);
        std::vector<ValueId> ids;
        for (size_t i : inputs) ids.push_back(body.inputs()[i]);
        rewriter.set_inputs(std::move(ids));
        MICA_RETURN_IF_ERROR(rewriter.CopyDeclarations());
        for (const Op& op : body.ops()) {
          MICA_RETURN_IF_ERROR(rewriter.CopyOp(op));
        }
        MICA_ASSIGN_OR_RETURN(body, rewriter.Finish());
      }
      pruned_.op.bodies.push_back(
          std::make_shared<const Program>(std::move(body)));
    }
    return absl::OkStatus();
  }

  const Program& program_;
  const Op& op_;
  const OpRegistry& registry_;
  const std::vector<ValueId> operands_;
  PrunedControl pruned_;
};

}  // namespace

absl::StatusOr<PrunedControl> PruneControl(const Program& program, const Op& op,
                                           const std::vector<bool>& is_live,
                                           const OpRegistry& registry) {
  return Pruner(program, op, registry).Run(is_live);
}

}  // namespace mica
