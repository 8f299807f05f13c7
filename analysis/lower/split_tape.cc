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

class Splitter {
 public:
  Splitter(const Tape& tape, int num_roots, int num_gradients)
      : tape_(tape),
        num_args_(static_cast<int32_t>(tape.inputs.size()) - num_roots),
        num_results_(tape.results.size() - num_gradients) {}

  absl::StatusOr<SplitTape> Split() {
    MICA_RETURN_IF_ERROR(CheckLaterReads());
    FindKept();
    MICA_RETURN_IF_ERROR(CheckLaterWrites());
    return SplitTape{.first = MakeFirst(),
                     .later = MakeLater(),
                     .kept = std::move(kept_),
                     .states = std::move(states_),
                     .numbers = std::move(numbers_)};
  }

 private:
  bool IsLater(const TapeTensor& tensor) const {
    return tensor.origin == TapeOrigin::kCall && tensor.call >= 0 &&
           tape_.calls[tensor.call].is_later;
  }

  absl::Status CheckLaterReads() const {
    for (const TapeHostRead& read : tape_.host_reads) {
      const TapeCall& call = tape_.calls[read.call];
      if (call.is_later) return Refuse(call, "reads a number on the host");
    }
    return absl::OkStatus();
  }

  // What the later part reads, in the order in which it does.
  void FindKept() {
    const auto see = [this](TapeTensorId id) { See(id); };
    for (const TapeCall& call : tape_.calls) {
      if (!call.is_later) continue;
      for (const TapeValue& arg : call.args) ForEachTensor(arg, see);
    }
    std::for_each(tape_.results.begin() + num_results_, tape_.results.end(),
                  see);
  }

  void See(TapeTensorId id) {
    if (!seen_.insert(id).second) return;
    const TapeTensor& tensor = tape_.tensors[id];
    switch (tensor.origin) {
      case TapeOrigin::kConstant:
        if (tensor.host_value >= 0) AddNumber(tensor.host_value);
        break;
      case TapeOrigin::kState:
        AddState(id);
        break;
      case TapeOrigin::kInput:
      case TapeOrigin::kCall:
        if (IsMadeFirst(tensor)) Keep(id);
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
    return tensor.origin == TapeOrigin::kCall    ? !IsLater(tensor)
           : tensor.origin == TapeOrigin::kInput ? tensor.input < num_args_
                                                 : false;
  }

  void AddNumber(int32_t id) {
    if (!numbers_by_id_.try_emplace(id, numbers_.size()).second) return;
    const std::vector<int32_t>& told = tape_.host_results;
    const auto known = std::find(told.begin(), told.end(), id);
    if (known == told.end()) further_numbers_.push_back(id);
    const size_t index = known == told.end()
                             ? told.size() + further_numbers_.size() - 1
                             : static_cast<size_t>(known - told.begin());
    numbers_.push_back(static_cast<int32_t>(index));
  }

  void Keep(TapeTensorId id) {
    const TapeTensor& tensor = tape_.tensors[id];
    ids_.push_back(id);
    if (tensor.origin == TapeOrigin::kInput) {
      kept_.push_back({.is_result = false, .index = tensor.input});
      return;
    }
    const auto end = tape_.results.begin() + num_results_;
    const auto known = std::find(tape_.results.begin(), end, id);
    if (known != end) {
      kept_.push_back(
          {.is_result = true,
           .index = static_cast<int32_t>(known - tape_.results.begin())});
      return;
    }
    kept_.push_back({.is_result = true,
                     .index = static_cast<int32_t>(num_results_ +
                                                   further_results_.size())});
    further_results_.push_back(id);
  }

  void AddState(TapeTensorId id) {
    const auto at = std::find(tape_.states.begin(), tape_.states.end(), id);
    states_.push_back(static_cast<int32_t>(at - tape_.states.begin()));
  }

  absl::Status CheckLaterWrites() const {
    absl::flat_hash_set<int32_t> own;  // Memories that later calls alone made.
    for (const TapeTensor& tensor : tape_.tensors) {
      if (IsLater(tensor)) own.insert(tensor.storage);
    }
    for (const TapeTensor& tensor : tape_.tensors) {
      if (!IsLater(tensor) && tensor.origin != TapeOrigin::kAlias) {
        own.erase(tensor.storage);
      }
    }
    for (const TapeCall& call : tape_.calls) {
      if (!call.is_later) continue;
      bool is_own = true;
      for (const int32_t arg : call.mutated_args) {
        ForEachTensor(call.args[arg], [&](TapeTensorId id) {
          is_own = is_own && own.contains(tape_.tensors[id].storage);
        });
      }
      if (!is_own) return Refuse(call, "writes what it didn't make");
    }
    return absl::OkStatus();
  }

  Tape Part(bool is_later) const {
    Tape part = tape_;
    absl::flat_hash_set<int32_t> others;
    for (size_t i = 0; i < tape_.calls.size(); ++i) {
      if (tape_.calls[i].is_later != is_later) {
        others.insert(static_cast<int32_t>(i));
      }
    }
    if (is_later) part.host_values.clear();
    DropCalls(part, others);
    return part;
  }

  Tape MakeFirst() const {
    Tape part = Part(/*is_later=*/false);
    part.inputs.resize(num_args_);
    part.results.resize(num_results_);
    part.results.insert(part.results.end(), further_results_.begin(),
                        further_results_.end());
    part.host_results.insert(part.host_results.end(), further_numbers_.begin(),
                             further_numbers_.end());
    return part;
  }

  Tape MakeLater() const {
    Tape part = Part(/*is_later=*/true);
    absl::StrAppend(&part.name, "_backward");
    part.inputs.erase(part.inputs.begin(), part.inputs.begin() + num_args_);
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
    part.results.erase(
        part.results.begin(),
        part.results.begin() + static_cast<ptrdiff_t>(num_results_));
    part.mutated.clear();
    part.host_reads.clear();
    part.host_results.clear();
    part.host_values.resize(numbers_.size());
    for (const auto& [id, index] : numbers_by_id_) {
      part.host_values[index] = {.kind = TapeHostValue::Kind::kInput,
                                 .input = static_cast<int32_t>(index),
                                 .name = absl::StrCat("number", index),
                                 .value = tape_.host_values[id].value};
    }
    for (TapeTensor& tensor : part.tensors) {
      const auto it = numbers_by_id_.find(tensor.host_value);
      tensor.host_value =
          it == numbers_by_id_.end() ? -1 : static_cast<int32_t>(it->second);
    }
    return part;
  }

  const Tape& tape_;
  const int32_t num_args_;
  const size_t num_results_;
  absl::flat_hash_set<TapeTensorId> seen_;
  std::vector<TapeTensorId> ids_;  // Of `kept_`.
  std::vector<SplitTape::Kept> kept_;
  std::vector<TapeTensorId> further_results_;
  std::vector<int32_t> states_;
  absl::flat_hash_map<int32_t, size_t> numbers_by_id_;
  std::vector<int32_t> numbers_;
  std::vector<int32_t> further_numbers_;
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

absl::StatusOr<SplitTape> SplitAtBackward(const Tape& tape, int num_roots,
                                          int num_gradients) {
  return Splitter(tape, num_roots, num_gradients).Split();
}

}  // namespace mica
