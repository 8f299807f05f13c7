#include "analysis/sizes/library_loops.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "analysis/sizes/added_loops.h"

namespace mica {
namespace {

bool IsRecurrent(absl::string_view function) {
  static constexpr absl::string_view kNames[] = {"gru", "lstm", "rnn_tanh",
                                                 "rnn_relu"};
  return absl::c_linear_search(kNames, function);
}

// The calls from `begin` to `end` that are alike, one round after another.
class Finder {
 public:
  Finder(const Tape& tape, int32_t begin, int32_t end)
      : tape_(tape), begin_(begin), end_(end) {
    for (int32_t i = begin; i < end; ++i) {
      for (const TapeValue& arg : tape.calls[i].args) {
        ForEachTensor(arg,
                      [&](TapeTensorId id) { first_use_.try_emplace(id, i); });
      }
    }
  }

  std::vector<SizeFacts::Loop> Find() const {
    std::vector<SizeFacts::Loop> found;
    for (int32_t i = begin_; i < end_; ++i) {
      SizeFacts::Loop loop = FindOver(i);
      if (!loop.calls.empty()) found.push_back(std::move(loop));
    }
    // A layer that is one of several isn't a round, its steps are.
    absl::c_stable_sort(found, [](const auto& a, const auto& b) {
      return a.calls[1] - a.calls[0] < b.calls[1] - b.calls[0];
    });
    std::vector<SizeFacts::Loop> apart;
    for (SizeFacts::Loop& loop : found) {
      const bool overlaps = absl::c_any_of(apart, [&](const auto& other) {
        return loop.calls.front() < other.calls.back() &&
               other.calls.front() < loop.calls.back();
      });
      if (!overlaps) apart.push_back(std::move(loop));
    }
    return apart;
  }

 private:
  SizeFacts::Loop FindOver(int32_t call) const {
    const TapeCall& parts = tape_.calls[call];
    if (parts.op != "aten.unbind.int" || parts.outputs.size() != 1) return {};
    const auto* list = std::get_if<TapeTensorList>(&parts.outputs[0]);
    if (list == nullptr || list->ids.size() < 2) return {};
    std::vector<int32_t> uses;
    for (const TapeTensorId id : list->ids) {
      const auto it = first_use_.find(id);
      if (it == first_use_.end()) return {};
      uses.push_back(it->second);
    }
    if (uses.front() > uses.back()) absl::c_reverse(uses);
    const int32_t length = uses[1] - uses[0];
    if (length <= 0) return {};
    for (size_t i = 1; i < uses.size(); ++i) {
      if (uses[i] - uses[i - 1] != length) return {};
    }
    // Where a round begins that uses its part later.
    int32_t first = uses[0];
    const auto count = static_cast<int32_t>(uses.size());
    while (first > call + 1 && first > uses[0] - length + 1 &&
           tape_.calls[first - 1].op == tape_.calls[first - 1 + length].op) {
      --first;
    }
    if (first + count * length > end_) return {};
    for (int32_t i = first; i < first + (count - 1) * length; ++i) {
      if (tape_.calls[i].op != tape_.calls[i + length].op) return {};
    }
    SizeFacts::Loop loop{.call = call};
    for (int32_t round = 0; round <= count; ++round) {
      loop.calls.push_back(first + round * length);
    }
    return loop;
  }

  const Tape& tape_;
  const int32_t begin_;
  const int32_t end_;
  absl::flat_hash_map<TapeTensorId, int32_t> first_use_;
};

}  // namespace

void AddLibraryLoops(const Tape& tape, SizeFacts& facts) {
  std::vector<SizeFacts::Loop> found;
  for (const SizeFacts::Use& use : facts.uses) {
    if (!IsRecurrent(use.called)) continue;
    const bool is_inside = absl::c_any_of(facts.loops, [&](const auto& loop) {
      return use.first_call < loop.calls.back() &&
             loop.calls.front() < use.end_call;
    });
    if (is_inside) continue;
    for (SizeFacts::Loop& loop :
         Finder(tape, use.first_call, use.end_call).Find()) {
      loop.at = use.at;
      found.push_back(std::move(loop));
    }
  }
  AddLoops(std::move(found), facts);
}

}  // namespace mica
