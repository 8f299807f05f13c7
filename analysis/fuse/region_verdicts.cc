#include "analysis/fuse/region_verdicts.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analysis/fuse/region_groups.h"

namespace mica {
namespace {

class Judge {
 public:
  Judge(const Program& program, const PassContext& context)
      : program_(program),
        can_reduce_(context.kernels.HasFast("mica.reduce", DType::kF32)),
        groups_(program, can_reduce_ && context.regions.reduces),
        first_readers_(groups_.groups().size(), -1) {
    ForEachEdge([&](ValueId, OpId reader, const RegionGroup& group) {
      OpId& first = first_readers_[IndexOf(group)];
      if (first < 0) first = reader;
    });
  }

  std::vector<RegionVerdict> Run() const {
    std::vector<RegionVerdict> verdicts;
    ForEachEdge([&](ValueId value, OpId reader, const RegionGroup& group) {
      verdicts.push_back({value, reader, ReasonOf(reader, group)});
    });
    return verdicts;
  }

 private:
  size_t IndexOf(const RegionGroup& group) const {
    return static_cast<size_t>(&group - groups_.groups().data());
  }

  // Calls visit(value, reader, group) for each value of a group that an op
  // reads which isn't in it.
  template <typename Visit>
  void ForEachEdge(const Visit& visit) const {
    for (OpId id = 0; id < static_cast<OpId>(program_.ops().size()); ++id) {
      std::vector<ValueId> seen;
      ForEachValue(program_.ops()[id].arguments, [&](ValueId value) {
        const Value& v = program_.value(value);
        if (v.kind != ValueKind::kResult) return;
        const RegionGroup* group = groups_.GroupOf(v.index);
        if (group == nullptr || group == groups_.GroupOf(id)) return;
        if (std::find(seen.begin(), seen.end(), value) != seen.end()) return;
        seen.push_back(value);
        visit(value, id, *group);
      });
    }
  }

  std::string ReasonOf(OpId reader, const RegionGroup& group) const {
    const Op& op = program_.ops()[reader];
    const RegionGroup* own = groups_.GroupOf(reader);
    if (own == nullptr) return WhyNoMember(op);
    const Dims& dims = program_.type(op.results[0]).dims;
    if (!own->axes.empty() && !group.axes.empty() && own->axes != group.axes) {
      return absl::StrCat("reduces over ", absl::StrJoin(own->axes, ", "),
                          ", not over ", absl::StrJoin(group.axes, ", "));
    }
    if (own->dims != group.dims) {
      return absl::StrCat("is of [", absl::StrJoin(own->dims, ","), "], not [",
                          absl::StrJoin(group.dims, ","), "]");
    }
    const OpId first = first_readers_[IndexOf(group)];
    if (first >= 0 && first < reader) {
      const Op& other = program_.ops()[first];
      return absl::StrCat(Describe(other), " reads the region before");
    }
    if (!group.axes.empty() && dims != group.dims) {
      return "lacks the reduced dims, and doesn't line up with what it reads";
    }
    return "would make it too large";
  }

  std::string WhyNoMember(const Op& op) const {
    if (op.results.empty()) return "has no result";
    const TensorType& type = program_.type(op.results[0]);
    if (IsComplex(type.dtype)) return "is complex";
    if (type.is_scalar) return "is a host scalar";
    if (!type.is_dense()) return "has gaps in memory";
    if (type.num_elements() == 0) return "has no elements";
    const RegionMember member = RegionMemberOf(program_, op);
    if (member.steps.empty()) return "no rule takes it";
    if (op.results.size() > 1) return "has several results";
    return can_reduce_ ? "reductions are left out (MICA_FUSE)"
                       : "there is no kernel for reductions";
  }

  const Program& program_;
  const bool can_reduce_;
  const RegionGroups groups_;
  std::vector<OpId> first_readers_;  // By group: that is no member.
};

}  // namespace

std::vector<RegionVerdict> RegionVerdicts(const Program& program,
                                          const PassContext& context) {
  return Judge(program, context).Run();
}

std::string RegionVerdictsText(const Program& program,
                               const PassContext& context) {
  std::string text;
  for (const RegionVerdict& verdict : RegionVerdicts(program, context)) {
    const Op& maker = program.ops()[program.value(verdict.value).index];
    absl::StrAppend(&text, Describe(maker), " -> ",
                    Describe(program.ops()[verdict.reader]), ": ",
                    verdict.reason, "\n");
  }
  return text;
}

}  // namespace mica
