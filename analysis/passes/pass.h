// What a pass is: a function from Program to Program, and what is known of it.

#ifndef MICA_ANALYSIS_PASSES_PASS_H_
#define MICA_ANALYSIS_PASSES_PASS_H_

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "framework/ir/program.h"
#include "framework/kernel/kernel_registry.h"
#include "framework/op/op_registry.h"

namespace mica {

// Which regions merge-elementwise makes (pipeline/fusing.h).
struct RegionLimits {
  bool reduces = true;  // Reductions are part of them.
  int64_t most = std::numeric_limits<int64_t>::max();  // Of a Program: so many.
};

// What a pass may look up. Both registries outlive it and the Programs that it
// makes.
struct PassContext {
  const OpRegistry& ops;
  const KernelRegistry& kernels;
  RegionLimits regions = {};
};

// The names of the operators that occur in a Program: what a pass is asked by,
// so that ten passes needn't each look at every op to find that they have
// nothing to do.
class OpNames {
 public:
  // Those in bodies, at every depth, too.
  static OpNames WithBodies(const Program& program);
  // Those of the Program itself.
  static OpNames Of(const Program& program);

  bool Has(absl::string_view name) const { return names_.contains(name); }
  // True if one of them is there.
  bool HasAny(std::initializer_list<absl::string_view> names) const;
  bool HasAll(std::initializer_list<absl::string_view> names) const;

 private:
  void Add(const Op& op);

  absl::flat_hash_set<const OpDef*> defs_;
  absl::flat_hash_set<absl::string_view> names_;
};

// One pass. It keeps what a Program means: inputs, variables, constants'
// values, updates, returns and effects are as before; what it computes differs
// at most as `contract` says. Each op that it makes carries the SourceLine of
// one that it replaces.
struct Pass {
  absl::string_view name;  // "fuse-linear".
  // What it wants, what it leaves and what it never touches, in a sentence.
  absl::string_view contract;
  absl::StatusOr<Program> (*run)(Program program, const PassContext& context);
  // Whether it has anything to do where these operators occur; null: always.
  // It may be run where it has nothing to do.
  bool (*applies)(const OpNames& names) = nullptr;
  // Whether what it makes of such a Program depends on more of its sizes than
  // which are equal, 0 or 1, or on where elements lie densely; null: never.
  // Programs that differ in sizes alone share what passes that never do have
  // made of the first (plan/plan_structure.h).
  bool (*reads_sizes)(const OpNames& names) = nullptr;
  // For a pass that comes first: the same of a Program whose ops have no
  // origins yet (SourceLine::origin), which it gives them; nothing if it leaves
  // it as it is. Spares a copy of what may be large.
  absl::StatusOr<std::optional<Program>> (*run_on_given)(
      const Program& program, const PassContext& context) = nullptr;
  // The pipeline runs it on bodies first, each by itself; otherwise it looks
  // after them itself.
  bool is_by_block = true;
};

}  // namespace mica

#endif  // MICA_ANALYSIS_PASSES_PASS_H_
