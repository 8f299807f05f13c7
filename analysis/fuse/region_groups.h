// Which ops become one region.

#ifndef MICA_ANALYSIS_FUSE_REGION_GROUPS_H_
#define MICA_ANALYSIS_FUSE_REGION_GROUPS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "analysis/fuse/region_rules.h"
#include "framework/ir/program.h"

namespace mica {

struct RegionGroup {
  std::vector<OpId> ops;      // In order; none: it has become part of another.
  OpId at = -1;               // Where it stands: behind all that it reads.
  Dims dims;                  // Of the elements that its loops meet.
  std::vector<int64_t> axes;  // That its reductions go along; perhaps none.
  size_t num_steps = 0;
  bool is_open = true;  // Nothing else reads it yet.
  absl::flat_hash_set<ValueId> operands;

  // The dims of what is reduced, the axes with 1 or left out.
  Dims KeptDims() const;
  Dims DroppedDims() const;
};

// Groups of elementwise ops and, where `reduces`, reductions, of which each op
// reads another. A group closes when an op that isn't its member reads a
// result, so that it can stand where its last member stood; reductions of what
// it makes become members even then, since they read nothing else.
class RegionGroups {
 public:
  RegionGroups(const Program& program, bool reduces);

  const std::vector<RegionGroup>& groups() const { return groups_; }
  // CountUses() of the Program.
  const std::vector<int>& uses() const { return uses_; }
  // Null if the op is in none.
  const RegionGroup* GroupOf(OpId id) const {
    return group_of_[id] == kNoGroup ? nullptr : &groups_[group_of_[id]];
  }
  // Its instructions; none of a view of what another member has reduced.
  const RegionMember& member(OpId id) const { return members_[id]; }
  // Whether a member's result has an element for each kept place alone.
  bool IsReduced(OpId id) const { return levels_[id] != Level::kElement; }

 private:
  static constexpr int kNoGroup = -1;

  // What a member's result has an element for: each place of the group's dims,
  // or each that is kept, with the reduced axes as ones or so that it
  // broadcasts as if; or without them.
  enum class Level : uint8_t { kElement, kKept, kDropped };

  // No steps if the op can't be a member.
  RegionMember Translate(const Op& op) const;
  void Place(OpId id);
  bool PlaceView(OpId id);
  bool PlaceLate(OpId id);
  std::vector<int> OpenGroupsRead(OpId id) const;
  // The group that makes `value`, kNoGroup if none or if it is closed.
  int OpenGroupOf(ValueId value) const;
  // What `id` would be as a member of `group`; nothing if it can't be one.
  std::optional<Level> LevelIn(const RegionGroup& group, int index,
                               OpId id) const;
  std::optional<Level> ReducedLevel(const RegionGroup& group,
                                    const Dims& dims) const;
  RegionGroup NewGroup(OpId id) const;
  // Adds an op to groups, which become one; to a new one if that would be too
  // large.
  void Join(OpId id, const std::vector<int>& groups, Level level);
  void Add(OpId id, RegionGroup group, Level level);

  const Op& op(OpId id) const { return program_.ops()[id]; }
  const TensorType& ResultType(OpId id) const {
    return program_.type(op(id).results[0]);
  }
  Level LevelOf(ValueId value) const {
    return levels_[program_.value(value).index];
  }

  const Program& program_;
  const bool reduces_;
  const std::vector<int> uses_;
  std::vector<int> group_of_;          // By op.
  std::vector<RegionMember> members_;  // By op.
  std::vector<Level> levels_;          // By op, of members.
  std::vector<RegionGroup> groups_;
};

}  // namespace mica

#endif  // MICA_ANALYSIS_FUSE_REGION_GROUPS_H_
