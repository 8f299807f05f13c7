// What is to be computed between a program's forks.

#ifndef MICA_ANALYSIS_WAYS_WAY_PARTS_H_
#define MICA_ANALYSIS_WAYS_WAY_PARTS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "analysis/lower/tape.h"
#include "analysis/ways/ways.h"

namespace mica {

// Values that a node, or what may follow, takes of those before it; not leaves,
// which are arguments, the state and constants.
using WantedNames = absl::btree_set<Ways::Name>;

// By node; of those that aren't reached, nothing.
std::vector<WantedNames> FindWanted(const Ways& ways);

// The calls of a node of Ways.
struct WayPart {
  // Inputs: arguments, then what came before. Results: `results`. Host results:
  // numbers that are compared.
  Tape tape;
  std::vector<int32_t> args;          // By number in the run's Tape::inputs.
  std::vector<TapeTensorId> kept;     // Of the run's tape,
  std::vector<int32_t> states;        // by number in its Tape::states,
  std::vector<TapeTensorId> results;  // and of it again.
  // What the fork behind it asks: the element of a tensor of the run's tape, or
  // a comparison of numbers. Neither at a join and at the end.
  TapeTensorId read = kNoTapeTensor;
  struct Number {
    int32_t index = -1;                 // Among the host results; or
    TapeTensorId read = kNoTapeTensor;  // the element of this; or
    double constant = 0;
  };
  std::string comparison;  // Its operator; empty for none.
  Number a, b;
};

// `wanted` is what FindWanted() gives. FailedPrecondition if the node can't be
// computed by itself.
absl::StatusOr<WayPart> MakeWayPart(const Ways& ways, int32_t node,
                                    absl::Span<const WantedNames> wanted);

// What names stand for from the edge on, and for what before it.
std::vector<std::pair<Ways::Name, Ways::Name>> FindMoves(
    const Ways::Edge& edge, const Ways& ways,
    absl::Span<const WantedNames> wanted);

// Whether a tensor of a tape is an argument, of the state, or a constant.
bool IsLeaf(const TapeTensor& tensor);

}  // namespace mica

#endif  // MICA_ANALYSIS_WAYS_WAY_PARTS_H_
