#include "analysis/functions/copies.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "absl/types/span.h"
#include "framework/ir/control_flow.h"
#include "framework/ir/fetch_ahead.h"

namespace mica {
namespace {

bool SameArguments(const Arguments& a, const Arguments& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::holds_alternative<ValueRef>(a[i]) &&
        std::holds_alternative<ValueRef>(b[i])) {
      continue;
    }
    const auto* one = std::get_if<ValueRefs>(&a[i]);
    const auto* other = std::get_if<ValueRefs>(&b[i]);
    if (one != nullptr && other != nullptr) {
      if (!std::equal(one->begin(), one->end(), other->begin(), other->end(),
                      [](ValueRef x, ValueRef y) {
                        return (x.id == kNoValue) == (y.id == kNoValue);
                      })) {
        return false;
      }
    } else if (!(a[i] == b[i])) {  // A NaN, and no copy then.
      return false;
    }
  }
  return true;
}

bool SameType(const Program& program, ValueId a, ValueId b) {
  return program.value(a).type == program.value(b).type ||
         program.type(a) == program.type(b);
}

// Whether they do the same, of whatever values.
bool SameOp(const Program& program, const Op& x, const Op& y) {
  return x.def == y.def && x.bodies == y.bodies &&
         SameArguments(x.arguments, y.arguments) &&
         std::equal(x.results.begin(), x.results.end(), y.results.begin(),
                    y.results.end(), [&](ValueId a, ValueId b) {
                      return SameType(program, a, b);
                    });
}

// Compares copies with the first one of a group, op by op.
class Comparison {
 public:
  Comparison(const Program& program, const std::vector<bool>& is_live,
             OpId begin, int32_t size, bool are_origins)
      : program_(program),
        is_live_(is_live),
        first_(begin),
        size_(size),
        are_origins_(are_origins) {
    absl::flat_hash_map<ValueId, int32_t> numbers;
    for (const Op& op : OpsFrom(begin)) {
      ForEachValue(op.arguments, [&](ValueId id) {
        if (const int32_t local = LocalOf(id, begin); local >= 0) {
          wiring_.push_back({local, program_.value(id).result});
          return;
        }
        const auto [it, is_new] =
            numbers.try_emplace(id, static_cast<int32_t>(externals_.size()));
        if (is_new) externals_.push_back(id);
        wiring_.push_back({-1, it->second});
      });
    }
  }

  const std::vector<ValueId>& externals() const { return externals_; }

  // Sets what the copy at `begin` reads of others; false if it is none.
  bool Matches(OpId begin, std::vector<ValueId>& externals) const {
    externals.assign(externals_.size(), kNoValue);
    size_t operand = 0;
    for (int32_t i = 0; i < size_; ++i) {
      FetchAhead(program_.ops(), begin + i);
      const Op& x = program_.ops()[first_ + i];
      const Op& y = program_.ops()[begin + i];
      // One number leads from all ops' origins to the copies'.
      if (OriginOf(first_ + i) - OriginOf(first_) !=
          OriginOf(begin + i) - OriginOf(begin)) {
        return false;
      }
      // What is dead in one copy alone has operands that nobody makes there.
      if (is_live_[first_ + i] != is_live_[begin + i]) return false;
      if (x.source.is_backward != y.source.is_backward ||
          !SameOp(program_, x, y)) {
        return false;
      }
      bool is_same = true;
      ForEachValue(y.arguments, [&](ValueId id) {
        is_same =
            is_same && MatchesOperand(wiring_[operand++], id, begin, externals);
      });
      if (!is_same) return false;
    }
    return true;
  }

 private:
  absl::Span<const Op> OpsFrom(OpId begin) const {
    return program_.ops().subspan(begin, size_);
  }
  OpId OriginOf(OpId id) const {
    return are_origins_ ? id : program_.ops()[id].source.origin;
  }
  // Where in the copy the op is that makes the value; -1 if it is outside.
  int32_t LocalOf(ValueId id, OpId begin) const {
    const Value& value = program_.value(id);
    if (value.kind != ValueKind::kResult) return -1;
    return std::max(value.index - begin, -1);
  }
  bool MatchesOperand(const LocalResult& wanted, ValueId id, OpId begin,
                      std::vector<ValueId>& externals) const {
    const int32_t local = LocalOf(id, begin);
    if (wanted.op >= 0) {
      return local == wanted.op && program_.value(id).result == wanted.result;
    }
    ValueId& external = externals[wanted.result];
    if (external == kNoValue) {
      external = id;
      return local < 0 && SameType(program_, id, externals_[wanted.result]);
    }
    return external == id;
  }

  const Program& program_;
  const std::vector<bool>& is_live_;
  const OpId first_;
  const int32_t size_;
  const bool are_origins_;
  // Of each operand of the first copy, in order: the op and result of the copy
  // that it is, or {-1, number of the external}.
  std::vector<LocalResult> wiring_;
  std::vector<ValueId> externals_;
};

// What of a group somebody reads outside.
class OutsideReads {
 public:
  OutsideReads(const Program& program, const ProgramFacts& facts,
               const std::vector<bool>& is_live)
      : program_(program), facts_(facts), is_live_(is_live) {}

  // False if one of the results lies as none may, or nothing is alive.
  bool Set(CopyGroup& group) const {
    // By op of a copy, and result.
    std::vector<std::vector<bool>> is_needed(group.size);
    const OpId first = group.copies[0].begin;
    for (int32_t i = 0; i < group.size; ++i) {
      is_needed[i].resize(program_.ops()[first + i].results.size(), false);
    }
    for (const Copy& copy : group.copies) {
      for (int32_t i = 0; i < group.size; ++i) {
        const Op& op = program_.ops()[copy.begin + i];
        for (size_t r = 0; r < op.results.size(); ++r) {
          if (!is_needed[i][r] &&
              IsReadOutside(op.results[r], copy.begin, group.size)) {
            is_needed[i][r] = true;
          }
        }
      }
    }
    if (!AddNeeded(is_needed, group)) return false;
    FindDead(is_needed, group);
    return std::find(group.is_dead.begin(), group.is_dead.end(), false) !=
           group.is_dead.end();
  }

 private:
  bool IsReadOutside(ValueId id, OpId begin, int32_t size) const {
    const absl::Span<const OpId> readers = facts_.ReadersOf(id);
    const bool is_kept = facts_.NumUses(id) > static_cast<int>(readers.size());
    return is_kept ||
           std::any_of(readers.begin(), readers.end(), [&](OpId reader) {
             return (reader < begin || reader >= begin + size) &&
                    is_live_[reader];
           });
  }

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
  const ProgramFacts& facts_;
  const std::vector<bool>& is_live_;
};

// What a function is given: of a view what that is a view of.
class InputFinder {
 public:
  InputFinder(const Program& program, CopyGroup& group)
      : program_(program), group_(group) {}

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
  // The view that makes a value; null if none does.
  const Op* ViewOf(ValueId id) const {
    const Value& value = program_.value(id);
    if (value.kind != ValueKind::kResult) return nullptr;
    const Op& op = program_.ops()[value.index];
    return op.def->is_view() ? &op : nullptr;
  }

  ValueId BaseOf(ValueId id, size_t depth) const {
    for (; depth > 0; --depth) {
      id = std::get<ValueRef>(ViewOf(id)->arguments[0]).id;
    }
    return id;
  }

  // The views behind each other, from what they are of on, that lead to the
  // external in all copies.
  std::vector<OpId> CommonViews(size_t external) const {
    std::vector<OpId> views;
    ValueId first = group_.copies[0].externals[external];
    for (size_t depth = 0;; ++depth) {
      const Op* view = ViewOf(first);
      if (view == nullptr) break;
      const ValueId base = std::get<ValueRef>(view->arguments[0]).id;
      const bool is_common = std::all_of(
          group_.copies.begin(), group_.copies.end(), [&](const Copy& copy) {
            const Op* other = ViewOf(BaseOf(copy.externals[external], depth));
            return other != nullptr && SameOp(program_, *view, *other) &&
                   SameType(program_, base,
                            std::get<ValueRef>(other->arguments[0]).id);
          });
      if (!is_common) break;
      views.push_back(program_.value(first).index);
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
  CopyGroup& group_;
};

}  // namespace

std::vector<CopyGroup> GroupCopies(const Program& program,
                                   const ProgramFacts& facts,
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
    comparisons.emplace_back(program, is_live, begin, repeat.period,
                             are_origins);
    groups.push_back({.copies = {{.begin = begin,
                                  .externals = comparisons.back().externals()}},
                      .size = repeat.period});
  }
  const OutsideReads outside(program, facts, is_live);
  std::erase_if(groups, [&](CopyGroup& group) {
    return group.copies.size() < 2 || !outside.Set(group);
  });
  for (CopyGroup& group : groups) InputFinder(program, group).Run();
  return groups;
}

uint64_t WordOf(const Program& program, const Op& op) {
  uint64_t word = absl::HashOf(op.def, op.arguments.size());
  for (const Argument& argument : op.arguments) {
    uint64_t value = 0;
    if (const auto* number = std::get_if<int64_t>(&argument)) {
      value = static_cast<uint64_t>(*number);
    } else if (const auto* list =
                   std::get_if<std::vector<int64_t>>(&argument)) {
      value = absl::HashOf(*list);
    } else if (const auto* refs = std::get_if<ValueRefs>(&argument)) {
      value = refs->size();
    }
    word = absl::HashOf(word, argument.index(), value);
  }
  // One object for all types of one form.
  for (ValueId id : op.results) {
    word = absl::HashOf(word, program.value(id).type);
  }
  for (const auto& body : op.bodies) word = absl::HashOf(word, body.get());
  return word;
}

}  // namespace mica
