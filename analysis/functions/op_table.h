// A Program's ops as small numbers: what they do, what they read.

#ifndef MICA_ANALYSIS_FUNCTIONS_OP_TABLE_H_
#define MICA_ANALYSIS_FUNCTIONS_OP_TABLE_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "framework/base/large_vector.h"
#include "framework/ir/program.h"

namespace mica {

// Whether two ops do the same, of whatever values: equal operators, arguments,
// types of results and bodies.
bool SameOp(const Program& program, const Op& x, const Op& y);
// Whether two values have equal types.
bool SameType(const Program& program, ValueId a, ValueId b);

// Each op of a Program is a form, which it shares with all ops that do the same
// of whatever values, and the values that it reads. To look at an op is to wait
// for a few hundred bytes; who looks at all several times makes this of them
// once, which has a few words for each. `program` must outlive it.
class OpTable {
 public:
  explicit OpTable(const Program& program);

  const Program& program() const { return program_; }
  OpId num_ops() const { return static_cast<OpId>(forms_.size()); }

  // Ops have equal forms if and only if SameOp(), from 0 on in order of their
  // first ops. A NaN among the arguments equals nothing.
  int32_t form(OpId op) const { return forms_[op]; }
  // The first op of a form.
  const Op& first_of_form(int32_t form) const {
    return program_.ops()[form_ops_[form].first];
  }
  bool has_effect(OpId op) const { return form_ops_[forms_[op]].has_effect; }
  // One for each op, equal for ops of one form in one pass, forward or
  // backward.
  absl::Span<const uint64_t> words() const { return words_; }

  // What ForEachValue() visits.
  absl::Span<const ValueId> operands(OpId op) const {
    return operands(op, op + 1);
  }
  // Of all ops from `begin` to `end`.
  absl::Span<const ValueId> operands(OpId begin, OpId end) const {
    return {operands_.data() + first_operands_[begin],
            static_cast<size_t>(first_operands_[end] - first_operands_[begin])};
  }
  // Results of an op have numbers in turn.
  ValueId result(OpId op, int32_t index) const {
    return first_results_[op] + index;
  }
  int32_t num_results(OpId op) const {
    return static_cast<int32_t>(first_of_form(forms_[op]).results.size());
  }
  // The op that makes a value; -1 if none does.
  OpId producer(ValueId value) const { return producers_[value]; }
  // The first op that reads a value; -1 if none does.
  OpId first_reader(ValueId value) const { return first_readers_[value]; }
  // Whether one op reads it, once, and nothing else does.
  bool is_read_once(ValueId value) const {
    return uses_[value] == 1 && !is_kept_[value];
  }
  // Whether it is an update's, or returned.
  bool is_kept(ValueId value) const { return is_kept_[value]; }

  // By op: whether its effects, or what it makes, are of use to anyone.
  std::vector<bool> FindLiveOps() const;

 private:
  struct Form {
    OpId first = 0;
    bool has_effect = false;
    int32_t next = -1;       // The form that came after it last.
    int32_t same_hash = -1;  // Another form of the same hash.
  };

  int32_t num_forms() const { return static_cast<int32_t>(form_ops_.size()); }
  void AddOp(OpId id);
  int32_t FormOf(OpId id);
  int32_t NewForm(OpId id);

  const Program& program_;
  LargeVector<int32_t> forms_;
  LargeVector<uint64_t> words_;
  LargeVector<int32_t> first_operands_;  // By op, and where they end.
  LargeVector<ValueId> operands_;
  LargeVector<ValueId> first_results_;
  LargeVector<OpId> producers_;
  LargeVector<OpId> first_readers_;
  LargeVector<int32_t> uses_;  // By ops.
  std::vector<bool> is_kept_;
  std::vector<Form> form_ops_;  // By form.
  absl::flat_hash_map<uint64_t, int32_t> by_hash_;
  int32_t last_form_ = -1;
};

}  // namespace mica

#endif  // MICA_ANALYSIS_FUNCTIONS_OP_TABLE_H_
