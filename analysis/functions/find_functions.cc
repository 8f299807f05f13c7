#include "analysis/functions/find_functions.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "analysis/functions/copies.h"
#include "analysis/functions/op_table.h"
#include "analysis/functions/repeats.h"
#include "analysis/passes/rewrite.h"
#include "framework/base/large_vector.h"
#include "framework/base/status.h"
#include "framework/ir/program_editor.h"

namespace mica {
namespace {

// How many values more may be handed on where that leaves a copy more.
constexpr int64_t kValuesForACopy = 2;
// Of a value between two elementwise ops, which become one.
constexpr int64_t kCutRegion = 100;
// Ops that are worth it that some of them don't become one.
constexpr int32_t kLargeFunction = 64;

class Finder {
 public:
  Finder(const Program& program, const OpRegistry& ops,
         const FindOptions& options)
      : program_(program),
        ops_(ops),
        options_(options),
        table_(program),
        is_live_(table_.FindLiveOps()) {}

  absl::StatusOr<std::optional<Program>> Run() {
    for (const Repeat& repeat :
         FindRepeats(table_.words(), options_.fewest_ops)) {
      if (repeat.saved() < options_.least_saved) continue;
      for (CopyGroup& group : GroupCopies(table_, is_live_, Shifted(repeat),
                                          options_.sets_origins)) {
        groups_.push_back(std::move(group));
      }
    }
    SetBorders(table_, is_live_, groups_);
    if (groups_.empty()) return std::nullopt;
    return Rewrite();
  }

 private:
  // Op number `i` of a copy.
  const Op& OpOf(const Copy& copy, int32_t i) const {
    return program_.ops()[copy.begin + i];
  }
  OpId OriginOf(OpId id) const {
    return options_.sets_origins ? id : program_.ops()[id].source.origin;
  }
  SourceLine SourceOf(OpId id) const {
    SourceLine source = program_.ops()[id].source;
    source.origin = OriginOf(id);
    return source;
  }

  bool IsElementwise(OpId id) const {
    return table_.first_of_form(table_.form(id)).def->is_elementwise();
  }
  bool IsView(OpId id) const {
    return table_.first_of_form(table_.form(id)).def->is_view();
  }
  // The first value that these ops make; any if they make none.
  ValueId FirstResultFrom(OpId begin, OpId end) const {
    while (begin < end && table_.num_results(begin) == 0) ++begin;
    return begin < end ? table_.result(begin, 0) : 0;
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
    // By result of the first op on: the last op in the run that reads it.
    const ValueId first_value = FirstResultFrom(repeat.begin, repeat.end());
    std::vector<OpId> last_readers;
    for (OpId i = repeat.begin; i < repeat.end(); ++i) {
      for (ValueId id : table_.operands(i)) {
        if (table_.producer(id) < repeat.begin) continue;
        const auto place = static_cast<size_t>(id - first_value);
        if (place >= last_readers.size()) last_readers.resize(place + 1, -1);
        last_readers[place] = i;
      }
    }
    for (OpId i = repeat.begin; i < repeat.end(); ++i) {
      const bool is_elementwise = IsElementwise(i);
      for (int32_t r = 0; r < table_.num_results(i); ++r) {
        const ValueId id = table_.result(i, r);
        const auto place = static_cast<size_t>(id - first_value);
        const OpId last =
            place < last_readers.size() ? std::max(i, last_readers[place]) : i;
        add(i, last, table_.is_read_once(id) ? 2 : 1);
        const OpId reader = table_.first_reader(id);
        if (is_elementwise && reader >= 0 && IsElementwise(reader)) {
          add(i, std::min(reader, repeat.end()), kCutRegion);
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

  // A name for people: of the module that the first copy is of.
  std::string NameOf(const CopyGroup& group) const {
    const SourceLine& source = OpOf(group.copies[0], 0).source;
    const std::string scope = source.scope == nullptr ? "layer" : *source.scope;
    return absl::StrCat(scope, source.is_backward ? ".backward" : "");
  }

  absl::StatusOr<std::shared_ptr<const Program>> MakeFunction(
      const CopyGroup& group) const {
    const Copy& copy = group.copies[0];
    ProgramBuilder builder(ops_, NameOf(group));
    builder.Reserve(copy.inputs.size() + group.size, group.size);
    for (const OpDef* def : program_.OpaqueDefs()) {
      MICA_RETURN_IF_ERROR(builder.DeclareOpaque(def->schema()));
    }
    absl::flat_hash_map<ValueId, ValueId> ids;
    for (ValueId id : copy.inputs) {
      MICA_ASSIGN_OR_RETURN(ids[id], builder.AddInput(program_.value(id).name,
                                                      program_.type(id)));
    }
    const auto add = [&](OpId from, SourceLine source) -> absl::Status {
      const Op& op = program_.ops()[from];
      MICA_ASSIGN_OR_RETURN(const OpDef* def, builder.FindOp(op.def->name()));
      ProgramBuilder::OpSpec spec{.def = def,
                                  .arguments = op.arguments,
                                  .source = std::move(source),
                                  .bodies = op.bodies};
      RenameValues(spec.arguments, [&](ValueId id) { return ids.at(id); });
      for (ValueId id : op.results) {
        spec.types.push_back(program_.type(id));
        spec.names.push_back(program_.value(id).name);
      }
      MICA_ASSIGN_OR_RETURN(const auto results, builder.AddOp(std::move(spec)));
      for (size_t r = 0; r < results.size(); ++r) {
        ids[op.results[r]] = results[r];
      }
      return absl::OkStatus();
    };
    // Other ops' before them: their line is that of the layer's first op.
    for (const External& external : group.externals) {
      for (OpId view : external.views) {
        if (ids.contains(program_.ops()[view].results[0])) continue;
        MICA_RETURN_IF_ERROR(add(view, SourceOf(copy.begin)));
      }
    }
    for (int32_t i = 0; i < group.size; ++i) {
      if (group.is_dead[i]) continue;
      MICA_RETURN_IF_ERROR(add(copy.begin + i, SourceOf(copy.begin + i)));
    }
    std::vector<ValueId> outputs;
    for (const LocalResult& result : group.results) {
      outputs.push_back(ids.at(OpOf(copy, result.op).results[result.result]));
    }
    MICA_ASSIGN_OR_RETURN(Program function, builder.BuildBody(outputs));
    return std::make_shared<const Program>(std::move(function));
  }

  absl::Status Call(const CopyGroup& group, const Copy& copy,
                    const std::shared_ptr<const Program>& function,
                    Rewriter& rewriter) {
    ProgramBuilder& builder = rewriter.builder();
    const auto call = static_cast<OpId>(builder.ops().size());
    std::vector<ValueId> operands, results;
    std::vector<absl::string_view> names;
    for (ValueId id : copy.inputs) operands.push_back(rewriter.NewId(id));
    for (const LocalResult& result : group.results) {
      results.push_back(table_.result(copy.begin + result.op, result.result));
      names.push_back(program_.value(results.back()).name);
    }
    // What is checked of one call holds of all.
    const auto [first, is_first] = first_calls_.try_emplace(&group, call);
    if (is_first || !builder.AddOpLike(first->second, operands, names)) {
      MICA_ASSIGN_OR_RETURN(const OpDef* def, builder.FindOp("mica.call"));
      ValueRefs refs;
      for (ValueId id : operands) refs.push_back(ValueRef{id});
      MICA_RETURN_IF_ERROR(builder
                               .AddOp({.def = def,
                                       .arguments = {std::move(refs)},
                                       .names = std::vector<std::string>(
                                           names.begin(), names.end()),
                                       .bodies = {function}})
                               .status());
    }
    const Op& made = builder.ops()[call];
    for (size_t i = 0; i < results.size(); ++i) {
      rewriter.Map(results[i], made.results[i]);
    }
    SourceLine source = SourceOf(copy.begin);
    source.origin_shift =
        OriginOf(copy.begin) - OriginOf(group.copies[0].begin);
    origins_.push_back(source.origin);
    call_sources_.emplace_back(call, std::move(source));
    for (int32_t i : group.views) {
      if (!is_read_[table_.result(copy.begin + i, 0)]) continue;
      MICA_RETURN_IF_ERROR(CopyOp(copy.begin + i, rewriter));
    }
    return absl::OkStatus();
  }

  absl::Status CopyOp(OpId id, Rewriter& rewriter) {
    origins_.push_back(OriginOf(id));
    return rewriter.CopyOp(program_.ops()[id]);
  }

  // An op of the new Program: a call, or an op that is copied.
  struct Part {
    OpId op = -1;
    const CopyGroup* group = nullptr;  // Of a call.
    const Copy* copy = nullptr;
  };

  // In order. What a dead op reads may be no result any more.
  std::vector<Part> FindParts() const {
    absl::flat_hash_map<OpId, Part> calls;
    for (const CopyGroup& group : groups_) {
      for (const Copy& copy : group.copies) {
        calls[copy.begin] = {copy.begin, &group, &copy};
      }
    }
    std::vector<Part> parts;
    for (OpId i = 0; i < static_cast<OpId>(program_.ops().size());) {
      const auto it = calls.find(i);
      if (it != calls.end()) {
        parts.push_back(it->second);
        i += it->second.group->size;
        continue;
      }
      if (is_live_[i]) parts.push_back({.op = i});
      ++i;
    }
    return parts;
  }

  // Sets is_read_. Most views of what a function returns are made anew in other
  // functions, which are given what they are of; nobody reads them outside.
  void NoteReads(absl::Span<const Part> parts) {
    is_read_.assign(program_.num_values(), false);
    const auto read = [this](ValueId id) {
      if (id != kNoValue) is_read_[id] = true;
    };
    for (ValueId id : program_.outputs()) read(id);
    for (const Update& update : program_.updates()) read(update.value);
    const auto read_by = [&](OpId op) {
      for (ValueId id : table_.operands(op)) is_read_[id] = true;
    };
    const auto read_by_view = [&](OpId view) {
      if (is_read_[table_.result(view, 0)]) read_by(view);
    };
    for (size_t i = parts.size(); i-- > 0;) {
      const Part& part = parts[i];
      if (part.copy == nullptr) {
        if (IsView(part.op)) {
          read_by_view(part.op);
        } else {
          read_by(part.op);
        }
        continue;
      }
      const std::vector<int32_t>& views = part.group->views;
      for (auto it = views.rbegin(); it != views.rend(); ++it) {
        read_by_view(part.copy->begin + *it);
      }
      for (ValueId id : part.copy->inputs) read(id);
    }
  }

  absl::StatusOr<std::optional<Program>> Rewrite() {
    absl::flat_hash_map<const CopyGroup*, std::shared_ptr<const Program>>
        functions;
    for (const CopyGroup& group : groups_) {
      MICA_ASSIGN_OR_RETURN(functions[&group], MakeFunction(group));
    }
    const std::vector<Part> parts = FindParts();
    NoteReads(parts);
    Rewriter rewriter(program_, ops_);
    MICA_RETURN_IF_ERROR(rewriter.CopyDeclarations());
    for (const Part& part : parts) {
      if (part.copy != nullptr) {
        MICA_RETURN_IF_ERROR(
            Call(*part.group, *part.copy, functions[part.group], rewriter));
        continue;
      }
      if (IsView(part.op) && !is_read_[table_.result(part.op, 0)]) continue;
      MICA_RETURN_IF_ERROR(CopyOp(part.op, rewriter));
    }
    MICA_ASSIGN_OR_RETURN(Program program, rewriter.Finish());
    ProgramEditor editor(std::move(program));
    for (auto& [call, source] : call_sources_) {
      editor.source(call) = std::move(source);
    }
    for (OpId id = 0; options_.sets_origins && id < editor.num_ops(); ++id) {
      editor.source(id).origin = origins_[id];
    }
    return editor.Freeze();
  }

  const Program& program_;
  const OpRegistry& ops_;
  const FindOptions options_;
  const OpTable table_;
  const std::vector<bool> is_live_;  // By op.
  std::vector<CopyGroup> groups_;
  // By value: something that the new Program has reads it.
  std::vector<bool> is_read_;
  // Of the new Program's ops, and of those that are calls.
  LargeVector<OpId> origins_;
  std::vector<std::pair<OpId, SourceLine>> call_sources_;
  absl::flat_hash_map<const CopyGroup*, OpId> first_calls_;
};

}  // namespace

absl::StatusOr<Program> FindFunctions(Program program, const OpRegistry& ops,
                                      const FindOptions& options) {
  MICA_ASSIGN_OR_RETURN(auto found, FindFunctionsOf(program, ops, options));
  return found.has_value() ? *std::move(found) : std::move(program);
}

absl::StatusOr<std::optional<Program>> FindFunctionsOf(
    const Program& program, const OpRegistry& ops, const FindOptions& options) {
  if (program.first_bounded_op() >= 0) return std::nullopt;
  return Finder(program, ops, options).Run();
}

}  // namespace mica
