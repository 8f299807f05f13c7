#include "analysis/plan/part_writes.h"

#include "absl/algorithm/container.h"
#include "analysis/passes/program_facts.h"

namespace mica {
namespace {

// The ops that each write a part of what it was, from an update's value back to
// its target; none if the value is made otherwise.
std::vector<OpId> ChainOf(const Program& program, const Update& update) {
  std::vector<OpId> writes;
  ValueId value = update.value;
  while (value != update.target) {
    if (value == kNoValue || program.value(value).kind != ValueKind::kResult) {
      return {};
    }
    writes.push_back(program.value(value).index);
    const Op& op = program.ops()[writes.back()];
    if (op.def->part_write() == nullptr) return {};
    value = ProgramFacts::ValueOf(op, 0);
  }
  return writes;
}

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

  ValueId WrittenBy(OpId id) const {
    return ProgramFacts::ValueOf(program_.ops()[id], 0);
  }

  bool CanWrite(OpId id, const TensorType& type) const {
    const Op& op = program_.ops()[id];
    return !look_.is_placed(op.results[0]) &&
           program_.type(op.results[0]) == type && look_.can_write(op);
  }

  void AddChain(const Update& update) {
    Chain chain{.target = update.target, .writes = ChainOf(program_, update)};
    const TensorType& type = program_.type(update.target);
    const bool can_write = absl::c_all_of(
        chain.writes, [&](OpId id) { return CanWrite(id, type); });
    if (chain.writes.empty() || !can_write) return;
    for (OpId id : chain.writes) ends_[WrittenBy(id)] = id;
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

bool WritesParts(const Program& program) {
  return absl::c_any_of(program.updates(), [&](const Update& update) {
    return !ChainOf(program, update).empty();
  });
}

}  // namespace mica
