// What a Graph's weights hold in memory once its runs go on as they began.

#include <algorithm>
#include <vector>

#include "framework/base/offload.h"
#include "framework/base/status.h"
#include "python/capture/graph/graph.h"
#include "python/torch_side/tensors/offloaded_memory.h"

namespace mica {
namespace {

// Of weights: where there are fewer, what is left over isn't worth the look.
constexpr int64_t kManyWeightBytes = int64_t{1} << 24;
// Smaller ones stay: a file's block, and the system's notes on it, are as
// large.
constexpr int64_t kLeastOffloadedBytes = int64_t{1} << 16;

// By variable: whether a run reads or writes it where it is.
std::vector<bool> VariablesOfRuns(const Plan& plan) {
  std::vector<bool> used(plan.program().variables().size());
  for (const Location& location : plan.args()) {
    if (location.home == Home::kVariable) used[location.index] = true;
  }
  return used;
}

int64_t PackedBytes(const Plan& plan) {
  int64_t bytes = 0;
  for (const PackedOperand& packed : plan.packed()) bytes += packed.bytes;
  for (const FoldedValue& folded : plan.folded()) {
    if (folded.is_read) bytes += folded.bytes;
  }
  return bytes;
}

bool Overlap(const MemoryRange& a, const MemoryRange& b) {
  return a.data < b.end() && b.data < a.end();
}

}  // namespace

std::vector<MemoryRange> Graph::FrozenState::Pieces() const {
  std::vector<MemoryRange> pieces;
  char* at = static_cast<char*>(data);
  for (size_t i = 0; i < bytes.size(); i += piece_bytes, at += step) {
    pieces.push_back({at, piece_bytes});
  }
  return pieces;
}

void Graph::Settle(absl::Span<PyObject* const> states) {
  settled_ = binding_;
  weights_ = {.packed_bytes = PackedBytes(*plan_)};
  if (!options_.offload_folder.empty()) {
    const absl::Status status =
        options_.frozen
            ? Offload(states)
            : absl::FailedPreconditionError(
                  "some were made in inference mode, so nothing tells whether "
                  "they are written");
    if (!status.ok()) weights_.error = std::string(status.message());
  }
  int64_t bytes = 0;
  for (const Variable& variable : program_->variables()) {
    bytes += program_->type(variable.value).extent_bytes();
  }
  if (bytes >= kManyWeightBytes) ReturnFreeMemory();
}

absl::Status Graph::Offload(absl::Span<PyObject* const> states) {
  const std::vector<bool> used = VariablesOfRuns(*plan_);
  std::vector<MemoryRange> in_use;
  const auto range_of = [&](size_t i) {
    const ValueId value = program_->variables()[i].value;
    return MemoryRange{static_cast<char*>(DataOf(states[i])),
                       program_->type(value).extent_bytes()};
  };
  for (size_t i = 0; i < states.size(); ++i) {
    if (used[i]) in_use.push_back(range_of(i));
  }
  for (size_t i = 0; i < states.size(); ++i) {
    const MemoryRange range = range_of(i);
    const bool is_in_use = used[i] || std::any_of(in_use.begin(), in_use.end(),
                                                  [&](const auto& one) {
                                                    return Overlap(range, one);
                                                  });
    if (is_in_use || range.bytes < kLeastOffloadedBytes) continue;
    MICA_ASSIGN_OR_RETURN(
        const int64_t bytes,
        OffloadMemory(states[i], range, frozen_states_[i].Pieces(),
                      options_.offload_folder));
    weights_.offloaded_bytes += bytes;
    if (bytes == 0) weights_.foreign_bytes += range.bytes;
  }
  return absl::OkStatus();
}

}  // namespace mica
