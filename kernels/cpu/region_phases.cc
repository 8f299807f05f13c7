#include "kernels/cpu/region_phases.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace mica::cpu {
namespace {

using Ref = RegionCode::Ref;
using Instruction = RegionCode::Instruction;
using Kind = PhasePlace::Kind;

// One loop's code while it grows.
class LoopBuilder {
 public:
  explicit LoopBuilder(size_t num_instructions) : refs_(num_instructions) {}

  Ref Read(const PhasePlace& place) {
    auto& operands = loop_.operands;
    auto at = std::find(operands.begin(), operands.end(), place);
    if (at == operands.end()) at = operands.insert(at, place);
    return {.kind = Ref::Kind::kOperand,
            .index = static_cast<int>(at - operands.begin())};
  }
  Ref Add(RegionOpId op, DType dtype, std::vector<Ref> operands) {
    loop_.code.instructions.push_back({.op = &RegionOpOf(op),
                                       .dtype = dtype,
                                       .operands = std::move(operands)});
    return {.kind = Ref::Kind::kInstruction,
            .index = static_cast<int>(loop_.code.instructions.size()) - 1};
  }
  // What stands for the region's instruction `id` in this loop.
  bool Has(int id) const { return refs_[id].has_value(); }
  Ref Get(int id) const { return *refs_[id]; }
  void Set(int id, Ref ref) { refs_[id] = ref; }

  // Leaves a value of `dtype` at a place. An instruction's result has one
  // place: for more it is copied.
  void Write(Ref value, DType dtype, const PhasePlace& place) {
    auto& results = loop_.code.results;
    const bool is_taken = value.kind != Ref::Kind::kInstruction ||
                          std::find(results.begin(), results.end(),
                                    value.index) != results.end() ||
                          dtype != place.dtype;
    if (is_taken) value = Add(RegionOpId::kCast, place.dtype, {value});
    results.push_back(value.index);
    loop_.results.push_back(place);
  }

  // Nothing if nothing is written.
  PhaseLoop Finish() {
    if (loop_.results.empty()) return {};
    return std::move(loop_);
  }

 private:
  PhaseLoop loop_;
  std::vector<std::optional<Ref>> refs_;  // By the region's instruction.
};

class Cutter {
 public:
  Cutter(const RegionCode& code, const PhaseFacts& facts)
      : code_(code),
        facts_(facts),
        is_reduced_(code.FindReduced(facts.is_reduced)),
        values_(code.instructions.size(), {.index = kNone}),
        sums_(code.instructions.size(), {.index = kNone}) {
    FindPhases();
    FindReaders();
  }

  RegionPhases Cut() {
    cut_.phases.resize(num_phases_);
    for (int phase = 0; phase < num_phases_; ++phase) {
      CutKept(phase);
      CutElements(phase);
    }
    while (!cut_.phases.empty() && IsIdle(cut_.phases.back())) {
      cut_.phases.pop_back();
    }
    return std::move(cut_);
  }

 private:
  static constexpr int kNone = -1;

  // A reduction's elements.
  struct Source {
    Ref ref;
    DType computed = DType::kF32;
    PhasePlace place;
  };

  static bool IsIdle(const Phase& phase) {
    return phase.kept.results.empty() && phase.elements.results.empty() &&
           phase.reductions.empty();
  }

  DType DTypeOf(const Ref& ref) const {
    return ref.kind == Ref::Kind::kOperand
               ? facts_.dtypes[ref.index]
               : code_.instructions[ref.index].result_dtype();
  }
  bool IsReduced(const Ref& ref) const {
    if (ref.kind == Ref::Kind::kNumber) return true;
    return ref.kind == Ref::Kind::kOperand ? facts_.is_reduced[ref.index]
                                           : is_reduced_[ref.index];
  }
  const Instruction& At(int id) const { return code_.instructions[id]; }
  int count() const { return static_cast<int>(code_.instructions.size()); }

  // When an instruction's result is there: during that phase, of what is
  // reduced at its beginning.
  void FindPhases() {
    for (int id = 0; id < count(); ++id) {
      int phase = 0;
      for (const Ref& ref : At(id).operands) {
        if (ref.kind == Ref::Kind::kInstruction) {
          phase = std::max(phase, phases_[ref.index]);
        }
      }
      phases_.push_back(phase + (At(id).op->reduces() ? 1 : 0));
      num_phases_ = std::max(num_phases_, phases_.back() + 1);
    }
  }

  // The last phase in which a loop reads a value.
  void FindReaders() {
    last_reads_.assign(code_.instructions.size(), kNone);
    for (int id = 0; id < count(); ++id) {
      const bool reduces = At(id).op->reduces();
      for (const Ref& ref : At(id).operands) {
        if (ref.kind != Ref::Kind::kInstruction) continue;
        const int reads = phases_[id] - (reduces && !IsReduced(ref) ? 1 : 0);
        last_reads_[ref.index] = std::max(last_reads_[ref.index], reads);
      }
    }
  }

  PhasePlace ArrayOf(int operand) const {
    return {.index = operand, .dtype = facts_.dtypes[operand]};
  }
  PhasePlace ResultArray(size_t result) const {
    return {.index = static_cast<int>(facts_.dtypes.size() + result),
            .dtype = At(code_.results[result]).result_dtype()};
  }

  // Of what has been reduced: a place of an element for each kept one.
  PhasePlace NewKept(DType dtype) {
    cut_.kept_bytes.push_back(ElementBytes(dtype));
    return {.kind = Kind::kKept,
            .index = static_cast<int>(cut_.kept_bytes.size()) - 1,
            .dtype = dtype};
  }
  PhasePlace NewTile(DType dtype) {
    cut_.tile_bytes.push_back(ElementBytes(dtype));
    return {.kind = Kind::kTile,
            .index = static_cast<int>(cut_.tile_bytes.size()) - 1,
            .dtype = dtype};
  }

  // Where the region wants a value, if it does.
  std::optional<PhasePlace> ResultOf(int id) const {
    for (size_t r = 0; r < code_.results.size(); ++r) {
      if (code_.results[r] == id && facts_.results_used[r]) {
        return ResultArray(r);
      }
    }
    return std::nullopt;
  }

  // What a loop over kept elements reads.
  Ref KeptOperand(const Ref& ref, LoopBuilder& loop) {
    if (ref.kind == Ref::Kind::kNumber) return ref;
    if (ref.kind == Ref::Kind::kOperand) return loop.Read(ArrayOf(ref.index));
    return loop.Has(ref.index) ? loop.Get(ref.index)
                               : loop.Read(values_[ref.index]);
  }

  // A reduction's value, from what its elements gave.
  Ref Finish(int id, LoopBuilder& loop) {
    const Instruction& from = At(id);
    const Ref sum = loop.Read(sums_[id]);
    if (from.op->id == RegionOpId::kMean) {
      const DType dtype = ComputeDType(from.dtype);
      const Ref all = loop.Read({.kind = Kind::kCount, .dtype = DType::kF64});
      const Ref less = KeptOperand(from.operands[1], loop);
      const Ref count = loop.Add(RegionOpId::kSub, dtype, {all, less});
      const Ref divisor = loop.Add(RegionOpId::kMaximum, dtype, {count, {}});
      return loop.Add(RegionOpId::kDiv, from.dtype, {sum, divisor});
    }
    if (sums_[id].dtype == from.dtype) return sum;
    return loop.Add(RegionOpId::kCast, from.dtype, {sum});
  }

  void CutKept(int phase) {
    LoopBuilder loop(code_.instructions.size());
    for (int id = 0; id < count(); ++id) {
      if (!is_reduced_[id] || phases_[id] != phase) continue;
      Ref value;
      if (At(id).op->reduces()) {
        value = Finish(id, loop);
      } else {
        std::vector<Ref> operands;
        for (const Ref& ref : At(id).operands) {
          operands.push_back(KeptOperand(ref, loop));
        }
        value = loop.Add(At(id).op->id, At(id).dtype, std::move(operands));
      }
      loop.Set(id, value);
      const DType dtype = At(id).result_dtype();
      if (const auto result = ResultOf(id)) loop.Write(value, dtype, *result);
      if (!IsReadOutside(id)) continue;
      if (value.kind == Ref::Kind::kOperand) {
        values_[id] = sums_[id];  // It is there.
      } else {
        values_[id] = NewKept(dtype);
        loop.Write(value, dtype, values_[id]);
      }
    }
    cut_.phases[phase].kept = loop.Finish();
  }

  // What is reduced: by a loop over elements, or over kept ones of a later
  // phase.
  bool IsReadOutside(int id) const {
    for (int reader = 0; reader < count(); ++reader) {
      for (const Ref& ref : At(reader).operands) {
        if (ref.kind == Ref::Kind::kInstruction && ref.index == id &&
            (!is_reduced_[reader] || phases_[reader] > phases_[id])) {
          return true;
        }
      }
    }
    return false;
  }

  // The value of an instruction on elements, in the loop of `phase`.
  Ref Element(int id, int phase, LoopBuilder& loop) {
    if (loop.Has(id)) return loop.Get(id);
    Ref value;
    if (phases_[id] < phase && values_[id].index != kNone) {
      value = loop.Read(values_[id]);
    } else {
      std::vector<Ref> operands;
      for (const Ref& ref : At(id).operands) {
        operands.push_back(ElementOperand(ref, phase, loop));
      }
      value = loop.Add(At(id).op->id, At(id).dtype, std::move(operands));
    }
    loop.Set(id, value);
    return value;
  }

  Ref ElementOperand(const Ref& ref, int phase, LoopBuilder& loop) {
    if (ref.kind == Ref::Kind::kNumber) return ref;
    if (ref.kind == Ref::Kind::kOperand) return loop.Read(ArrayOf(ref.index));
    if (is_reduced_[ref.index]) return loop.Read(values_[ref.index]);
    return Element(ref.index, phase, loop);
  }

  void CutElements(int phase) {
    LoopBuilder loop(code_.instructions.size());
    for (int id = 0; id < count(); ++id) {
      if (is_reduced_[id] || phases_[id] != phase) continue;
      const DType dtype = At(id).result_dtype();
      if (const auto result = ResultOf(id)) {
        values_[id] = *result;  // Later phases read it there.
      } else if (facts_.keeps_tiles && last_reads_[id] > phase) {
        values_[id] = NewTile(dtype);
      } else {
        continue;
      }
      loop.Write(Element(id, phase, loop), dtype, values_[id]);
    }
    for (int id = 0; id < count(); ++id) {
      if (At(id).op->reduces() && phases_[id] == phase + 1) {
        AddReduction(id, phase, loop);
      }
    }
    cut_.phases[phase].elements = loop.Finish();
  }

  void AddReduction(int id, int phase, LoopBuilder& loop) {
    const Instruction& from = At(id);
    const Ref& ref = from.operands[0];
    PhaseReduction reduction{.op = from.op->id == RegionOpId::kMean
                                       ? RegionOpId::kSum
                                       : from.op->id};
    reduction.from = SourceOf(ref, ComputeDType(from.dtype), phase, loop);
    // Equal ones are one.
    for (const PhaseReduction& other : cut_.phases[phase].reductions) {
      if (other.op == reduction.op && other.from == reduction.from) {
        sums_[id] = other.to;
        return;
      }
    }
    reduction.to = sums_[id] = NewKept(reduction.from.dtype);
    cut_.phases[phase].reductions.push_back(reduction);
  }

  bool CanBeReduced(const PhasePlace& place) const {
    return place.index != kNone &&
           (place.kind == Kind::kTile || facts_.is_plain[place.index]);
  }

  // Where the elements that are reduced lie.
  PhasePlace SourceOf(const Ref& ref, DType computed, int phase,
                      LoopBuilder& loop) {
    const DType dtype = ReducingDType(computed);
    const bool is_array = ref.kind == Ref::Kind::kOperand;
    const bool is_it = DTypeOf(ref) == dtype && computed == dtype;
    if (is_array && is_it && facts_.is_plain[ref.index]) {
      return ArrayOf(ref.index);
    }
    if (source_phase_ != phase) sources_.clear();
    source_phase_ = phase;
    for (const Source& source : sources_) {
      if (source.ref == ref && source.computed == computed) return source.place;
    }
    PhasePlace place;
    if (!is_array && is_it && CanBeReduced(values_[ref.index])) {
      place = values_[ref.index];  // It is a result, or read later, too.
    } else {
      // By way of the reduction's own dtype: a float's truth isn't its integer
      // part's.
      Ref value = ElementOperand(ref, phase, loop);
      DType from = DTypeOf(ref);
      if (computed != dtype && computed != from) {
        value = loop.Add(RegionOpId::kCast, computed, {value});
        from = computed;
      }
      place = NewTile(dtype);
      loop.Write(value, from, place);
    }
    sources_.push_back({ref, computed, place});
    return place;
  }

  const RegionCode& code_;
  const PhaseFacts& facts_;
  const std::vector<bool> is_reduced_;
  std::vector<int> phases_, last_reads_;  // By instruction.
  int num_phases_ = 1;
  RegionPhases cut_;
  std::vector<PhasePlace>
      values_;                    // By instruction: where later loops find it.
  std::vector<PhasePlace> sums_;  // By reduction: what its elements gave.
  std::vector<Source> sources_;   // Of one phase.
  int source_phase_ = kNone;
};

}  // namespace

DType ReducingDType(DType dtype) {
  const DType computed = ComputeDType(dtype);
  const bool is_small = computed == DType::kBool ||
                        (IsIntegral(computed) && ElementBytes(computed) < 4);
  return is_small ? DType::kI32 : computed;
}

RegionPhases CutPhases(const RegionCode& code, const PhaseFacts& facts) {
  return Cutter(code, facts).Cut();
}

}  // namespace mica::cpu
