// The rules by which ops are regions' instructions, as text.

#ifndef MICA_ANALYSIS_FUSE_REGION_RULE_TABLE_H_
#define MICA_ANALYSIS_FUSE_REGION_RULE_TABLE_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace mica {

// A rule's code is a region's, but pI is the op's parameter I, and types are
//
//   t  the result's dtype
//   c  what that is computed in: f32 for floats of 16 bits
//   q  what the parameters promote to, r what that is computed in
//
// so that an op of several instructions is rounded once, as eager does it.
// "p1:q" is the parameter rounded to that type first, where eager makes a
// tensor of a number. A rule counts if all parameters that its code names are
// given, and those that `given` names are as it says: "p2=none p3=floor". It
// may want a dtype of the result, too, where eager computes differently in it:
// "t=bf16".
// Of an operator's rules the first that counts is taken.
//
// A rule with reductions says which parameter gives their axes, an int or a
// list; None or an empty list means all.
struct RegionRule {
  static constexpr int kNone = -1, kAll = -2;

  absl::string_view op;
  absl::string_view code;
  absl::string_view given = "";
  int axes = kNone;
};

absl::Span<const RegionRule> RegionRules();

}  // namespace mica

#endif  // MICA_ANALYSIS_FUSE_REGION_RULE_TABLE_H_
