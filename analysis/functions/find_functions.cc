#include "analysis/functions/find_functions.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "analysis/functions/repeats.h"
#include "analysis/passes/program_facts.h"
#include "analysis/passes/rewrite.h"
#include "framework/base/status.h"
#include "framework/ir/control_flow.h"

namespace mica {
namespace {

// How many values more may be handed on where that leaves a copy more.
constexpr int64_t kValuesForACopy = 2;
// Of a value between two elementwise ops, which become one.
constexpr int64_t kCutRegion = 100;
// Ops that are worth it that some of them don't become one.
constexpr int32_t kLargeFunction = 64;

// A result of an op, counted from a copy's first op.
struct LocalResult {
  int32_t op = 0;
  int32_t result = 0;
  friend bool operator==(const LocalResult&, const LocalResult&) = default;
  friend bool operator<(const LocalResult& a, const LocalResult& b) {
    return std::make_pair(a.op, a.result) < std::make_pair(b.op, b.result);
  }
};

// One copy: its wiring, and what of it is outside.
struct Copy {
  int32_t begin = 0;  // Where its ops begin in the sequence of all.
  // Of each operand, in order: the op and result of the copy that it is, or
  // {-1, number of the external}.
  std::vector<LocalResult> wiring;
  std::vector<ValueId> externals;  // In the order of their first use.
};

// Copies of one function.
struct Group {
  std::vector<Copy> copies;
  int32_t size = 0;
  std::vector<LocalResult> results;  // That the function returns.
};

class Finder {
 public:
  Finder(const Program& program, const OpRegistry& ops,
         const FindOptions& options)
      : program_(program),
        ops_(ops),
        options_(options),
        facts_(program),
        is_returned_(program.num_values(), false) {
    for (ValueId id : program.outputs()) {
      if (id != kNoValue) is_returned_[id] = true;
    }
  }

  absl::StatusOr<std::optional<Program>> Run() {
    place_.assign(program_.ops().size(), -1);
    std::vector<uint64_t> words;
    for (size_t i = 0; i < program_.ops().size(); ++i) {
      const Op& op = program_.ops()[i];
      place_[i] = static_cast<int32_t>(sequence_.size());
      sequence_.push_back(static_cast<OpId>(i));
      words.push_back(WordOf(op));
    }
    for (const Repeat& repeat : FindRepeats(words, options_.fewest_ops)) {
      if (repeat.saved() < options_.least_saved) continue;
      AddGroup(Shifted(repeat));
    }
    if (groups_.empty()) return std::nullopt;
    return Rewrite();
  }

 private:
  // Op number `i` of a copy.
  const Op& OpOf(const Copy& copy, int32_t i) const {
    return program_.ops()[sequence_[copy.begin + i]];
  }
  // Where in the copy the op is that makes the value; -1 if it is outside.
  int32_t LocalOf(ValueId id, const Copy& copy) const {
    const Value& value = program_.value(id);
    if (value.kind != ValueKind::kResult) return -1;
    return std::max(place_[value.index] - copy.begin, -1);
  }

  // Equal for ops that may be each other's copies.
  uint64_t WordOf(const Op& op) const {
    uint64_t word = absl::HashOf(op.def, op.arguments.size());
    for (const Argument& argument : op.arguments) {
      word = absl::HashOf(word, argument.index());
      if (const auto* number = std::get_if<int64_t>(&argument)) {
        word = absl::HashOf(word, *number);
      } else if (const auto* list =
                     std::get_if<std::vector<int64_t>>(&argument)) {
        word = absl::HashOf(word, *list);
      } else if (const auto* refs = std::get_if<ValueRefs>(&argument)) {
        word = absl::HashOf(word, refs->size());
      }
    }
    // One object for all types of one form.
    for (ValueId id : op.results) {
      word = absl::HashOf(word, program_.value(id).type);
    }
    for (const auto& body : op.bodies) word = absl::HashOf(word, body.get());
    return word;
  }

  // What it costs to begin a copy at each place within a period: how many
  // values are then handed from one copy to the next. One that only one op
  // reads counts twice, since the two may become one op, and much more if both
  // are elementwise.
  std::vector<int64_t> CostsOfBorders(const Repeat& repeat) const {
    std::vector<int64_t> change(repeat.period + 1, 0);
    // The borders before op i + 1 … `last`, counted from the first copy's.
    const auto add = [&](int32_t i, int32_t last, int64_t cost) {
      const int32_t length = std::min(last - i, repeat.period);
      const int32_t from = (i + 1 - repeat.begin) % repeat.period;
      const int32_t to = from + length;
      change[from] += cost;
      change[std::min(to, repeat.period)] -= cost;
      if (to <= repeat.period) return;
      change[0] += cost;
      change[to - repeat.period] -= cost;
    };
    for (int32_t i = repeat.begin; i < repeat.end(); ++i) {
      const Op& op = program_.ops()[sequence_[i]];
      for (ValueId id : op.results) {
        int32_t last = i;
        const absl::Span<const OpId> readers = facts_.ReadersOf(id);
        for (OpId reader : readers) {
          if (place_[reader] < repeat.end()) {
            last = std::max(last, place_[reader]);
          }
        }
        add(i, last, facts_.OnlyReader(id) == kNoOp ? 1 : 2);
        if (!readers.empty() && op.def->is_elementwise() &&
            program_.ops()[readers[0]].def->is_elementwise()) {
          add(i, std::min(place_[readers[0]], repeat.end()), kCutRegion);
        }
      }
    }
    std::vector<int64_t> costs;
    int64_t cost = 0;
    for (int32_t phase = 0; phase < repeat.period; ++phase) {
      costs.push_back(cost += change[phase]);
    }
    return costs;
  }

  // The copies, begun where that costs least. Where it cuts a copy in two, it
  // has to be worth it. None if all ways cost more than they save.
  Repeat Shifted(const Repeat& repeat) const {
    const std::vector<int64_t> costs = CostsOfBorders(repeat);
    const auto cost_of = [&](int32_t phase) {
      return costs[phase] + (phase > repeat.tail ? kValuesForACopy : 0);
    };
    int32_t best = 0;
    for (int32_t phase = 1; phase < repeat.period; ++phase) {
      if (cost_of(phase) < cost_of(best)) best = phase;
    }
    if (costs[best] >= kCutRegion * (repeat.count - 1) &&
        repeat.period < kLargeFunction) {
      return {};
    }
    Repeat shifted = repeat;
    shifted.begin += best;
    if (best > repeat.tail) --shifted.count;
    return shifted;
  }

  Copy CopyAt(int32_t begin, int32_t size) const {
    Copy copy{.begin = begin};
    absl::flat_hash_map<ValueId, int32_t> externals;
    for (int32_t i = 0; i < size; ++i) {
      ForEachValue(OpOf(copy, i).arguments, [&](ValueId id) {
        if (const int32_t local = LocalOf(id, copy); local >= 0) {
          copy.wiring.push_back({local, program_.value(id).result});
          return;
        }
        const auto [it, is_new] = externals.try_emplace(
            id, static_cast<int32_t>(copy.externals.size()));
        if (is_new) copy.externals.push_back(id);
        copy.wiring.push_back({-1, it->second});
      });
    }
    return copy;
  }

  static bool SameArguments(const Arguments& a, const Arguments& b) {
    if (a.size() != b.size()) return false;
    const auto is_value = [](const Argument& argument) {
      return std::holds_alternative<ValueRef>(argument);
    };
    for (size_t i = 0; i < a.size(); ++i) {
      if (is_value(a[i]) && is_value(b[i])) continue;
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

  OpId ShiftOf(const Copy& from, const Copy& to) const {
    return OpOf(to, 0).source.origin - OpOf(from, 0).source.origin;
  }

  bool AreCopies(const Copy& a, const Copy& b, int32_t size) const {
    if (a.wiring != b.wiring || a.externals.size() != b.externals.size()) {
      return false;
    }
    const auto same_type = [&](ValueId x, ValueId y) {
      return program_.value(x).type == program_.value(y).type ||
             program_.type(x) == program_.type(y);
    };
    if (!std::equal(a.externals.begin(), a.externals.end(), b.externals.begin(),
                    same_type)) {
      return false;
    }
    const OpId shift = ShiftOf(a, b);
    for (int32_t i = 0; i < size; ++i) {
      const Op& x = OpOf(a, i);
      const Op& y = OpOf(b, i);
      // One number leads from all ops' origins to the copies'.
      if (x.source.origin + shift != y.source.origin) return false;
      if (x.def != y.def || x.bodies != y.bodies ||
          x.source.is_backward != y.source.is_backward ||
          !SameArguments(x.arguments, y.arguments) ||
          !std::equal(x.results.begin(), x.results.end(), y.results.begin(),
                      y.results.end(), same_type)) {
        return false;
      }
    }
    return true;
  }

  // Of what stands there, the copies of what most of it is.
  void AddGroup(const Repeat& repeat) {
    std::vector<Group> groups;
    for (int32_t c = 0; c < repeat.count; ++c) {
      Copy copy = CopyAt(repeat.begin + c * repeat.period, repeat.period);
      const auto it =
          std::find_if(groups.begin(), groups.end(), [&](const Group& group) {
            return AreCopies(group.copies[0], copy, repeat.period);
          });
      if (it != groups.end()) {
        it->copies.push_back(std::move(copy));
      } else {
        groups.push_back({.copies = {std::move(copy)}, .size = repeat.period});
      }
    }
    for (Group& group : groups) {
      if (group.copies.size() >= 2 && FindResults(group)) {
        groups_.push_back(std::move(group));
      }
    }
  }

  bool IsReadOutside(ValueId id, const Copy& copy, int32_t size) const {
    const absl::Span<const OpId> readers = facts_.ReadersOf(id);
    const bool is_kept = facts_.NumUses(id) > static_cast<int>(readers.size());
    return is_kept ||
           std::any_of(readers.begin(), readers.end(), [&](OpId reader) {
             const int32_t place = place_[reader] - copy.begin;
             return place < 0 || place >= size;
           });
  }

  // The value that a view shows, which is none itself.
  ValueId BaseOf(ValueId id) const {
    while (program_.value(id).kind == ValueKind::kResult) {
      const Op& op = program_.ops()[program_.value(id).index];
      if (!op.def->is_view()) break;
      id = std::get<ValueRef>(op.arguments[0]).id;
    }
    return id;
  }

  // False if one of them lies as no result may.
  bool FindResults(Group& group) const {
    absl::flat_hash_set<ValueId> needed;  // Of the first copy.
    const Copy& first = group.copies[0];
    for (const Copy& copy : group.copies) {
      for (int32_t i = 0; i < group.size; ++i) {
        const Op& op = OpOf(copy, i);
        for (size_t r = 0; r < op.results.size(); ++r) {
          if (!IsReadOutside(op.results[r], copy, group.size)) continue;
          needed.insert(BaseOf(OpOf(first, i).results[r]));
        }
      }
    }
    for (ValueId id : needed) {
      const int32_t local = LocalOf(id, first);
      if (local < 0) continue;  // A view of what is outside.
      const Value& value = program_.value(id);
      if (!(OwnedType(*value.type) == *value.type)) return false;
      group.results.push_back({local, value.result});
    }
    std::sort(group.results.begin(), group.results.end());
    return true;
  }

  // A name for people: of the module that the first copy is of.
  std::string NameOf(const Group& group) const {
    const SourceLine& source = OpOf(group.copies[0], 0).source;
    const std::string scope = source.scope == nullptr ? "layer" : *source.scope;
    return absl::StrCat(scope, source.is_backward ? ".backward" : "");
  }

  absl::StatusOr<std::shared_ptr<const Program>> MakeFunction(
      const Group& group) const {
    const Copy& copy = group.copies[0];
    ProgramBuilder builder(ops_, NameOf(group));
    builder.Reserve(copy.externals.size() + group.size, group.size);
    for (const OpDef* def : program_.OpaqueDefs()) {
      MICA_RETURN_IF_ERROR(builder.DeclareOpaque(def->schema()));
    }
    absl::flat_hash_map<ValueId, ValueId> ids;
    for (ValueId id : copy.externals) {
      MICA_ASSIGN_OR_RETURN(ids[id], builder.AddInput(program_.value(id).name,
                                                      program_.type(id)));
    }
    for (int32_t i = 0; i < group.size; ++i) {
      const Op& op = OpOf(copy, i);
      MICA_ASSIGN_OR_RETURN(const OpDef* def, builder.FindOp(op.def->name()));
      ProgramBuilder::OpSpec spec{.def = def,
                                  .arguments = op.arguments,
                                  .source = op.source,
                                  .bodies = op.bodies};
      RenameValues(spec.arguments, [&](ValueId id) { return ids.at(id); });
      for (ValueId id : op.results) {
        spec.types.push_back(program_.type(id));
        spec.names.push_back(program_.value(id).name);
      }
      MICA_ASSIGN_OR_RETURN(const auto results, builder.AddOp(std::move(spec)));
      for (size_t r = 0; r < results.size(); ++r)
        ids[op.results[r]] = results[r];
    }
    std::vector<ValueId> outputs;
    for (const LocalResult& result : group.results) {
      outputs.push_back(ids.at(OpOf(copy, result.op).results[result.result]));
    }
    MICA_ASSIGN_OR_RETURN(Program function, builder.BuildBody(outputs));
    return std::make_shared<const Program>(std::move(function));
  }

  absl::Status Call(const Group& group, const Copy& copy,
                    const std::shared_ptr<const Program>& function,
                    Rewriter& rewriter) const {
    MICA_ASSIGN_OR_RETURN(const OpDef* def,
                          rewriter.builder().FindOp("mica.call"));
    ValueRefs operands;
    for (ValueId id : copy.externals) {
      operands.push_back(ValueRef{rewriter.NewId(id)});
    }
    ProgramBuilder::OpSpec spec{.def = def,
                                .arguments = {std::move(operands)},
                                .source = OpOf(copy, 0).source,
                                .bodies = {function}};
    spec.source.origin_shift = ShiftOf(group.copies[0], copy);
    std::vector<ValueId> results;
    for (const LocalResult& result : group.results) {
      results.push_back(OpOf(copy, result.op).results[result.result]);
      spec.names.push_back(program_.value(results.back()).name);
    }
    MICA_ASSIGN_OR_RETURN(const auto made,
                          rewriter.builder().AddOp(std::move(spec)));
    for (size_t i = 0; i < made.size(); ++i) rewriter.Map(results[i], made[i]);
    return CopyViews(group, copy, rewriter);
  }

  // Those that are read outside, and the views that they are views of.
  absl::Status CopyViews(const Group& group, const Copy& copy,
                         Rewriter& rewriter) const {
    std::vector<bool> is_needed(group.size, false);
    for (int32_t i = group.size; i-- > 0;) {
      const Op& op = OpOf(copy, i);
      if (!op.def->is_view()) continue;
      if (!is_needed[i] && !IsReadOutside(op.results[0], copy, group.size)) {
        continue;
      }
      is_needed[i] = true;
      const int32_t base =
          LocalOf(std::get<ValueRef>(op.arguments[0]).id, copy);
      if (base >= 0) is_needed[base] = true;
    }
    for (int32_t i = 0; i < group.size; ++i) {
      const Op& op = OpOf(copy, i);
      if (!is_needed[i] || !op.def->is_view()) continue;
      MICA_RETURN_IF_ERROR(rewriter.CopyOp(op));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::optional<Program>> Rewrite() const {
    struct Place {
      const Group* group = nullptr;
      const Copy* copy = nullptr;
      std::shared_ptr<const Program> function;
    };
    absl::flat_hash_map<int32_t, Place> begins;
    std::vector<bool> is_called(sequence_.size(), false);
    for (const Group& group : groups_) {
      MICA_ASSIGN_OR_RETURN(const auto function, MakeFunction(group));
      for (const Copy& copy : group.copies) {
        begins[copy.begin] = {&group, &copy, function};
        std::fill_n(is_called.begin() + copy.begin, group.size, true);
      }
    }
    Rewriter rewriter(program_, ops_);
    MICA_RETURN_IF_ERROR(rewriter.CopyDeclarations());
    for (size_t i = 0; i < program_.ops().size(); ++i) {
      const int32_t place = place_[i];
      if (place < 0 || !is_called[place]) {
        MICA_RETURN_IF_ERROR(rewriter.CopyOp(program_.ops()[i]));
      } else if (const auto it = begins.find(place); it != begins.end()) {
        const Place& found = it->second;
        MICA_RETURN_IF_ERROR(
            Call(*found.group, *found.copy, found.function, rewriter));
      }
    }
    MICA_ASSIGN_OR_RETURN(Program program, rewriter.Finish());
    return program;
  }

  const Program& program_;
  const OpRegistry& ops_;
  const FindOptions options_;
  const ProgramFacts facts_;
  std::vector<bool> is_returned_;  // By value.
  std::vector<OpId> sequence_;     // The ops that may be in copies, in order.
  std::vector<int32_t> place_;     // By op: where it is there, or -1.
  std::vector<Group> groups_;
};

}  // namespace

absl::StatusOr<Program> FindFunctions(Program program, const OpRegistry& ops,
                                      const FindOptions& options) {
  if (program.first_bounded_op() >= 0) return program;
  MICA_ASSIGN_OR_RETURN(auto found, Finder(program, ops, options).Run());
  if (!found.has_value()) return program;
  return *std::move(found);
}

}  // namespace mica
