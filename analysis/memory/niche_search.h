// Depth-first search for a packing within a capacity.

#ifndef MICA_ANALYSIS_MEMORY_NICHE_SEARCH_H_
#define MICA_ANALYSIS_MEMORY_NICHE_SEARCH_H_

#include <cstdint>
#include <deque>
#include <vector>

#include "analysis/memory/packing.h"

namespace mica {

enum class SearchOutcome {
  kFits,
  kImpossible,  // All was searched.
  kStopped,     // Out of work.
};

// What a search looks at first. Changes how long it takes, not what is found in
// the end.
struct SearchStyle {
  // kLowest: where the first by priority of the lowest could lie.
  enum class Niche { kFewestOptions, kLeastSlack, kMostConflicts, kLowest };
  Niche niche = Niche::kFewestOptions;
  bool from_right = false;  // Of equal niches takes the last.
  // Of each block: the larger is tried first.
  std::vector<int64_t> priority;
  // Of each section, for kMostConflicts.
  std::vector<double> weight;
};

// Fills a skyline from below. Every solution can be let fall until each block
// rests on the ground or on another; only such are searched. A **niche** is a
// run of sections with one floor, lower than the floors beside it. At the end
// of a niche either one of the blocks that start there and fit in rests on the
// floor, or none does, and the floor there rises to where the next could.
// Those are the branches, as they are at any section of a niche; which to take
// is free, and taking one with few keeps the tree small.
//
// Prunes: a section whose floor and remaining bytes exceed the capacity; a
// floor raised past a block that could have fallen there; blocks left with
// floors and ground beneath as in a state that has failed before (by a 64-bit
// hash, and across runs). Sections between which no block is left are searched
// apart. What is pruned holds no solution, or none that couldn't fall further.
//
// Single-thread. Runs out by work, not time, so that results are reproducible.
class NicheSearch {
 public:
  // The arguments outlive the search.
  NicheSearch(const Packing& packing, const BlockLists& overlaps,
              const BlockLists& sections, int64_t capacity);

  // Stops once it has looked at `max_work` blocks.
  SearchOutcome Run(const SearchStyle& style, int64_t max_work);

  // Of the last run. Offsets hold if it has fitted.
  Stack stack() const;
  int64_t work() const { return work_; }
  // How often each section was where the search had to turn back.
  const std::vector<int64_t>& conflicts() const { return conflicts_; }

 private:
  // Sections [begin, end) and the blocks in them that are yet to be placed.
  struct Part {
    int32_t begin = 0;
    int32_t end = 0;
    std::vector<int32_t> blocks;
  };
  struct Choice {
    int32_t section = -1;
    int32_t raised = 0;  // Where its floor could rise to.
    bool may_rise = false;
    bool is_dead = false;  // Nothing can be done there.
    double score = 0;      // The lowest is taken.
  };
  struct Change {
    int32_t* where;
    int32_t before;
  };
  struct Mark {
    size_t changes;
    size_t placed;
  };

  void Reset();
  SearchOutcome SearchParts(const Part& whole, int32_t begin, int32_t end,
                            size_t depth);
  SearchOutcome Search(const Part& part, size_t depth);
  SearchOutcome TryBlock(const Part& part, int32_t block, size_t depth);
  SearchOutcome TryRaise(const Part& part, const Choice& choice, size_t depth);
  bool FindFloors(const Part& part, std::vector<int32_t>& floors,
                  uint64_t& key);
  Choice Choose(const Part& part, const std::vector<int32_t>& floors);
  void ChooseLowest(const Part& part, const std::vector<int32_t>& floors,
                    Choice& best) const;
  void Consider(int32_t section, const std::vector<int32_t>& floors,
                Choice& best) const;
  int32_t RaisedFloor(int32_t section, int32_t floor, int32_t& resting) const;
  double Score(int32_t section, int32_t floor, int32_t options) const;
  bool FitsUnderFloor(int32_t block, int32_t section, int32_t raised,
                      const std::vector<int32_t>& floors) const;
  void Place(int32_t block);
  void Set(int32_t& where, int32_t value);
  Mark Now() const { return {changes_.size(), placed_order_.size()}; }
  void Undo(Mark mark);
  std::vector<int32_t>& FloorsAt(size_t depth);

  const Packing& packing_;
  const BlockLists& overlaps_;
  const BlockLists& sections_;
  // All sizes are in units, of which every block has a whole number.
  int64_t unit_ = 1;
  int32_t capacity_ = 0;
  bool is_too_large_ = false;  // For 32 bits.
  std::vector<int32_t> sizes_;

  const SearchStyle* style_ = nullptr;
  int64_t work_ = 0;
  int64_t max_work_ = 0;
  std::vector<int64_t> conflicts_;
  // Of blocks: the lowest that they could lie now; then, where they lie. And
  // the top of what was placed below them, which is lower where floors rose.
  std::vector<int32_t> lowest_;
  std::vector<int32_t> ground_;
  std::vector<bool> is_placed_;
  std::vector<int32_t> placed_order_;
  // Of sections: the sizes that are yet to be placed, and of how many blocks
  // that also lie in the section before.
  std::vector<int32_t> remaining_;
  std::vector<int32_t> crossing_;
  std::vector<Change> changes_;
  std::deque<std::vector<int32_t>> floors_;  // By depth.
  std::vector<uint64_t> failed_;
};

}  // namespace mica

#endif  // MICA_ANALYSIS_MEMORY_NICHE_SEARCH_H_
