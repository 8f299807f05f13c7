// The rounds of loops on a tape, and the tape of more or fewer of them.

#ifndef MICA_ANALYSIS_SIZES_ROUNDS_H_
#define MICA_ANALYSIS_SIZES_ROUNDS_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "analysis/lower/tape.h"

namespace mica {

// What an alias is one of; another tensor itself.
inline TapeTensorId BaseOf(const Tape& tape, TapeTensorId id) {
  const TapeTensor& tensor = tape.tensors[id];
  return tensor.origin == TapeOrigin::kAlias ? tensor.base : id;
}
// By storage, the first tensor that lies in it.
absl::flat_hash_map<int32_t, TapeTensorId> OwnersOf(const Tape& tape);

// The call with which each round of a loop begins, and the end of the last.
using RoundBegins = std::vector<int32_t>;

// Which rounds the calls and the tensors of a tape belong to. A tensor belongs
// to the round that makes it; a constant to the one that uses it, if only one
// does. Loops come one after another. A value.
class Rounds {
 public:
  struct Place {
    int32_t loop = -1;  // -1: in none.
    int32_t round = 0;
    int32_t position = 0;  // In the round.
  };

  Rounds() = default;
  // `likes`: Loop::like of each, if not empty.
  Rounds(const Tape& tape, std::vector<RoundBegins> loops,
         std::vector<int32_t> likes = {});

  int32_t num_loops() const { return static_cast<int32_t>(loops_.size()); }
  int32_t count(int32_t loop) const {
    return static_cast<int32_t>(loops_[loop].size()) - 1;
  }
  std::vector<int32_t> counts() const;
  int32_t num_calls() const { return static_cast<int32_t>(calls_.size()); }
  const RoundBegins& begins(int32_t loop) const { return loops_[loop]; }
  Place OfCall(int32_t call) const { return calls_[call]; }
  Place Of(TapeTensorId tensor) const { return tensors_[tensor]; }
  int32_t CallAt(const Place& place) const {
    return loops_[place.loop][place.round] + place.position;
  }
  // In order.
  absl::Span<const TapeTensorId> TensorsOf(int32_t loop, int32_t round) const {
    return made_[loop][round];
  }
  // kNoTapeTensor if there is none.
  TapeTensorId At(const Place& place) const;

  // What the loop takes one of in each round, in order (1) or from the last one
  // on (-1): the results that call `call` gave as a list, or what each round of
  // an earlier loop made. 0 if it does neither. A loop that goes through the
  // rounds of another one needn't take the first, or the last.
  int StepOver(int32_t loop, int32_t call) const;
  int StepOverLoop(int32_t loop, int32_t earlier) const;
  // Whether a round of the loop that goes through them in order takes one that
  // is so many after its own number.
  bool TakesAt(int32_t loop, int32_t earlier, int32_t call,
               int32_t distance) const;
  // The calls of which some loop takes the results so, and that loop.
  const absl::flat_hash_map<int32_t, int32_t>& taken() const { return taken_; }

 private:
  void PlaceTensors(const Tape& tape);
  void FindSteps(const Tape& tape, int32_t loop);
  void FindItemStep(const Tape& tape, int32_t loop, const TapeTensor& one,
                    const TapeTensor& before);
  int32_t LikeOf(int32_t loop) const {
    return loop < static_cast<int32_t>(likes_.size()) ? likes_[loop] : -1;
  }

  std::vector<RoundBegins> loops_;
  std::vector<int32_t> likes_;
  std::vector<Place> calls_, tensors_;
  std::vector<std::vector<std::vector<TapeTensorId>>> made_;
  // By loop; of earlier loops by their number less num_loops().
  std::vector<absl::flat_hash_map<int32_t, int>> steps_;
  // The same, of what the last round takes: how far from its own number.
  std::vector<absl::flat_hash_set<std::pair<int32_t, int32_t>>> distances_;
  absl::flat_hash_map<int32_t, int32_t> taken_;
};

// A tape with other numbers of rounds. Those that it didn't have are like its
// last one, with the sizes and numbers of that.
class OtherRounds {
 public:
  // `counts` by loop. Both others outlive this.
  OtherRounds(const Tape& tape, const Rounds& rounds,
              std::vector<int32_t> counts);
  // Fails if nobody can tell what the rounds would refer to.
  absl::Status Make();

  const Tape& tape() const { return made_; }
  Tape TakeTape() { return std::move(made_); }
  // Where a new call or tensor comes from.
  struct Origin {
    int32_t old = 0;
    int32_t loop = -1;
    int32_t round = 0;  // Of the new loop, a copy of
    int32_t from = 0;   // this old one.
    bool is_copy() const { return loop >= 0 && round != from; }
  };
  absl::Span<const Origin> calls() const { return calls_; }
  absl::Span<const Origin> tensors() const { return tensors_; }
  std::vector<RoundBegins> loops() const;
  int32_t count(int32_t loop) const { return counts_[loop]; }

  // What an old tensor is to new calls of this origin. `before` is what the
  // round before the old one has in the place of `id`. kNoTapeTensor if nobody
  // can tell.
  TapeTensorId Find(TapeTensorId id, TapeTensorId before,
                    const Origin& in) const;

 private:
  void PlaceTensors();
  void AddTensor(TapeTensorId old, int32_t loop, int32_t round, int32_t from);
  void PlaceCalls();
  // Loops in front of an old call that make none.
  void PlaceEmptyLoops(int32_t call);
  absl::Status CheckWrites() const;
  absl::Status CheckLast() const;
  const TapeCall* CallBefore(int32_t call) const;
  absl::Status MakeCalls();
  absl::Status MakeTensors();
  // What a list has one of for each round: a loop, or a call's results.
  struct Axis {
    int32_t loop = -1;
    int32_t call = -1;
    int32_t index = 0;
    bool is_any() const { return loop >= 0 || call >= 0; }
    bool IsLike(const Axis& other) const {
      return loop == other.loop && call == other.call;
    }
  };
  Axis AxisOf(TapeTensorId id) const;
  // A list that has as many of each round, from a first one to the last.
  struct Block {
    int32_t first = 0;
    bool ascends = true;
    int32_t each = 1;
  };
  std::optional<Block> FindBlock(absl::Span<const TapeTensorId> list) const;
  TapeTensorId FindAlong(const Axis& axis, TapeTensorId id, int step,
                         const Origin& in) const;
  TapeTensorId OnAxis(const Axis& axis, TapeTensorId like, int32_t index) const;
  int32_t LengthOf(const Axis& axis) const;
  int32_t NewLengthOf(const Axis& axis) const;
  std::vector<TapeTensorId> MapList(const std::vector<TapeTensorId>& list,
                                    const std::vector<TapeTensorId>* before,
                                    const Origin& in) const;
  absl::Status MapValues(const std::vector<TapeValue>& values,
                         const std::vector<TapeValue>* before, const Origin& in,
                         std::vector<TapeValue>* made) const;
  absl::Status MapNumbers();

  const Tape& old_;
  const Rounds& rounds_;
  const std::vector<int32_t> counts_;
  Tape made_;
  std::vector<Origin> calls_, tensors_;
  std::vector<TapeTensorId> outside_;  // New ones by old, in no round.
  // By loop, new round and position.
  std::vector<std::vector<std::vector<TapeTensorId>>> inside_;
  // By old call whose results are scaled: all new items.
  absl::flat_hash_map<int32_t, std::vector<TapeTensorId>> items_;
  std::vector<int32_t> first_call_;           // New, by old call in no round.
  std::vector<std::vector<int32_t>> begins_;  // New, by loop and round.
};

}  // namespace mica

#endif  // MICA_ANALYSIS_SIZES_ROUNDS_H_
