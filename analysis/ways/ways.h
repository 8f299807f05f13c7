// Runs of one program that went different ways, as one.

#ifndef MICA_ANALYSIS_WAYS_WAYS_H_
#define MICA_ANALYSIS_WAYS_WAYS_H_

#include <compare>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "analysis/lower/tape.h"
#include "analysis/ways/way_run.h"

namespace mica {

// A graph of what runs of one program did between forks and joins, by which the
// program can go any way whose pieces some run went. It has no circle.
//
// The runs begin at one state. So up to the first fork at which they read
// different values they are one; there the graph gets another branch. Where two
// branches come to joins with equal states, all that follows is the same but
// for which tensors the program then has: the one that came later goes on where
// the other one does, its tensors taken for the other's.
//
// A value is known by a run and the number that its tape has for it. A value.
class Ways {
 public:
  struct Name {
    int32_t run = -1;
    TapeTensorId tensor = kNoTapeTensor;
    friend auto operator<=>(const Name&, const Name&) = default;
    template <typename H>
    friend H AbslHashValue(H h, const Name& name) {
      return H::combine(std::move(h), name.run, name.tensor);
    }
  };
  using Names = absl::flat_hash_map<TapeTensorId, Name>;
  struct Edge {
    TapeValue outcome;  // Of the fork that it comes from.
    int32_t node = -1;
    // Of the next node's run: what its tensors are called before.
    Names names;
    // Those of them, at a join, that are others in other runs.
    absl::flat_hash_set<TapeTensorId> taken;
  };
  // A segment of a run, and what comes next: one edge by outcome of the fork
  // that it ends with, one for a join, none at the end.
  struct Node {
    int32_t run = -1;
    int32_t segment = -1;
    std::vector<Edge> next;
  };
  // Whether two states of two runs are equal.
  using SameState = absl::FunctionRef<bool(int32_t run_a, int32_t state_a,
                                           int32_t run_b, int32_t state_b)>;

  // Adds a run. FailedPrecondition, and nothing is added, if it can't be one
  // with the others.
  absl::Status Add(WayRun run, SameState same);

  const std::vector<WayRun>& runs() const { return runs_; }
  // The first is where all runs begin. Some may not be reached any more.
  const std::vector<Node>& nodes() const { return nodes_; }

 private:
  class Walk;

  std::vector<WayRun> runs_;
  std::vector<Node> nodes_;
};

// A line a node that is reached: its calls' operators, what it ends with, and
// where each outcome leads.
std::string ToText(const Ways& ways);

}  // namespace mica

#endif  // MICA_ANALYSIS_WAYS_WAYS_H_
