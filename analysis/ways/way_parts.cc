#include "analysis/ways/way_parts.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"

namespace mica {
namespace {

absl::Status Refuse(const TapeCall& call, const char* why) {
  return absl::FailedPreconditionError(
      absl::StrCat(call.op, ": ", why, LineOf(call)));
}

bool IsLast(const WayRun& run, int32_t segment) {
  return segment + 1 == run.num_segments();
}

bool IsMadeIn(const WayRun& run, int32_t segment, TapeTensorId id) {
  const TapeTensor& tensor = run.tape->tensors[id];
  return tensor.origin == TapeOrigin::kCall &&
         tensor.call >= run.SegmentBegin(segment) &&
         tensor.call < run.SegmentEnd(segment);
}

// The call that the fork behind a segment asks; null if there is none.
const TapeCall* AskedBehind(const WayRun& run, int32_t segment) {
  if (IsLast(run, segment)) return nullptr;
  const WayEvent& event = run.events[segment];
  return event.kind == WayEvent::Kind::kFork ? &run.tape->calls[event.asked]
                                             : nullptr;
}

TapeTensorId ReadBehind(const WayRun& run, int32_t segment) {
  const TapeCall* asked = AskedBehind(run, segment);
  if (asked == nullptr || IsComparison(*asked)) return kNoTapeTensor;
  const auto* ref = std::get_if<TapeTensorRef>(&asked->args[0]);
  return ref == nullptr ? kNoTapeTensor : ref->id;
}

// Calls visit on the id of each tensor that a segment reads, whoever made it.
template <typename Visit>
void ForEachUse(const WayRun& run, int32_t segment, const Visit& visit) {
  const int32_t end = run.SegmentEnd(segment);
  for (int32_t i = run.SegmentBegin(segment); i < end; ++i) {
    for (const TapeValue& arg : run.tape->calls[i].args) {
      ForEachTensor(arg, visit);
    }
  }
  if (const TapeTensorId read = ReadBehind(run, segment); read >= 0) {
    visit(read);
  }
  if (!IsLast(run, segment)) return;
  for (const TapeTensorId id : run.tape->results) visit(id);
}

class WantedFinder {
 public:
  explicit WantedFinder(const Ways& ways)
      : ways_(ways),
        wanted_(ways.nodes().size()),
        is_known_(ways.nodes().size()) {}

  std::vector<WantedNames> Find() {
    if (!wanted_.empty()) See(0);
    return std::move(wanted_);
  }

 private:
  // Deep recursion: as deep as there are forks on a way.
  void See(int32_t number) {
    if (is_known_[number]) return;
    is_known_[number] = true;
    const Ways::Node& node = ways_.nodes()[number];
    const WayRun& run = ways_.runs()[node.run];
    WantedNames wanted;
    const auto want = [&](const Ways::Name& name) {
      const WayRun& of = ways_.runs()[name.run];
      if (IsLeaf(of.tape->tensors[name.tensor])) return;
      if (name.run == node.run && IsMadeIn(run, node.segment, name.tensor)) {
        return;
      }
      wanted.insert(name);
    };
    ForEachUse(run, node.segment, [&](TapeTensorId id) {
      want({node.run, id});
    });
    for (const Ways::Edge& edge : node.next) {
      See(edge.node);
      const int32_t next_run = ways_.nodes()[edge.node].run;
      for (const Ways::Name& name : wanted_[edge.node]) {
        const auto it = name.run == next_run ? edge.names.find(name.tensor)
                                             : edge.names.end();
        want(it == edge.names.end() ? name : it->second);
      }
    }
    wanted_[number] = std::move(wanted);
  }

  const Ways& ways_;
  std::vector<WantedNames> wanted_;
  std::vector<bool> is_known_;
};

// Makes the part of a node.
class PartMaker {
 public:
  PartMaker(const Ways& ways, int32_t node,
            absl::Span<const WantedNames> wanted)
      : ways_(ways),
        node_(ways.nodes()[node]),
        wanted_(wanted),
        run_(ways.runs()[node_.run]),
        tape_(*run_.tape),
        begin_(run_.SegmentBegin(node_.segment)),
        end_(run_.SegmentEnd(node_.segment)) {}

  absl::StatusOr<WayPart> Make() {
    MICA_RETURN_IF_ERROR(CheckCalls());
    part_.tape.name = tape_.name;
    part_.tape.tensors = tape_.tensors;
    part_.tape.calls.assign(tape_.calls.begin() + begin_,
                            tape_.calls.begin() + end_);
    for (TapeTensor& tensor : part_.tape.tensors) {
      if (tensor.origin != TapeOrigin::kCall) continue;
      const bool is_own = tensor.call >= begin_ && tensor.call < end_;
      tensor.call = is_own ? tensor.call - begin_ : -1;
    }
    MICA_RETURN_IF_ERROR(FindNumbers());
    FindResults();
    MICA_RETURN_IF_ERROR(FindOperands());
    DropRead();
    return std::move(part_);
  }

 private:
  bool IsOwn(TapeTensorId id) const {
    return IsMadeIn(run_, node_.segment, id);
  }

  // What can't be done again by halves.
  absl::Status CheckCalls() const {
    absl::flat_hash_set<int32_t> own;  // Memories that its calls alone made.
    for (size_t i = 0; i < tape_.tensors.size(); ++i) {
      if (IsOwn(static_cast<TapeTensorId>(i))) {
        own.insert(tape_.tensors[i].storage);
      }
    }
    for (size_t i = 0; i < tape_.tensors.size(); ++i) {
      if (!IsOwn(static_cast<TapeTensorId>(i))) {
        own.erase(tape_.tensors[i].storage);
      }
    }
    for (int32_t i = begin_; i < end_; ++i) {
      const TapeCall& call = tape_.calls[i];
      if (call.is_nondeterministic_seeded) return Refuse(call, "draws");
      if (HasSizeOfData(tape_, call)) return Refuse(call, "has data's sizes");
      if (CountsFromStorage(call)) return Refuse(call, "counts from a memory");
      bool is_own = true;
      ForEachWritten(call, [&](TapeTensorId id) {
        is_own = is_own && own.contains(tape_.tensors[id].storage);
      });
      if (!is_own) return Refuse(call, "writes what was made before a fork");
      for (const TapeValue& output : call.outputs) {
        bool is_plain = true;
        ForEachTensor(output, [&](TapeTensorId id) {
          is_plain = is_plain && !tape_.tensors[id].requires_grad;
        });
        if (!is_plain) return Refuse(call, "is tracked by autograd");
      }
    }
    return absl::OkStatus();
  }

  void AddResult(TapeTensorId id) {
    if (!IsOwn(id) || absl::c_linear_search(part_.results, id)) return;
    part_.results.push_back(id);
  }

  void FindResults() {
    part_.read = ReadBehind(run_, node_.segment);
    if (part_.read >= 0) AddResult(part_.read);
    if (part_.a.read >= 0) AddResult(part_.a.read);
    if (part_.b.read >= 0) AddResult(part_.b.read);
    if (IsLast(run_, node_.segment)) {
      for (const TapeTensorId id : tape_.results) AddResult(id);
    }
    for (const Ways::Edge& edge : node_.next) {
      const int32_t next_run = ways_.nodes()[edge.node].run;
      for (const Ways::Name& name : wanted_[edge.node]) {
        const auto it = name.run == next_run ? edge.names.find(name.tensor)
                                             : edge.names.end();
        const Ways::Name before = it == edge.names.end() ? name : it->second;
        if (before.run == node_.run) AddResult(before.tensor);
      }
    }
    absl::c_sort(part_.results);
    part_.tape.results = part_.results;
  }

  absl::Status FindOperands() {
    absl::btree_set<TapeTensorId> used;
    for (const TapeCall& call : part_.tape.calls) {
      for (const TapeValue& arg : call.args) {
        ForEachTensor(arg, [&](TapeTensorId id) { used.insert(id); });
      }
    }
    absl::flat_hash_set<int32_t> memories;
    for (const TapeTensorId id : used) {
      const TapeTensor& tensor = tape_.tensors[id];
      switch (tensor.origin) {
        case TapeOrigin::kInput:
          part_.args.push_back(tensor.input);
          break;
        case TapeOrigin::kState:
          part_.states.push_back(static_cast<int32_t>(
              absl::c_find(tape_.states, id) - tape_.states.begin()));
          break;
        case TapeOrigin::kConstant:
          continue;
        case TapeOrigin::kAlias:
          return absl::FailedPreconditionError(
              "a tensor was made from another one's memory");
        case TapeOrigin::kCall:
          if (IsOwn(id)) continue;
          part_.kept.push_back(id);
          break;
      }
      // Another way may have them in memories of their own.
      if (!memories.insert(tensor.storage).second &&
          tensor.origin == TapeOrigin::kCall) {
        return absl::FailedPreconditionError(
            "tensors that share memory are used behind a fork");
      }
    }
    for (const int32_t arg : part_.args) {
      part_.tape.inputs.push_back(tape_.inputs[arg]);
    }
    for (const int32_t state : part_.states) {
      part_.tape.states.push_back(tape_.states[state]);
    }
    for (const TapeTensorId id : part_.kept) {
      TapeTensor& tensor = part_.tape.tensors[id];
      tensor.origin = TapeOrigin::kInput;
      tensor.name = absl::StrCat("kept", part_.tape.inputs.size());
      tensor.call = tensor.output = tensor.item = -1;
      part_.tape.inputs.push_back(id);
    }
    for (size_t i = 0; i < part_.tape.inputs.size(); ++i) {
      part_.tape.tensors[part_.tape.inputs[i]].input = static_cast<int32_t>(i);
    }
    return absl::OkStatus();
  }

  // The part's own number for one of the run's; -1 if it can't have it.
  int32_t Number(int32_t id) {
    if (id < 0) return -1;
    if (const auto it = numbers_.find(id); it != numbers_.end()) {
      return it->second;
    }
    TapeHostValue value = tape_.host_values[id];
    if (!value.is_constant) {
      if (value.kind == TapeHostValue::Kind::kInput) return -1;
      if (value.kind == TapeHostValue::Kind::kRead) {
        if (value.call < begin_ || value.call >= end_) return -1;
        value.call -= begin_;
      }
      for (TapeHostOperand& operand : value.operands) {
        if (operand.id < 0) continue;
        operand.id = Number(operand.id);
        if (operand.id < 0) return -1;
      }
    }
    const auto own = static_cast<int32_t>(part_.tape.host_values.size());
    part_.tape.host_values.push_back(std::move(value));
    numbers_[id] = own;
    return own;
  }

  absl::Status FindNumbers() {
    bool is_known = true;
    for (TapeCall& call : part_.tape.calls) {
      for (TapeValue& arg : call.args) {
        if (auto* ref = std::get_if<TapeHostRef>(&arg)) {
          ref->id = Number(ref->id);
          is_known &= ref->id >= 0;
        } else if (auto* list = std::get_if<TapeHostList>(&arg)) {
          for (TapeHostOperand& item : list->items) {
            if (item.id < 0) continue;
            item.id = Number(item.id);
            is_known &= item.id >= 0;
          }
        }
        ForEachTensor(arg, [&](TapeTensorId id) {
          // Of the tape of all: a tensor may be met more than once.
          const std::vector<TapeHostOperand>& all = tape_.tensors[id].numbers;
          for (size_t i = 0; i < all.size(); ++i) {
            if (all[i].id < 0) continue;
            const int32_t own = Number(all[i].id);
            part_.tape.tensors[id].numbers[i].id = own;
            is_known &= own >= 0;
          }
        });
      }
    }
    const TapeCall* asked = AskedBehind(run_, node_.segment);
    if (asked != nullptr && IsComparison(*asked)) {
      part_.comparison = asked->op;
      is_known &=
          Ask(asked->args[0], &part_.a) && Ask(asked->args[1], &part_.b);
    }
    return is_known ? absl::OkStatus()
                    : absl::FailedPreconditionError(
                          "a number that was read before a fork is used "
                          "behind it");
  }

  bool Ask(const TapeValue& operand, WayPart::Number* number) {
    if (const auto* constant = std::get_if<double>(&operand)) {
      number->constant = *constant;
      return true;
    }
    const int32_t of_run = std::get<TapeHostRef>(operand).id;
    const TapeHostValue& value = tape_.host_values[of_run];
    if (value.is_constant) {
      number->constant = value.value;
      return true;
    }
    const int32_t id = Number(of_run);
    if (id < 0) return false;
    if (value.kind == TapeHostValue::Kind::kRead) {
      const auto* read =
          std::get_if<TapeTensorRef>(&tape_.calls[value.call].args[0]);
      if (read == nullptr || read->id < 0) return false;
      // Else its element is another one by the time of the fork.
      if (!IsWrittenBehind(value.call, read->id)) {
        number->read = read->id;
        return true;
      }
    }
    number->index = static_cast<int32_t>(part_.tape.host_results.size());
    part_.tape.host_results.push_back(id);
    return true;
  }

  // Whether a call of the part's after call `call` writes a tensor's memory.
  bool IsWrittenBehind(int32_t call, TapeTensorId id) const {
    bool is_written = false;
    for (int32_t i = call + 1; i < end_; ++i) {
      ForEachWritten(tape_.calls[i], [&](TapeTensorId written) {
        is_written |=
            tape_.tensors[written].storage == tape_.tensors[id].storage;
      });
    }
    return is_written;
  }

  // What asks for the element is no call of the part's.
  void DropRead() {
    if (part_.read >= 0) part_.tape.calls.pop_back();
  }

  const Ways& ways_;
  const Ways::Node& node_;
  const absl::Span<const WantedNames> wanted_;
  const WayRun& run_;
  const Tape& tape_;
  const int32_t begin_;
  const int32_t end_;
  absl::flat_hash_map<int32_t, int32_t> numbers_;
  WayPart part_;
};

}  // namespace

bool IsLeaf(const TapeTensor& tensor) {
  return tensor.origin == TapeOrigin::kInput ||
         tensor.origin == TapeOrigin::kState ||
         tensor.origin == TapeOrigin::kConstant;
}

std::vector<WantedNames> FindWanted(const Ways& ways) {
  return WantedFinder(ways).Find();
}

absl::StatusOr<WayPart> MakeWayPart(const Ways& ways, int32_t node,
                                    absl::Span<const WantedNames> wanted) {
  return PartMaker(ways, node, wanted).Make();
}

std::vector<std::pair<Ways::Name, Ways::Name>> FindMoves(
    const Ways::Edge& edge, const Ways& ways,
    absl::Span<const WantedNames> wanted) {
  std::vector<std::pair<Ways::Name, Ways::Name>> moves;
  const int32_t run = ways.nodes()[edge.node].run;
  for (const Ways::Name& name : wanted[edge.node]) {
    if (name.run != run) continue;
    const auto it = edge.names.find(name.tensor);
    if (it == edge.names.end() || it->second == name) continue;
    moves.push_back({name, it->second});
  }
  return moves;
}

}  // namespace mica
