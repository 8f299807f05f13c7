#include "analysis/ways/ways.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/algorithm/container.h"
#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "analysis/ways/same_segments.h"
#include "framework/base/status.h"

namespace mica {

// Goes with one run from the first node on, and makes what isn't there.
class Ways::Walk {
 public:
  Walk(Ways& ways, int32_t run, SameState same)
      : ways_(ways), number_(run), run_(ways.runs_[run]), same_(same) {}

  absl::Status Go() {
    if (ways_.nodes_.empty()) {
      AddRest(0);
      return absl::OkStatus();
    }
    int32_t node = 0, segment = 0;
    while (true) {
      MICA_RETURN_IF_ERROR(MatchSegments(
          ways_.runs_[ways_.nodes_[node].run], ways_.nodes_[node].run,
          ways_.nodes_[node].segment, run_, segment, &known_));
      if (segment + 1 == run_.num_segments()) return absl::OkStatus();
      const Edge* edge = FindEdge(node, segment);
      if (edge == nullptr) {
        Diverge(node, segment, &node, &segment);
        if (node < 0) return absl::OkStatus();
        if (!status_.ok()) return status_;
      } else {
        Follow(*edge, segment);
        node = edge->node;
        ++segment;
      }
    }
  }

  // Whether another run has to be gone with again.
  bool has_replaced() const { return has_replaced_; }

 private:
  const Edge* FindEdge(int32_t node, int32_t segment) const {
    const bool forks = run_.events[segment].kind == WayEvent::Kind::kFork;
    for (const Edge& edge : ways_.nodes_[node].next) {
      if (!forks || IsSameOutcome(edge.outcome, run_.Outcome(segment))) {
        return &edge;
      }
    }
    return nullptr;
  }

  // What the run calls a value; kNoTapeTensor if it hasn't got it.
  TapeTensorId Here(const Name& name) const {
    if (const auto it = known_.find(name); it != known_.end()) {
      return it->second;
    }
    if (name.run == number_) return name.tensor;
    const TapeTensor& tensor = ways_.runs_[name.run].tape->tensors[name.tensor];
    return tensor.origin == TapeOrigin::kInput ? run_.tape->inputs[tensor.input]
                                               : kNoTapeTensor;
  }

  // Takes the names that an edge gives for those of the run's tensors. Behind a
  // join a tensor that gets one may be two in other runs: what had its old
  // names and what has the new one; unless nobody has it by the old ones.
  void Follow(const Edge& edge, int32_t segment) {
    const int32_t run = ways_.nodes_[edge.node].run;
    std::vector<std::pair<Name, TapeTensorId>> now;
    for (const auto& [tensor, name] : edge.names) {
      const TapeTensorId here = Here(name);
      if (here != kNoTapeTensor) now.push_back({{run, tensor}, here});
    }
    const WayEvent& event = run_.events[segment];
    absl::flat_hash_set<TapeTensorId> own;
    const int32_t calls_before = run_.CallsAtFork(event.since);
    for (const WayEvent::Tensor& tensor : event.tensors) {
      // What was made since the fork only the state leads to.
      const bool is_new = run_.tape->tensors[tensor.id].call >= calls_before;
      if ((tensor.is_own || is_new) && !IsLeafOf(tensor.id)) {
        own.insert(tensor.id);
      }
    }
    absl::flat_hash_set<TapeTensorId> renamed;
    for (const auto& [name, tensor] : now) {
      const auto it = known_.find(name);
      const bool is_same = it != known_.end() && it->second == tensor;
      if (!edge.taken.contains(name.tensor) || is_same) continue;
      (own.contains(tensor) ? renamed : unclear_).insert(tensor);
    }
    absl::erase_if(known_, [&](const auto& known) {
      return renamed.contains(known.second);
    });
    for (const auto& [name, tensor] : now) known_[name] = tensor;
  }

  int32_t AddNode(int32_t segment) {
    ways_.nodes_.push_back({.run = number_, .segment = segment});
    return static_cast<int32_t>(ways_.nodes_.size()) - 1;
  }

  // All segments from this one on, in a row. The first of them.
  int32_t AddRest(int32_t segment) {
    const int32_t first = AddNode(segment);
    AddRow(first, segment, run_.num_segments() - 1);
    return first;
  }
  // Those behind `segment` up to `last`. The last node.
  int32_t AddRow(int32_t node, int32_t segment, int32_t last) {
    for (; segment < last; ++segment) {
      const int32_t next = AddNode(segment + 1);
      ways_.nodes_[node].next.push_back(
          {.outcome = OutcomeOf(segment), .node = next});
      node = next;
    }
    return node;
  }
  TapeValue OutcomeOf(int32_t event) const {
    return run_.events[event].kind == WayEvent::Kind::kFork
               ? run_.Outcome(event)
               : TapeValue();
  }

  // What the graph calls the run's tensors at this place.
  Names OldNames(int32_t segment) {
    Names names;
    for (const auto& [name, tensor] : known_) {
      Name& known = names.try_emplace(tensor, name).first->second;
      known = std::min(known, name);
    }
    for (const TapeTensorId tensor : unclear_) {
      // That an argument is given back no tape tells.
      if (IsLeafOf(tensor) || IsUsedBehind(segment, tensor)) {
        status_ = absl::FailedPreconditionError(
            "a tensor is two, which other runs may have apart");
      }
    }
    return names;
  }

  bool IsLeafOf(TapeTensorId tensor) const {
    return tensor != kNoTapeTensor &&
           run_.tape->tensors[tensor].origin != TapeOrigin::kCall;
  }
  bool IsUsedBehind(int32_t segment, TapeTensorId tensor) const {
    const Tape& tape = *run_.tape;
    for (size_t i = run_.SegmentEnd(segment); i < tape.calls.size(); ++i) {
      bool is_used = false;
      for (const TapeValue& arg : tape.calls[i].args) {
        ForEachTensor(arg, [&](TapeTensorId id) { is_used |= id == tensor; });
      }
      if (is_used) return true;
    }
    return absl::c_linear_search(tape.results, tensor);
  }

  // Where the run can go on with what is there, after its segment `last`.
  struct Meeting {
    int32_t last = -1;  // The run's segment before it,
    int32_t node = -1;  // and the node before it.
    const WayEvent* there = nullptr;
  };

  // The run reads at the end of a segment what none that was there read.
  void Diverge(int32_t node, int32_t segment, int32_t* next_node,
               int32_t* next_segment) {
    const Names old = OldNames(segment);
    if (!status_.ok()) return;
    for (const Meeting& meeting : FindMeetings(node, segment)) {
      const WayEvent& here = run_.events[meeting.last];
      const auto [here_is_new, there_is_new] =
          AreNew(*meeting.there, node, here, segment);
      if (there_is_new) {
        Join(meeting, node, segment, old);
        *next_node = ways_.nodes_[meeting.node].next[0].node;
        *next_segment = meeting.last + 1;
        return;
      }
      if (!here_is_new) continue;
      Replace(meeting, node, segment, old);
      *next_node = -1;
      return;
    }
    const int32_t first = AddRest(segment + 1);
    ways_.nodes_[node].next.push_back(
        {.outcome = OutcomeOf(segment), .node = first, .names = old});
    *next_node = -1;
  }

  // Joins that both come to since the fork, with equal states.
  std::vector<Meeting> FindMeetings(int32_t node, int32_t segment) const {
    const int32_t run = ways_.nodes_[node].run;
    const WayRun& there = ways_.runs_[run];
    const int32_t fork_there = there.NumForks(ways_.nodes_[node].segment);
    const int32_t fork_here = run_.NumForks(segment);
    // The joins that the way of the node's own run comes to.
    std::vector<std::pair<int32_t, const WayEvent*>> joins;
    int32_t at = node;
    while (ways_.nodes_[at].run == run && !ways_.nodes_[at].next.empty()) {
      const Node& passed = ways_.nodes_[at];
      const WayEvent& event = there.events[passed.segment];
      const Edge* own = nullptr;
      if (event.kind == WayEvent::Kind::kJoin) {
        if (event.since <= fork_there) joins.push_back({at, &event});
        own = &passed.next[0];
      } else {
        for (const Edge& edge : passed.next) {
          if (IsSameOutcome(edge.outcome, there.Outcome(passed.segment))) {
            own = &edge;
          }
        }
      }
      if (own == nullptr) break;
      at = own->node;
    }
    std::vector<Meeting> found;
    for (int32_t i = segment + 1; i + 1 < run_.num_segments(); ++i) {
      const WayEvent& event = run_.events[i];
      if (event.kind != WayEvent::Kind::kJoin || event.since > fork_here) {
        continue;
      }
      for (const auto& [before, join] : joins) {
        if (join->tensors.size() == event.tensors.size() &&
            same_(run, join->state, number_, event.state)) {
          found.push_back({.last = i, .node = before, .there = join});
          break;
        }
      }
    }
    return found;
  }

  // Of each of both: whether no other name leads to those tensors of the state
  // that aren't the same ones.
  std::pair<bool, bool> AreNew(const WayEvent& there, int32_t node,
                               const WayEvent& here, int32_t segment) const {
    const int32_t run = ways_.nodes_[node].run;
    bool is_here = true, is_there = true;
    absl::flat_hash_set<TapeTensorId> seen_here, seen_there;
    for (size_t i = 0; i < here.tensors.size(); ++i) {
      const TapeTensorId a = there.tensors[i].id, b = here.tensors[i].id;
      const auto it = known_.find({run, a});
      if (it != known_.end() && it->second == b) continue;
      if (IsSameLeaf(ways_.runs_[run], a, b)) continue;
      is_there &= IsClear(ways_.runs_[run], there.tensors[i],
                          ways_.nodes_[node].segment) &&
                  seen_there.insert(a).second;
      is_here &=
          IsClear(run_, here.tensors[i], segment) && seen_here.insert(b).second;
    }
    return {is_here, is_there};
  }

  // Whether the state alone has it, of all that comes behind. A view isn't: who
  // gets it as a result can tell it from what is none.
  static bool IsClear(const WayRun& run, const WayEvent::Tensor& tensor,
                      int32_t segment) {
    const TapeTensor& made = run.tape->tensors[tensor.id];
    return made.origin == TapeOrigin::kCall && made.call >= 0 &&
           !IsView(run, made) &&
           (tensor.is_own || made.call >= run.SegmentEnd(segment));
  }
  static bool IsView(const WayRun& run, const TapeTensor& tensor) {
    return absl::c_any_of(
        run.tape->calls[tensor.call].aliases, [&](const TapeAlias& alias) {
          return alias.output == tensor.output && !alias.is_write;
        });
  }
  bool IsSameLeaf(const WayRun& there, TapeTensorId a, TapeTensorId b) const {
    const TapeTensor& one = there.tape->tensors[a];
    const TapeTensor& other = run_.tape->tensors[b];
    return one.origin == TapeOrigin::kInput &&
           other.origin == TapeOrigin::kInput && one.input == other.input;
  }

  // The run's segments up to the join; then it goes on there.
  void Join(const Meeting& meeting, int32_t node, int32_t segment,
            const Names& old) {
    const int32_t run = ways_.nodes_[node].run;
    const WayEvent& here = run_.events[meeting.last];
    absl::flat_hash_map<TapeTensorId, TapeTensorId> taken;  // For one of there.
    for (size_t i = 0; i < here.tensors.size(); ++i) {
      taken[meeting.there->tensors[i].id] = here.tensors[i].id;
    }
    const auto name_here = [&](TapeTensorId tensor) {
      const auto it = old.find(tensor);
      return it == old.end() ? Name{number_, tensor} : it->second;
    };
    const Edge there = ways_.nodes_[meeting.node].next[0];
    Edge edge{.node = there.node};
    const int32_t next_run = ways_.nodes_[there.node].run;
    for (const auto& [tensor, name] : there.names) {
      const auto it = name.run == run ? taken.find(name.tensor) : taken.end();
      edge.names[tensor] = it == taken.end() ? name : name_here(it->second);
      if (it != taken.end()) edge.taken.insert(tensor);
    }
    if (next_run == run) {
      for (const auto& [tensor, own] : taken) {
        if (edge.names.contains(tensor)) continue;
        edge.names[tensor] = name_here(own);
        edge.taken.insert(tensor);
      }
    }
    const int32_t first = AddNode(segment + 1);
    ways_.nodes_[node].next.push_back(
        {.outcome = OutcomeOf(segment), .node = first, .names = old});
    const int32_t last = AddRow(first, segment + 1, meeting.last);
    ways_.nodes_[last].next.push_back(edge);
    Follow(edge, meeting.last);
  }

  // What was there goes on where the run does.
  void Replace(const Meeting& meeting, int32_t node, int32_t segment,
               const Names& old) {
    const int32_t run = ways_.nodes_[node].run;
    const WayEvent& here = run_.events[meeting.last];
    const int32_t first = AddNode(segment + 1);
    ways_.nodes_[node].next.push_back(
        {.outcome = OutcomeOf(segment), .node = first, .names = old});
    const int32_t last = AddRow(first, segment + 1, meeting.last);
    const int32_t rest = AddRest(meeting.last + 1);
    ways_.nodes_[last].next.push_back({.node = rest});
    Edge edge{.node = rest, .names = old};
    for (size_t i = 0; i < here.tensors.size(); ++i) {
      const TapeTensorId taken = here.tensors[i].id;
      edge.names[taken] = {run, meeting.there->tensors[i].id};
      edge.taken.insert(taken);
    }
    ways_.nodes_[meeting.node].next[0] = std::move(edge);
    has_replaced_ = true;
  }

  Ways& ways_;
  const int32_t number_;
  const WayRun& run_;
  SameState same_;
  NamesInRun known_;
  absl::flat_hash_set<TapeTensorId> unclear_;
  bool has_replaced_ = false;
  absl::Status status_;
};

absl::Status Ways::Add(WayRun run, SameState same) {
  const Ways before = *this;
  runs_.push_back(std::move(run));
  // More often than once for each pair of ways at each fork none is replaced.
  constexpr int kMostRounds = 1000;
  bool is_settled = false;
  for (int round = 0; !is_settled && round < kMostRounds; ++round) {
    is_settled = true;
    for (int32_t i = 0; i < static_cast<int32_t>(runs_.size()); ++i) {
      Walk walk(*this, i, same);
      const absl::Status status = walk.Go();
      if (!status.ok()) {
        *this = before;
        return status;
      }
      is_settled &= !walk.has_replaced();
    }
  }
  if (is_settled) return absl::OkStatus();
  *this = before;
  return absl::FailedPreconditionError("ways replace each other for ever");
}

namespace {

std::string ToText(const TapeValue& outcome) {
  if (const auto* truth = std::get_if<bool>(&outcome)) {
    return *truth ? "true" : "false";
  }
  if (const auto* whole = std::get_if<int64_t>(&outcome)) {
    return absl::StrCat(*whole);
  }
  if (const auto* real = std::get_if<double>(&outcome)) {
    return absl::StrCat(*real);
  }
  return "";
}

}  // namespace

std::string ToText(const Ways& ways) {
  std::string text;
  absl::btree_set<int32_t> reached, todo = {0};
  while (!todo.empty()) {
    const int32_t number = *todo.begin();
    todo.erase(number);
    reached.insert(number);
    for (const Ways::Edge& edge : ways.nodes()[number].next) {
      if (!reached.contains(edge.node)) todo.insert(edge.node);
    }
  }
  for (const int32_t number : reached) {
    const Ways::Node& node = ways.nodes()[number];
    const WayRun& run = ways.runs()[node.run];
    absl::StrAppend(&text, number, ": run ", node.run, ", segment ",
                    node.segment, ":");
    for (int32_t i = run.SegmentBegin(node.segment);
         i < run.SegmentEnd(node.segment); ++i) {
      absl::StrAppend(&text, " ", run.tape->calls[i].op);
    }
    for (const Ways::Edge& edge : node.next) {
      absl::StrAppend(&text, "; ", ToText(edge.outcome), " -> ", edge.node);
      absl::btree_map<TapeTensorId, Ways::Name> names(edge.names.begin(),
                                                      edge.names.end());
      for (const auto& [tensor, name] : names) {
        absl::StrAppend(&text, " ", tensor, "=", name.run, ".", name.tensor,
                        edge.taken.contains(tensor) ? "!" : "");
      }
    }
    absl::StrAppend(&text, "\n");
  }
  return text;
}

}  // namespace mica
