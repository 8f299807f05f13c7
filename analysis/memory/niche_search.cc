#include "analysis/memory/niche_search.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace mica {
namespace {

constexpr int32_t kNever = std::numeric_limits<int32_t>::max();
// Sums of two sizes stay within 32 bits.
constexpr int64_t kMaxUnits = int64_t{1} << 29;
// Each level takes a frame of the call stack.
constexpr size_t kMaxDepth = 4096;
constexpr size_t kFailedStates = size_t{1} << 16;
// Where niches have equally many options, the floor decides.
constexpr double kTieBreak = 0.1;

constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;

uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93;
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93;
  return x ^ (x >> 32);
}

}  // namespace

NicheSearch::NicheSearch(const Packing& packing, const BlockLists& overlaps,
                         const BlockLists& sections, int64_t capacity)
    : packing_(packing), overlaps_(overlaps), sections_(sections) {
  unit_ = 0;
  for (const PackedBlock& block : packing.blocks()) {
    unit_ = std::gcd(unit_, block.bytes);
  }
  unit_ = std::max<int64_t>(unit_, 1);
  is_too_large_ =
      std::max(capacity, packing.live_set_bytes()) / unit_ > kMaxUnits;
  if (is_too_large_) return;
  capacity_ = static_cast<int32_t>(capacity / unit_);
  for (const PackedBlock& block : packing.blocks()) {
    sizes_.push_back(static_cast<int32_t>(block.bytes / unit_));
  }
  failed_.resize(kFailedStates);
}

void NicheSearch::Reset() {
  const int num_sections = packing_.num_sections();
  conflicts_.assign(num_sections, 0);
  lowest_.assign(sizes_.size(), 0);
  ground_.assign(sizes_.size(), 0);
  is_placed_.assign(sizes_.size(), false);
  placed_order_.clear();
  remaining_.resize(num_sections);
  for (int s = 0; s < num_sections; ++s) {
    remaining_[s] = static_cast<int32_t>(packing_.live_bytes()[s] / unit_);
  }
  crossing_.assign(num_sections + 1, 0);
  for (const PackedBlock& block : packing_.blocks()) {
    for (int s = block.begin + 1; s < block.end; ++s) ++crossing_[s];
  }
  changes_.clear();
  work_ = 0;
}

SearchOutcome NicheSearch::Run(const SearchStyle& style, int64_t max_work) {
  if (is_too_large_) return SearchOutcome::kStopped;
  Reset();
  style_ = &style;
  max_work_ = max_work;
  Part whole{.begin = 0, .end = packing_.num_sections()};
  whole.blocks.resize(sizes_.size());
  std::iota(whole.blocks.begin(), whole.blocks.end(), 0);
  return SearchParts(whole, whole.begin, whole.end, 0);
}

Stack NicheSearch::stack() const {
  Stack stack;
  for (size_t i = 0; i < lowest_.size(); ++i) {
    stack.offsets.push_back(lowest_[i] * unit_);
    stack.bytes =
        std::max<int64_t>(stack.bytes, (lowest_[i] + sizes_[i]) * unit_);
  }
  return stack;
}

// Searches what is left of `whole`, cut in sections (begin, end) where that is
// possible: the smallest part first, as it fails the soonest.
SearchOutcome NicheSearch::SearchParts(const Part& whole, int32_t begin,
                                       int32_t end, size_t depth) {
  std::vector<Part> parts = {{.begin = whole.begin}};
  for (int32_t s = std::max(begin, whole.begin + 1);
       s < std::min(end + 1, whole.end); ++s) {
    if (crossing_[s] > 0) continue;
    parts.back().end = s;
    parts.push_back({.begin = s});
  }
  parts.back().end = whole.end;
  for (int32_t i : whole.blocks) {
    if (is_placed_[i]) continue;
    auto part = parts.begin();
    if (parts.size() > 1) {
      part = std::upper_bound(
          parts.begin(), parts.end(), packing_.blocks()[i].begin,
          [](int32_t section, const Part& part) { return section < part.end; });
    }
    part->blocks.push_back(i);
  }
  std::stable_sort(parts.begin(), parts.end(),
                   [](const Part& a, const Part& b) {
                     return a.blocks.size() < b.blocks.size();
                   });
  for (const Part& part : parts) {
    if (part.blocks.empty()) continue;
    const SearchOutcome outcome = Search(part, depth);
    if (outcome != SearchOutcome::kFits) return outcome;
  }
  return SearchOutcome::kFits;
}

SearchOutcome NicheSearch::Search(const Part& part, size_t depth) {
  work_ += static_cast<int64_t>(part.blocks.size());
  if (work_ > max_work_ || depth > kMaxDepth) return SearchOutcome::kStopped;
  std::vector<int32_t>& floors = FloorsAt(depth);
  uint64_t key = 0;
  if (!FindFloors(part, floors, key)) return SearchOutcome::kImpossible;
  uint64_t& failed = failed_[key % kFailedStates];
  if (failed == key) return SearchOutcome::kImpossible;
  const Choice choice = Choose(part, floors);
  SearchOutcome outcome = SearchOutcome::kImpossible;
  if (choice.is_dead) {
    ++conflicts_[choice.section];
  } else {
    std::vector<int32_t> candidates;
    for (int32_t i : sections_[choice.section]) {
      if (!is_placed_[i] && lowest_[i] == floors[choice.section]) {
        candidates.push_back(i);
      }
    }
    std::stable_sort(candidates.begin(), candidates.end(),
                     [&](int32_t a, int32_t b) {
                       return style_->priority[a] > style_->priority[b];
                     });
    for (size_t i = 0;
         i < candidates.size() && outcome == SearchOutcome::kImpossible; ++i) {
      outcome = TryBlock(part, candidates[i], depth);
    }
    if (choice.may_rise && outcome == SearchOutcome::kImpossible) {
      outcome = TryRaise(part, choice, depth);
    }
  }
  if (outcome == SearchOutcome::kImpossible) failed = key;
  return outcome;
}

SearchOutcome NicheSearch::TryBlock(const Part& part, int32_t block,
                                    size_t depth) {
  const Mark mark = Now();
  Place(block);
  const PackedBlock& placed = packing_.blocks()[block];
  const SearchOutcome outcome =
      SearchParts(part, placed.begin, placed.end, depth + 1);
  if (outcome == SearchOutcome::kImpossible) Undo(mark);
  return outcome;
}

SearchOutcome NicheSearch::TryRaise(const Part& part, const Choice& choice,
                                    size_t depth) {
  for (int32_t i : sections_[choice.section]) {
    if (!is_placed_[i] &&
        FitsUnderFloor(i, choice.section, choice.raised, FloorsAt(depth))) {
      return SearchOutcome::kImpossible;
    }
  }
  const Mark mark = Now();
  for (int32_t i : sections_[choice.section]) {
    if (!is_placed_[i] && lowest_[i] < choice.raised) {
      Set(lowest_[i], choice.raised);
    }
  }
  const SearchOutcome outcome = Search(part, depth + 1);
  if (outcome == SearchOutcome::kImpossible) Undo(mark);
  return outcome;
}

// The floor of a section is the lowest that any block in it could lie.
bool NicheSearch::FindFloors(const Part& part, std::vector<int32_t>& floors,
                             uint64_t& key) {
  std::fill(floors.begin() + part.begin, floors.begin() + part.end, kNever);
  for (int32_t i : part.blocks) {
    const int32_t lowest = lowest_[i];
    key ^= Mix(((static_cast<uint64_t>(i) << 32) + lowest) ^
               (static_cast<uint64_t>(ground_[i]) * kGolden));
    const PackedBlock& block = packing_.blocks()[i];
    for (int32_t s = block.begin; s < block.end; ++s) {
      floors[s] = std::min(floors[s], lowest);
    }
  }
  key |= 1;  // 0 marks an empty place in failed_.
  for (int32_t s = part.begin; s < part.end; ++s) {
    if (floors[s] != kNever && floors[s] + remaining_[s] > capacity_) {
      ++conflicts_[s];
      return false;
    }
  }
  return true;
}

NicheSearch::Choice NicheSearch::Choose(const Part& part,
                                        const std::vector<int32_t>& floors) {
  Choice best;
  if (style_->niche == SearchStyle::Niche::kLowest) {
    ChooseLowest(part, floors, best);
    return best;
  }
  // Walks from one end to the other; `step` leads there.
  const int32_t step = style_->from_right ? -1 : 1;
  const int32_t start = style_->from_right ? part.end - 1 : part.begin;
  const int32_t stop = style_->from_right ? part.begin - 1 : part.end;
  for (int32_t from = start; from != stop;) {
    int32_t next = from + step;
    while (next != stop && floors[next] == floors[from]) next += step;
    const bool is_niche =
        floors[from] != kNever &&
        (from == start || floors[from - step] > floors[from]) &&
        (next == stop || floors[next] > floors[from]);
    if (is_niche) {
      Consider(from, floors, best);
      if (next != from + step) Consider(next - step, floors, best);
      // A choice without alternatives is the best there is.
      if (best.is_dead || best.score == 0) return best;
    }
    from = next;
  }
  return best;
}

// Where the first by priority of those that could lie the lowest begins.
void NicheSearch::ChooseLowest(const Part& part,
                               const std::vector<int32_t>& floors,
                               Choice& best) const {
  int32_t first = part.blocks.front();
  for (int32_t i : part.blocks) {
    if (lowest_[i] < lowest_[first] ||
        (lowest_[i] == lowest_[first] &&
         style_->priority[i] > style_->priority[first])) {
      first = i;
    }
  }
  const PackedBlock& block = packing_.blocks()[first];
  for (int32_t s : {block.begin, block.end - 1}) Consider(s, floors, best);
}

void NicheSearch::Consider(int32_t section, const std::vector<int32_t>& floors,
                           Choice& best) const {
  if (best.is_dead || (best.section >= 0 && best.score == 0)) return;
  const int32_t floor = floors[section];
  int32_t resting = 0;
  Choice choice{.section = section,
                .raised = RaisedFloor(section, floor, resting)};
  choice.may_rise = choice.raised != kNever &&
                    choice.raised + remaining_[section] <= capacity_;
  const int32_t options = resting + (choice.may_rise ? 1 : 0);
  choice.is_dead = options == 0;
  choice.score = options <= 1 ? 0 : Score(section, floor, options);
  if (best.section < 0 || choice.is_dead || choice.score < best.score) {
    best = choice;
  }
}

// Where the floor is if no block rests on it: each then lies on another, or
// where it must for other sections. Too high where that is too high anyway.
int32_t NicheSearch::RaisedFloor(int32_t section, int32_t floor,
                                 int32_t& resting) const {
  int32_t raised = kNever;
  const bool has_slack = floor + remaining_[section] < capacity_;
  for (int32_t i : sections_[section]) {
    if (is_placed_[i]) continue;
    if (lowest_[i] != floor) {
      raised = std::min(raised, lowest_[i]);
      continue;
    }
    ++resting;
    if (!has_slack) continue;
    int32_t on_top = kNever;
    for (int32_t other : overlaps_[i]) {
      if (!is_placed_[other]) {
        on_top = std::min(on_top, lowest_[other] + sizes_[other]);
      }
    }
    if (on_top != kNever && on_top + sizes_[i] <= capacity_) {
      raised = std::min(raised, on_top);
    }
  }
  return raised;
}

double NicheSearch::Score(int32_t section, int32_t floor,
                          int32_t options) const {
  const double count = options;
  const double height = static_cast<double>(floor) / capacity_;
  switch (style_->niche) {
    case SearchStyle::Niche::kFewestOptions:
    case SearchStyle::Niche::kLowest:
      break;
    case SearchStyle::Niche::kLeastSlack: {
      const double slack = capacity_ - floor - remaining_[section];
      return count + kTieBreak * slack / capacity_;
    }
    case SearchStyle::Niche::kMostConflicts:
      return (count + kTieBreak * height) / (1e-3 + style_->weight[section]);
  }
  return count + kTieBreak * height;
}

// Whether the block would lie free under the floors, were that of `section`
// raised: then a solution above them could be let fall further.
bool NicheSearch::FitsUnderFloor(int32_t block, int32_t section, int32_t raised,
                                 const std::vector<int32_t>& floors) const {
  int32_t floor = kNever;
  const PackedBlock& where = packing_.blocks()[block];
  for (int32_t s = where.begin; s < where.end; ++s) {
    floor = std::min(floor, s == section ? raised : floors[s]);
  }
  return ground_[block] + sizes_[block] <= floor;
}

void NicheSearch::Place(int32_t block) {
  is_placed_[block] = true;
  placed_order_.push_back(block);
  const int32_t top = lowest_[block] + sizes_[block];
  for (int32_t other : overlaps_[block]) {
    if (is_placed_[other]) continue;
    if (lowest_[other] < top) Set(lowest_[other], top);
    if (ground_[other] < top) Set(ground_[other], top);
  }
  const PackedBlock& where = packing_.blocks()[block];
  for (int32_t s = where.begin; s < where.end; ++s) {
    remaining_[s] -= sizes_[block];
    if (s > where.begin) --crossing_[s];
  }
}

void NicheSearch::Set(int32_t& where, int32_t value) {
  changes_.push_back({&where, where});
  where = value;
}

void NicheSearch::Undo(Mark mark) {
  for (; placed_order_.size() > mark.placed; placed_order_.pop_back()) {
    const int32_t block = placed_order_.back();
    is_placed_[block] = false;
    const PackedBlock& where = packing_.blocks()[block];
    for (int32_t s = where.begin; s < where.end; ++s) {
      remaining_[s] += sizes_[block];
      if (s > where.begin) ++crossing_[s];
    }
  }
  for (; changes_.size() > mark.changes; changes_.pop_back()) {
    *changes_.back().where = changes_.back().before;
  }
}

std::vector<int32_t>& NicheSearch::FloorsAt(size_t depth) {
  while (floors_.size() <= depth) {
    floors_.emplace_back(packing_.num_sections());
  }
  return floors_[depth];
}

}  // namespace mica
