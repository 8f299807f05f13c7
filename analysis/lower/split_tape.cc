#include "analysis/lower/split_tape.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status.h"

namespace mica {
namespace {

absl::Status Refuse(const TapeCall& call, const char* why) {
  return absl::UnimplementedError(
      absl::StrCat(call.op, ": the backward pass ", why));
}

// The tape with the calls of one part, or of the run, alone.
Tape WithCallsOf(const Tape& tape, int32_t later_part) {
  Tape part = tape;
  absl::flat_hash_set<int32_t> others;
  for (size_t i = 0; i < tape.calls.size(); ++i) {
    if (tape.calls[i].later_part != later_part) {
      others.insert(static_cast<int32_t>(i));
    }
  }
  if (later_part >= 0) part.host_values.clear();
  DropCalls(part, others);
  return part;
}

// What the first part tells the later ones: each value once.
class Told {
 public:
  Told(const Tape& tape, size_t num_results)
      : results_(tape.results.begin(),
                 tape.results.begin() + static_cast<ptrdiff_t>(num_results)),
        numbers_(tape.host_results) {}

  int32_t Result(TapeTensorId id) { return Place(id, &results_); }
  int32_t Number(int32_t id) { return Place(id, &numbers_); }

  std::vector<TapeTensorId> results() const { return results_; }
  std::vector<int32_t> numbers() const { return numbers_; }

 private:
  static int32_t Place(int32_t id, std::vector<int32_t>* all) {
    const auto at = std::find(all->begin(), all->end(), id);
    const auto index = static_cast<int32_t>(at - all->begin());
    if (at == all->end()) all->push_back(id);
    return index;
  }

  std::vector<TapeTensorId> results_;
  std::vector<int32_t> numbers_;
};

// Makes one later part.
class Splitter {
 public:
  Splitter(const Tape& tape, int num_args, int32_t part_id,
           const LaterPart& part, Told* told)
      : tape_(tape),
        num_args_(num_args),
        part_id_(part_id),
        part_(part),
        told_(*told) {}

  absl::StatusOr<SplitTape::Later> Split() {
    MICA_RETURN_IF_ERROR(FindKept());
    MICA_RETURN_IF_ERROR(CheckWrites());
    return SplitTape::Later{.tape = MakeTape(),
                            .kept = std::move(kept_),
                            .states = std::move(states_),
                            .numbers = std::move(numbers_)};
  }

 private:
  bool IsOwn(const TapeCall& call) const { return call.later_part == part_id_; }
  bool IsOwn(const TapeTensor& tensor) const {
    return tensor.origin == TapeOrigin::kCall && tensor.call >= 0 &&
           IsOwn(tape_.calls[tensor.call]);
  }

  // What the part reads, in the order in which it does.
  absl::Status FindKept() {
    const auto see = [this](TapeTensorId id) { See(id); };
    for (const TapeCall& call : tape_.calls) {
      if (!IsOwn(call)) continue;
      for (const TapeValue& arg : call.args) ForEachTensor(arg, see);
    }
    for (const int32_t gradient : part_.gradients) {
      See(tape_.results[gradient]);
    }
    if (!reads_others_) return absl::OkStatus();
    return absl::UnimplementedError(
        "a part of the backward pass reads what another one makes");
  }

  void See(TapeTensorId id) {
    if (!seen_.insert(id).second) return;
    const TapeTensor& tensor = tape_.tensors[id];
    switch (tensor.origin) {
      case TapeOrigin::kConstant:
        for (const TapeHostOperand& number : tensor.numbers) {
          if (number.id >= 0) AddNumber(number.id);
        }
        break;
      case TapeOrigin::kState:
        AddState(id);
        break;
      case TapeOrigin::kInput:
      case TapeOrigin::kCall:
        if (IsOwn(tensor)) break;
        if (IsMadeFirst(tensor)) {
          Keep(id);
        } else if (!IsRoot(tensor)) {
          reads_others_ = true;
        }
        break;
      case TapeOrigin::kAlias:
        if (IsMadeFirst(tape_.tensors[tensor.base])) {
          Keep(id);
        } else {
          See(tensor.base);
        }
        break;
    }
  }

  // Whether it is an argument, or made by a call of the first part.
  bool IsMadeFirst(const TapeTensor& tensor) const {
    if (tensor.origin == TapeOrigin::kInput) return tensor.input < num_args_;
    return tensor.origin == TapeOrigin::kCall &&
           (tensor.call < 0 || tape_.calls[tensor.call].later_part < 0);
  }

  bool IsRoot(const TapeTensor& tensor) const {
    return tensor.origin == TapeOrigin::kInput &&
           std::find(part_.roots.begin(), part_.roots.end(), tensor.input) !=
               part_.roots.end();
  }

  void AddNumber(int32_t id) {
    if (numbers_by_id_.try_emplace(id, numbers_.size()).second) {
      numbers_.push_back(told_.Number(id));
    }
  }

  void Keep(TapeTensorId id) {
    const TapeTensor& tensor = tape_.tensors[id];
    ids_.push_back(id);
    const bool is_result = tensor.origin != TapeOrigin::kInput;
    kept_.push_back(
        {.is_result = is_result,
         .index = is_result ? told_.Result(id) : int32_t{tensor.input}});
  }

  void AddState(TapeTensorId id) {
    const auto at = std::find(tape_.states.begin(), tape_.states.end(), id);
    states_.push_back(static_cast<int32_t>(at - tape_.states.begin()));
  }

  absl::Status CheckWrites() const {
    absl::flat_hash_set<int32_t> own;  // Memories that its calls alone made.
    for (const TapeTensor& tensor : tape_.tensors) {
      if (IsOwn(tensor)) own.insert(tensor.storage);
    }
    for (const TapeTensor& tensor : tape_.tensors) {
      if (!IsOwn(tensor) && tensor.origin != TapeOrigin::kAlias) {
        own.erase(tensor.storage);
      }
    }
    for (const TapeCall& call : tape_.calls) {
      if (!IsOwn(call)) continue;
      bool is_own = true;
      ForEachWritten(call, [&](TapeTensorId id) {
        is_own = is_own && own.contains(tape_.tensors[id].storage);
      });
      if (!is_own) return Refuse(call, "writes what it didn't make");
    }
    return absl::OkStatus();
  }

  Tape MakeTape() const {
    Tape part = WithCallsOf(tape_, part_id_);
    absl::StrAppend(&part.name, "_backward");
    if (part_id_ > 0) absl::StrAppend(&part.name, part_id_ + 1);
    part.inputs.clear();
    for (const int32_t root : part_.roots) {
      part.inputs.push_back(tape_.inputs[root]);
    }
    part.inputs.insert(part.inputs.end(), ids_.begin(), ids_.end());
    for (size_t i = 0; i < part.inputs.size(); ++i) {
      TapeTensor& tensor = part.tensors[part.inputs[i]];
      if (tensor.origin != TapeOrigin::kInput) {
        tensor.name = absl::StrCat("kept", i);
        tensor.origin = TapeOrigin::kInput;
        tensor.call = tensor.output = tensor.item = -1;
        tensor.base = kNoTapeTensor;
      }
      tensor.input = static_cast<int32_t>(i);
    }
    part.states.clear();
    for (const int32_t state : states_) {
      part.states.push_back(tape_.states[state]);
    }
    part.results.clear();
    for (const int32_t gradient : part_.gradients) {
      part.results.push_back(tape_.results[gradient]);
    }
    part.mutated.clear();
    part.host_reads.clear();
    part.host_results.clear();
    PlaceNumbers(&part);
    return part;
  }

  void PlaceNumbers(Tape* part) const {
    part->host_values.resize(numbers_.size());
    for (const auto& [id, index] : numbers_by_id_) {
      part->host_values[index] = {.kind = TapeHostValue::Kind::kInput,
                                  .input = static_cast<int32_t>(index),
                                  .name = absl::StrCat("number", index),
                                  .value = tape_.host_values[id].value};
    }
    for (TapeTensor& tensor : part->tensors) {
      for (TapeHostOperand& number : tensor.numbers) {
        const auto it = numbers_by_id_.find(number.id);
        number.id =
            it == numbers_by_id_.end() ? -1 : static_cast<int32_t>(it->second);
      }
    }
  }

  const Tape& tape_;
  const int num_args_;
  const int32_t part_id_;
  const LaterPart& part_;
  Told& told_;
  bool reads_others_ = false;
  absl::flat_hash_set<TapeTensorId> seen_;
  std::vector<TapeTensorId> ids_;  // Of `kept_`.
  std::vector<SplitTape::Kept> kept_;
  std::vector<int32_t> states_;
  absl::flat_hash_map<int32_t, size_t> numbers_by_id_;
  std::vector<int32_t> numbers_;
};

}  // namespace

void DropCalls(Tape& tape, const absl::flat_hash_set<int32_t>& dead) {
  if (dead.empty()) return;
  std::vector<int32_t> moved(tape.calls.size(), -1);
  std::vector<TapeCall> kept;
  for (size_t i = 0; i < tape.calls.size(); ++i) {
    if (dead.contains(static_cast<int32_t>(i))) continue;
    moved[i] = static_cast<int32_t>(kept.size());
    kept.push_back(std::move(tape.calls[i]));
  }
  tape.calls = std::move(kept);
  for (TapeTensor& tensor : tape.tensors) {
    if (tensor.call >= 0) tensor.call = moved[tensor.call];
  }
  for (TapeHostRead& read : tape.host_reads) read.call = moved[read.call];
  for (TapeHostValue& value : tape.host_values) {
    if (value.call >= 0) value.call = moved[value.call];
  }
}

absl::StatusOr<SplitTape> SplitAtBackward(const Tape& tape, int num_args,
                                          int num_results,
                                          absl::Span<const LaterPart> parts) {
  for (const TapeHostRead& read : tape.host_reads) {
    const TapeCall& call = tape.calls[read.call];
    if (call.later_part >= 0) return Refuse(call, "reads a number on the host");
  }
  SplitTape split;
  Told told(tape, static_cast<size_t>(num_results));
  for (size_t i = 0; i < parts.size(); ++i) {
    MICA_ASSIGN_OR_RETURN(
        SplitTape::Later later,
        Splitter(tape, num_args, static_cast<int32_t>(i), parts[i], &told)
            .Split());
    split.later.push_back(std::move(later));
  }
  split.first = WithCallsOf(tape, -1);
  split.first.inputs.resize(static_cast<size_t>(num_args));
  split.first.results = told.results();
  split.first.host_results = told.numbers();
  return split;
}

}  // namespace mica
