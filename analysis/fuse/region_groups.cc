#include "analysis/fuse/region_groups.h"

#include <algorithm>
#include <utility>

#include "analysis/passes/rewrite.h"

namespace mica {
namespace {

// More values than this at once leave the registers.
constexpr size_t kMostMembers = 24;
constexpr size_t kMostSteps = 64;
constexpr size_t kMostOperands = 24;
constexpr size_t kMostOperandsOfReductions = 16;

bool MakesRegions(const TensorType& type) {
  return !IsComplex(type.dtype) && !type.is_scalar && type.is_dense() &&
         type.num_elements() > 0;
}

bool IsView(const Op& op) {
  const absl::string_view name = op.def->name();
  return name == "aten.unsqueeze" || name == "aten.squeeze.dim" ||
         name == "aten.squeeze.dims" || name == "aten.view" ||
         name == "aten._unsafe_view" || name == "aten.expand";
}

bool IsReducedAlong(const Dims& dims, const RegionGroup& group) {
  const size_t lacks = group.dims.size() - dims.size();
  for (size_t d = 0; d < dims.size(); ++d) {
    const bool is_axis = std::binary_search(
        group.axes.begin(), group.axes.end(), static_cast<int64_t>(lacks + d));
    if (is_axis && dims[d] != 1) return false;
  }
  return true;
}

// Whether dims without the axes broadcast as those with ones in their place.
bool BroadcastsWithout(const RegionGroup& group) {
  size_t kept = 0;
  for (size_t d = 0; d < group.dims.size(); ++d) {
    const bool is_reduced = std::binary_search(
        group.axes.begin(), group.axes.end(), static_cast<int64_t>(d));
    if (is_reduced && kept > 0) return false;
    kept += is_reduced || group.dims[d] == 1 ? 0 : 1;
  }
  return true;
}

}  // namespace

Dims RegionGroup::KeptDims() const {
  Dims kept = dims;
  for (int64_t axis : axes) kept[axis] = 1;
  return kept;
}

Dims RegionGroup::DroppedDims() const {
  Dims dropped;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (!std::binary_search(axes.begin(), axes.end(),
                            static_cast<int64_t>(d))) {
      dropped.push_back(dims[d]);
    }
  }
  return dropped;
}

RegionGroups::RegionGroups(const Program& program, bool reduces)
    : program_(program),
      reduces_(reduces),
      uses_(CountUses(program)),
      group_of_(program.ops().size(), kNoGroup),
      members_(program.ops().size()),
      levels_(program.ops().size(), Level::kElement) {
  const OpId num_ops = static_cast<OpId>(program_.ops().size());
  for (OpId id = 0; id < num_ops; ++id) Place(id);
}

RegionMember RegionGroups::Translate(const Op& op) const {
  const bool is_one =
      !op.results.empty() &&
      std::all_of(op.results.begin() + 1, op.results.end(),
                  [this](ValueId more) { return uses_[more] == 0; });
  if (!is_one || !MakesRegions(program_.type(op.results[0]))) return {};
  RegionMember member = RegionMemberOf(program_, op);
  if (member.axes.empty()) return member;
  // Of an operand without elements nothing can be reduced.
  bool can_reduce = reduces_;
  ForEachValue(op.arguments, [&](ValueId value) {
    can_reduce = can_reduce && MakesRegions(program_.type(value));
  });
  if (!can_reduce) return {};
  return member;
}

int RegionGroups::OpenGroupOf(ValueId value) const {
  const Value& v = program_.value(value);
  if (v.kind != ValueKind::kResult) return kNoGroup;
  const int group = group_of_[v.index];
  return group != kNoGroup && groups_[group].is_open ? group : kNoGroup;
}

std::vector<int> RegionGroups::OpenGroupsRead(OpId id) const {
  std::vector<int> groups;
  ForEachValue(op(id).arguments, [&](ValueId value) {
    const int group = OpenGroupOf(value);
    if (group != kNoGroup &&
        std::find(groups.begin(), groups.end(), group) == groups.end()) {
      groups.push_back(group);
    }
  });
  return groups;
}

std::optional<RegionGroups::Level> RegionGroups::ReducedLevel(
    const RegionGroup& group, const Dims& dims) const {
  if (dims == group.KeptDims()) return Level::kKept;
  if (dims != group.DroppedDims()) return std::nullopt;
  return BroadcastsWithout(group) ? Level::kKept : Level::kDropped;
}

std::optional<RegionGroups::Level> RegionGroups::LevelIn(
    const RegionGroup& group, int index, OpId id) const {
  const RegionMember& member = members_[id];
  const Dims& dims = ResultType(id).dims;
  bool reads_elements = false, reads_kept = false, reads_dropped = false;
  bool reads_others = false;  // But for single numbers.
  bool all_reduced = true;
  bool has_dims = true;  // All it reads of the group, of a reduction.
  ForEachValue(op(id).arguments, [&](ValueId value) {
    const TensorType& type = program_.type(value);
    const int from = OpenGroupOf(value);
    const bool may_join = from != kNoGroup && !group.axes.empty() &&
                          groups_[from].axes == group.axes &&
                          groups_[from].dims == group.dims;
    if (from != index && !may_join) {
      reads_others = reads_others || type.rank() > 0;
      all_reduced = all_reduced && IsReducedAlong(type.dims, group);
      return;
    }
    const Level level = LevelOf(value);
    all_reduced = all_reduced && level != Level::kElement;
    reads_elements = reads_elements || level == Level::kElement;
    reads_kept = reads_kept || level == Level::kKept;
    reads_dropped = reads_dropped || level == Level::kDropped;
    has_dims = has_dims && type.dims == group.dims;
  });
  if (!member.axes.empty()) {
    const bool has_axes = group.axes.empty() || group.axes == member.axes;
    if (!has_axes || !has_dims || reads_kept || reads_dropped) {
      return std::nullopt;
    }
    if (!member.is_reduced) return Level::kElement;
    RegionGroup with_axes{.ops = {}, .dims = group.dims, .axes = member.axes};
    return ReducedLevel(with_axes, dims);
  }
  if (dims == group.dims && !reads_dropped) {
    // Of what is reduced and expanded alone it is all equal elements.
    const bool is_expanded = all_reduced && dims != group.KeptDims();
    return is_expanded ? std::nullopt : std::optional(Level::kElement);
  }
  if (group.axes.empty() || reads_elements) return std::nullopt;
  const std::optional<Level> level = ReducedLevel(group, dims);
  if (!level.has_value()) return std::nullopt;
  // Without the axes other operands don't line up.
  if (level == Level::kDropped && (reads_others || reads_kept)) {
    return std::nullopt;
  }
  if (level == Level::kKept && reads_dropped) return std::nullopt;
  return level;
}

void RegionGroups::Place(OpId id) {
  if (PlaceView(id)) return;
  members_[id] = Translate(op(id));
  if (PlaceLate(id)) return;
  const std::vector<int> read = OpenGroupsRead(id);
  const auto close = [&](const std::vector<int>& joined) {
    for (int group : read) {
      if (std::find(joined.begin(), joined.end(), group) == joined.end()) {
        groups_[group].is_open = false;
      }
    }
  };
  if (members_[id].steps.empty()) return close({});
  // One with reductions decides what the others must be like.
  std::vector<int> joined;
  std::optional<Level> level;
  for (bool wants_axes : {true, false}) {
    for (int index : read) {
      const RegionGroup& group = groups_[index];
      if (group.axes.empty() == wants_axes) continue;
      const std::optional<Level> own = LevelIn(group, index, id);
      if (!own.has_value() || (level.has_value() && own != level)) continue;
      const RegionGroup* first = joined.empty() ? nullptr : &groups_[joined[0]];
      const bool fits = first == nullptr ||
                        (group.dims == first->dims &&
                         (group.axes.empty() || group.axes == first->axes));
      if (!fits) continue;
      level = own;
      joined.push_back(index);
    }
  }
  close(joined);
  if (!level.has_value()) {
    level = members_[id].is_reduced
                ? ReducedLevel(NewGroup(id), ResultType(id).dims)
                : std::optional(Level::kElement);
    if (!level.has_value()) {  // Dims that aren't a reduction's.
      members_[id] = {};
      return;
    }
  }
  Join(id, joined, *level);
}

// A view of what a member has reduced, with the axes or without them, or of all
// dims, is that member's result.
bool RegionGroups::PlaceView(OpId id) {
  if (!IsView(op(id))) return false;
  const std::vector<int> read = OpenGroupsRead(id);
  if (read.size() != 1 || groups_[read[0]].axes.empty()) return false;
  const auto* value = std::get_if<ValueRef>(&op(id).arguments[0]);
  if (value == nullptr || OpenGroupOf(value->id) != read[0] ||
      LevelOf(value->id) == Level::kElement) {
    return false;
  }
  const RegionGroup& group = groups_[read[0]];
  const Dims& dims = ResultType(id).dims;
  std::optional<Level> level = ReducedLevel(group, dims);
  // Expanded, it broadcasts as before.
  if (op(id).def->name() == "aten.expand") {
    const bool is_whole =
        dims == group.dims && LevelOf(value->id) == Level::kKept;
    level = is_whole ? std::optional(Level::kKept) : std::nullopt;
  }
  if (!level.has_value() || group.ops.size() >= kMostMembers) return false;
  groups_[read[0]].ops.push_back(id);
  group_of_[id] = read[0];
  levels_[id] = *level;
  return true;
}

// A reduction of what a closed group makes, and of nothing else, may stand
// where that group stands: what is reduced is small, to keep it for longer
// costs little.
bool RegionGroups::PlaceLate(OpId id) {
  const RegionMember& member = members_[id];
  if (member.axes.empty() || !member.is_reduced) return false;
  int index = kNoGroup;
  bool is_one = true;
  ForEachValue(op(id).arguments, [&](ValueId value) {
    const Value& v = program_.value(value);
    const int from =
        v.kind == ValueKind::kResult ? group_of_[v.index] : kNoGroup;
    is_one = is_one && from != kNoGroup &&
             (index == kNoGroup || from == index) &&
             levels_[v.index] == Level::kElement;
    index = from;
  });
  if (!is_one || index == kNoGroup) return false;
  RegionGroup& group = groups_[index];
  const bool fits = !group.is_open &&
                    (group.axes.empty() || group.axes == member.axes) &&
                    group.ops.size() < kMostMembers &&
                    group.num_steps + member.steps.size() <= kMostSteps &&
                    group.operands.size() <= kMostOperandsOfReductions;
  if (!fits) return false;
  RegionGroup with_axes{.ops = {}, .dims = group.dims, .axes = member.axes};
  const auto level = ReducedLevel(with_axes, ResultType(id).dims);
  if (!level.has_value()) return false;
  group.axes = member.axes;
  group.num_steps += member.steps.size();
  group.ops.push_back(id);
  levels_[id] = *level;
  group_of_[id] = index;
  return true;
}

// What it would be in by itself, but for it.
RegionGroup RegionGroups::NewGroup(OpId id) const {
  RegionGroup group;
  group.dims = ResultType(id).dims;
  group.axes = members_[id].axes;
  ForEachValue(op(id).arguments, [&](ValueId value) {
    group.operands.insert(value);
    if (!group.axes.empty()) group.dims = program_.type(value).dims;
  });
  return group;
}

void RegionGroups::Join(OpId id, const std::vector<int>& groups, Level level) {
  RegionGroup joined;
  for (int group : groups) {
    const RegionGroup& from = groups_[group];
    joined.ops.insert(joined.ops.end(), from.ops.begin(), from.ops.end());
    joined.operands.insert(from.operands.begin(), from.operands.end());
    joined.num_steps += from.num_steps;
    joined.dims = from.dims;
    if (!from.axes.empty()) joined.axes = from.axes;
  }
  ForEachValue(op(id).arguments,
               [&](ValueId value) { joined.operands.insert(value); });
  if (!members_[id].axes.empty()) joined.axes = members_[id].axes;
  const size_t most_operands =
      joined.axes.empty() ? kMostOperands : kMostOperandsOfReductions;
  const bool is_too_large =
      joined.ops.size() >= kMostMembers ||
      joined.num_steps + members_[id].steps.size() > kMostSteps ||
      joined.operands.size() > most_operands;
  if (groups.empty() || is_too_large) {
    for (int group : groups) groups_[group].is_open = false;
    joined = NewGroup(id);
    // By itself an op on what was reduced is elementwise.
    if (joined.axes.empty()) level = Level::kElement;
  }
  for (int group : groups) {
    if (groups_[group].is_open) groups_[group] = {.is_open = false};
  }
  Add(id, std::move(joined), level);
}

void RegionGroups::Add(OpId id, RegionGroup group, Level level) {
  group.at = id;
  group.ops.push_back(id);
  group.num_steps += members_[id].steps.size();
  std::sort(group.ops.begin(), group.ops.end());
  levels_[id] = level;
  for (OpId member : group.ops) {
    group_of_[member] = static_cast<int>(groups_.size());
  }
  groups_.push_back(std::move(group));
}

}  // namespace mica
