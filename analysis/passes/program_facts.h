// What the passes over a Program ask of it.

#ifndef MICA_ANALYSIS_PASSES_PROGRAM_FACTS_H_
#define MICA_ANALYSIS_PASSES_PROGRAM_FACTS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/base/large_vector.h"
#include "framework/ir/program.h"

namespace mica {

inline constexpr OpId kNoOp = -1;

// Who makes and who reads each value of a Program, which must outlive it.
class ProgramFacts {
 public:
  explicit ProgramFacts(const Program& program);

  const Op& op(OpId id) const { return program_.ops()[id]; }
  bool Is(OpId id, absl::string_view name) const {
    return id != kNoOp && op(id).def->name() == name;
  }
  // The value given for a parameter; kNoValue for anything else.
  static ValueId ValueOf(const Op& op, int param);
  // The op that makes `value`; kNoOp for inputs, variables and constants.
  OpId ProducerOf(ValueId value) const;
  // The ops that read `value`, in order, once for each time they do.
  absl::Span<const OpId> ReadersOf(ValueId value) const {
    return {
        readers_.data() + first_reader_[value],
        static_cast<size_t>(first_reader_[value + 1] - first_reader_[value])};
  }
  // How many ops, updates and returns read `value`.
  int NumUses(ValueId value) const { return uses_[value]; }
  // The one op that reads `value` and nothing else does; kNoOp otherwise.
  OpId OnlyReader(ValueId value) const {
    const absl::Span<const OpId> readers = ReadersOf(value);
    return uses_[value] == 1 && readers.size() == 1 ? readers[0] : kNoOp;
  }
  // True if nobody can tell that `value` has other strides: no view of it, no
  // update or result, no operator that looks at strides.
  bool MayChangeStrides(ValueId value) const;

 private:
  const Program& program_;
  LargeVector<int> uses_;
  // Those of value v are [first_reader_[v], first_reader_[v + 1]): a vector for
  // each would take longer to make than most passes take.
  LargeVector<int> first_reader_;
  LargeVector<OpId> readers_;
};

// HasEffect(), which looks at all that an op does: of a function once, however
// often it is called.
class Effects {
 public:
  bool Has(const Op& op);

 private:
  absl::flat_hash_map<const Program*, bool> functions_;
};

// What `outputs`, updates and effects of a Program depend on.
struct Live {
  std::vector<bool> values;
  std::vector<bool> ops;
};
// Branches and loops count as a whole.
Live FindLive(const Program& program, absl::Span<const ValueId> outputs);

// True if `argument` is the constant number `wanted`.
bool IsNumber(const Argument& argument, double wanted);

// The word of Mica's fused ops for an activation op; nothing for another op.
std::optional<std::string> ActivationName(const Op& op);

}  // namespace mica

#endif  // MICA_ANALYSIS_PASSES_PROGRAM_FACTS_H_
