#include "analysis/functions/copies.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"
#include "framework/base/large_vector.h"
#include "framework/ir/control_flow.h"

namespace mica {
namespace {

// Compares copies with the first one of a group, operand by operand: that their
// ops do the same is known.
class Comparison {
 public:
  Comparison(const OpTable& table, const std::vector<bool>& is_live, OpId begin,
             int32_t size, bool are_origins)
      : table_(table),
        is_live_(is_live),
        first_(begin),
        size_(size),
        are_origins_(are_origins) {
    absl::flat_hash_map<ValueId, int32_t> numbers;
    for (ValueId id : table_.operands(begin, begin + size)) {
      if (const OpId op = table_.producer(id); op >= begin) {
        wiring_.push_back({op - begin, id - table_.result(op, 0)});
        continue;
      }
      const auto [it, is_new] =
          numbers.try_emplace(id, static_cast<int32_t>(externals_.size()));
      if (is_new) externals_.push_back(id);
      wiring_.push_back({-1, it->second});
    }
  }

  const std::vector<ValueId>& externals() const { return externals_; }

  // Sets what the copy at `begin` reads of others; false if it is none.
  bool Matches(OpId begin, std::vector<ValueId>& externals) const {
    externals.assign(externals_.size(), kNoValue);
    for (int32_t i = 0; i < size_; ++i) {
      // One number leads from all ops' origins to the copies'.
      if (OriginOf(first_ + i) - OriginOf(first_) !=
          OriginOf(begin + i) - OriginOf(begin)) {
        return false;
      }
      // What is dead in one copy alone has operands that nobody makes there.
      if (is_live_[first_ + i] != is_live_[begin + i] ||
          table_.words()[first_ + i] != table_.words()[begin + i]) {
        return false;
      }
    }
    const absl::Span<const ValueId> operands =
        table_.operands(begin, begin + size_);
    for (size_t i = 0; i < operands.size(); ++i) {
      if (!MatchesOperand(wiring_[i], operands[i], begin, externals)) {
        return false;
      }
    }
    return true;
  }

 private:
  OpId OriginOf(OpId id) const {
    return are_origins_ ? id : table_.program().ops()[id].source.origin;
  }
  bool MatchesOperand(const LocalResult& wanted, ValueId id, OpId begin,
                      std::vector<ValueId>& externals) const {
    if (wanted.op >= 0) {
      return id == table_.result(begin + wanted.op, wanted.result);
    }
    ValueId& external = externals[wanted.result];
    if (external == kNoValue) {
      external = id;
      return table_.producer(id) < begin &&
             SameType(table_.program(), id, externals_[wanted.result]);
    }
    return external == id;
  }

  const OpTable& table_;
  const std::vector<bool>& is_live_;
  const OpId first_;
  const int32_t size_;
  const bool are_origins_;
  // Of each operand of the first copy, in order: the op and result of the copy
  // that it is, or {-1, number of the external}.
  std::vector<LocalResult> wiring_;
  std::vector<ValueId> externals_;
};

// What is read outside of the copy that makes it, by value. One look at each
// op, however many groups there are.
std::vector<bool> FindReadOutside(const OpTable& table,
                                  const std::vector<bool>& is_live,
                                  absl::Span<const CopyGroup> groups) {
  const Program& program = table.program();
  std::vector<bool> is_read(program.num_values(), false);
  // By op: the first of its copy; the op itself if it is in none.
  LargeVector<OpId> begins(table.num_ops());
  std::iota(begins.begin(), begins.end(), 0);
  for (const CopyGroup& group : groups) {
    for (const Copy& copy : group.copies) {
      std::fill_n(begins.begin() + copy.begin, group.size, copy.begin);
    }
  }
  for (OpId id = 0; id < table.num_ops(); ++id) {
    if (!is_live[id]) continue;
    for (ValueId value : table.operands(id)) {
      if (table.producer(value) < begins[id]) is_read[value] = true;
    }
  }
  for (const Update& update : program.updates()) is_read[update.value] = true;
  for (ValueId id : program.outputs()) {
    if (id != kNoValue) is_read[id] = true;
  }
  return is_read;
}

// What of a group somebody reads outside.
class OutsideReads {
 public:
  OutsideReads(const OpTable& table, const std::vector<bool>& is_read_outside)
      : program_(table.program()),
        table_(table),
        is_read_outside_(is_read_outside) {}

  // False if one of the results lies as none may, or nothing is alive.
  bool Set(CopyGroup& group) const {
    // By op of a copy, and result.
    std::vector<std::vector<bool>> is_needed(group.size);
    const OpId first = group.copies[0].begin;
    for (int32_t i = 0; i < group.size; ++i) {
      is_needed[i].resize(table_.num_results(first + i), false);
      for (size_t r = 0; r < is_needed[i].size(); ++r) {
        is_needed[i][r] = absl::c_any_of(group.copies, [&](const Copy& copy) {
          return is_read_outside_[table_.result(copy.begin + i,
                                                static_cast<int32_t>(r))];
        });
      }
    }
    if (!AddNeeded(is_needed, group)) return false;
    FindDead(is_needed, group);
    return std::find(group.is_dead.begin(), group.is_dead.end(), false) !=
           group.is_dead.end();
  }

 private:
  // Views that are needed are made outside, too.
  void FindDead(std::vector<std::vector<bool>>& is_needed,
                CopyGroup& group) const {
    const OpId first = group.copies[0].begin;
    group.is_dead.assign(group.size, true);
    for (int32_t i : group.views) is_needed[i][0] = false;
    absl::flat_hash_set<ValueId> read;
    for (int32_t i = group.size; i-- > 0;) {
      const Op& op = program_.ops()[first + i];
      const bool is_read = std::find(is_needed[i].begin(), is_needed[i].end(),
                                     true) != is_needed[i].end();
      if (!is_read && !HasEffect(op)) continue;
      group.is_dead[i] = false;
      ForEachValue(op.arguments, [&](ValueId id) {
        read.insert(id);
        const Value& value = program_.value(id);
        if (value.kind == ValueKind::kResult && value.index >= first) {
          is_needed[value.index - first][value.result] = true;
        }
      });
    }
    group.externals.resize(group.copies[0].externals.size());
    for (size_t i = 0; i < group.externals.size(); ++i) {
      const bool is_read = read.contains(group.copies[0].externals[i]);
      group.externals[i].input = is_read ? 0 : -1;
    }
  }

  // A view that is needed is made anew of its base, which then is needed.
  bool AddNeeded(std::vector<std::vector<bool>>& is_needed,
                 CopyGroup& group) const {
    const OpId first = group.copies[0].begin;
    for (int32_t i = group.size; i-- > 0;) {
      const Op& op = program_.ops()[first + i];
      for (size_t r = 0; r < op.results.size(); ++r) {
        if (!is_needed[i][r]) continue;
        const Value& value = program_.value(op.results[r]);
        if (op.def->is_view()) {
          group.views.push_back(i);
          const Value& base =
              program_.value(std::get<ValueRef>(op.arguments[0]).id);
          const bool is_local =
              base.kind == ValueKind::kResult && base.index >= first;
          if (is_local) is_needed[base.index - first][base.result] = true;
        } else {
          if (!(OwnedType(*value.type) == *value.type)) return false;
          group.results.push_back({i, static_cast<int32_t>(r)});
        }
      }
    }
    std::sort(group.results.begin(), group.results.end());
    std::sort(group.views.begin(), group.views.end());
    return true;
  }

  const Program& program_;
  const OpTable& table_;
  const std::vector<bool>& is_read_outside_;
};

// What a function is given: of a view what that is a view of.
class InputFinder {
 public:
  InputFinder(const OpTable& table, CopyGroup& group)
      : program_(table.program()), table_(table), group_(group) {}

  void Run() {
    for (size_t i = 0; i < group_.externals.size(); ++i) {
      External& external = group_.externals[i];
      if (external.input < 0) continue;
      external.views = CommonViews(i);
      std::vector<ValueId> of_copies;
      for (const Copy& copy : group_.copies) {
        of_copies.push_back(BaseOf(copy.externals[i], external.views.size()));
      }
      external.input = NumberOf(of_copies);
    }
  }

 private:
  // The view that makes a value; -1 if none does.
  OpId ViewOf(ValueId id) const {
    const OpId op = table_.producer(id);
    if (op < 0) return -1;
    return table_.first_of_form(table_.form(op)).def->is_view() ? op : -1;
  }

  // What a view is of.
  ValueId BaseOf(OpId view) const { return table_.operands(view)[0]; }
  ValueId BaseOf(ValueId id, size_t depth) const {
    for (; depth > 0; --depth) id = BaseOf(ViewOf(id));
    return id;
  }

  // The views behind each other, from what they are of on, that lead to the
  // external in all copies.
  std::vector<OpId> CommonViews(size_t external) const {
    std::vector<OpId> views;
    ValueId first = group_.copies[0].externals[external];
    for (size_t depth = 0;; ++depth) {
      const OpId view = ViewOf(first);
      if (view < 0) break;
      const ValueId base = BaseOf(view);
      const bool is_common = std::all_of(
          group_.copies.begin(), group_.copies.end(), [&](const Copy& copy) {
            const OpId other = ViewOf(BaseOf(copy.externals[external], depth));
            return other >= 0 && table_.form(view) == table_.form(other) &&
                   SameType(program_, base, BaseOf(other));
          });
      if (!is_common) break;
      views.push_back(view);
      first = base;
    }
    std::reverse(views.begin(), views.end());
    return views;
  }

  // The number of the input that these are, by copy; a new one if none is.
  int32_t NumberOf(const std::vector<ValueId>& of_copies) {
    const size_t num_inputs = group_.copies[0].inputs.size();
    for (size_t input = 0; input < num_inputs; ++input) {
      size_t copy = 0;
      while (copy < of_copies.size() &&
             group_.copies[copy].inputs[input] == of_copies[copy]) {
        ++copy;
      }
      if (copy == of_copies.size()) return static_cast<int32_t>(input);
    }
    for (size_t copy = 0; copy < of_copies.size(); ++copy) {
      group_.copies[copy].inputs.push_back(of_copies[copy]);
    }
    return static_cast<int32_t>(num_inputs);
  }

  const Program& program_;
  const OpTable& table_;
  CopyGroup& group_;
};

}  // namespace

std::vector<CopyGroup> GroupCopies(const OpTable& table,
                                   const std::vector<bool>& is_live,
                                   const Repeat& repeat, bool are_origins) {
  std::vector<CopyGroup> groups;
  std::vector<Comparison> comparisons;  // By group: with its first copy.
  std::vector<ValueId> externals;
  for (int32_t c = 0; c < repeat.count; ++c) {
    const OpId begin = repeat.begin + c * repeat.period;
    const auto it = std::find_if(comparisons.begin(), comparisons.end(),
                                 [&](const Comparison& first) {
                                   return first.Matches(begin, externals);
                                 });
    if (it != comparisons.end()) {
      groups[it - comparisons.begin()].copies.push_back(
          {.begin = begin, .externals = std::move(externals)});
      continue;
    }
    comparisons.emplace_back(table, is_live, begin, repeat.period, are_origins);
    groups.push_back({.copies = {{.begin = begin,
                                  .externals = comparisons.back().externals()}},
                      .size = repeat.period});
  }
  std::erase_if(groups,
                [](const CopyGroup& group) { return group.copies.size() < 2; });
  return groups;
}

void SetBorders(const OpTable& table, const std::vector<bool>& is_live,
                std::vector<CopyGroup>& groups) {
  if (groups.empty()) return;
  const std::vector<bool> is_read = FindReadOutside(table, is_live, groups);
  const OutsideReads outside(table, is_read);
  std::erase_if(groups, [&](CopyGroup& group) { return !outside.Set(group); });
  for (CopyGroup& group : groups) InputFinder(table, group).Run();
}

}  // namespace mica
