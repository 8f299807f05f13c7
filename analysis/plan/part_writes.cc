#include "analysis/plan/part_writes.h"

#include <variant>

#include "absl/algorithm/container.h"

namespace mica {
namespace {

class PartFinder {
 public:
  PartFinder(const Program& program, const PartLook& look)
      : program_(program),
        look_(look),
        targets_(program.num_values(), kNoValue),
        ends_(program.num_values(), kNeverEnds) {}

  std::vector<ValueId> Run() {
    for (const Update& update : program_.updates()) AddChain(update);
    if (chains_.empty()) return std::move(targets_);
    for (size_t i = 0; i < program_.ops().size(); ++i) {
      CheckReads(static_cast<OpId>(i));
    }
    // Read when all ops have run.
    const auto end = static_cast<OpId>(program_.ops().size());
    for (ValueId output : program_.outputs()) CheckRead(output, end);
    for (const Update& update : program_.updates()) {
      CheckRead(update.value, end);
    }
    for (const Chain& chain : chains_) {
      if (chain.is_refused) continue;
      for (OpId id : chain.writes) {
        targets_[program_.ops()[id].results[0]] = chain.target;
      }
    }
    return std::move(targets_);
  }

 private:
  static constexpr OpId kNeverEnds = -1;

  struct Chain {
    ValueId target = kNoValue;
    std::vector<OpId> writes;  // The last one first.
    bool is_refused = false;
  };

  static ValueId WrittenBy(const Op& op) {
    const auto* value = std::get_if<ValueRef>(&op.arguments[0]);
    return value == nullptr ? kNoValue : value->id;
  }

  // From an update's value back to its target.
  void AddChain(const Update& update) {
    Chain chain{.target = update.target};
    ValueId value = update.value;
    while (value != update.target) {
      const bool is_result =
          value != kNoValue && program_.value(value).kind == ValueKind::kResult;
      if (!is_result || look_.is_placed(value) ||
          !(program_.type(value) == program_.type(update.target))) {
        return;
      }
      const OpId id = program_.value(value).index;
      const Op& op = program_.ops()[id];
      if (op.def->part_write() == nullptr || !look_.can_write(op)) return;
      chain.writes.push_back(id);
      value = WrittenBy(op);
    }
    if (chain.writes.empty()) return;
    for (OpId id : chain.writes) {
      ends_[WrittenBy(program_.ops()[id])] = id;
    }
    chains_.push_back(std::move(chain));
  }

  void CheckReads(OpId id) {
    const Op& op = program_.ops()[id];
    if (op.def->is_view()) return;
    bool is_first = true;
    ForEachValue(op.arguments, [&](ValueId operand) {
      // What it writes it may also read, as far as that is the operand itself.
      const bool is_written = is_first && ends_[operand] == id;
      is_first = false;
      if (!is_written) CheckRead(operand, id);
    });
  }

  // A state that has ended by op `at`, or ends with it, can't be read there.
  void CheckRead(ValueId value, OpId at) {
    const ValueId base = look_.resolved[value].base;
    const OpId end = ends_[base];
    if (end == kNeverEnds || at < end) return;
    for (Chain& chain : chains_) {
      chain.is_refused |= absl::c_linear_search(chain.writes, end);
    }
  }

  const Program& program_;
  const PartLook& look_;
  std::vector<ValueId> targets_;
  std::vector<OpId> ends_;  // By value: the op that writes it in place.
  std::vector<Chain> chains_;
};

}  // namespace

std::vector<ValueId> FindPartTargets(const Program& program,
                                     const PartLook& look) {
  return PartFinder(program, look).Run();
}

}  // namespace mica
