// Elementwise regions: machine code where there is some, else loops over
// tiles.

#include "kernels/cpu/region.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/inlined_vector.h"
#include "framework/op/region_code.h"
#include "kernels/cpu/axes.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/ready_region.h"
#include "kernels/cpu/streamed.h"
#include "kernels/cpu/strided_copy.h"

namespace mica::cpu {
namespace {

constexpr int kMostArrays = 64;
// Operands that lie the other way round are turned over by tiles of so many
// rows, which stay in the first-level cache; the rest of them are read as they
// lie.
constexpr int kMostTurned = 4;
constexpr int64_t kTurnedRows = 32;
constexpr int64_t kTurnedBytes = 8192;
constexpr int64_t kShortestTurned = 8;  // Rows, and elements of one.

struct RegionState {
  ReadyRegion region;
  // By array, operands before results as in a launch's arguments: steps in
  // bytes, of the innermost axis, of the one around it, and of the others.
  std::vector<int64_t> steps, row_steps;
  AxisList outer;
  int64_t rows = 1, n = 1;  // Of each.
  // Operands whose elements lie dense from row to row, and how many elements
  // of a row are done at once because of them.
  absl::InlinedVector<int, kMostTurned> turned;
  int64_t columns = 0;
  // Results to be streamed: all of them, or none.
  absl::InlinedVector<StreamedResult, kMostStreamed> streamed;
  size_t num_operands = 0;
  int num_threads = 1;
};

// Whether a result has an operand's bytes.
bool IsInplace(const RegionState& state, void* const* args) {
  for (size_t i = 0; i < state.num_operands; ++i) {
    for (const StreamedResult& result : state.streamed) {
      if (args[i] == args[result.array]) return true;
    }
  }
  return false;
}

class Launch {
 public:
  Launch(const RegionState& state, void* const* args)
      : s_(state),
        args_(args),
        is_streamed_(!state.streamed.empty() && !IsInplace(state, args)) {}

  // Elements begin..end of the only row.
  void RunElements(int64_t begin, int64_t end) const {
    char* at[kMostArrays];
    for (size_t i = 0; i < s_.steps.size(); ++i) {
      char* const start = static_cast<char*>(args_[i]);
      at[i] = start == nullptr ? nullptr : start + begin * s_.steps[i];
    }
    Call(at, 1, end - begin);
  }

  // Tiles of rows begin..end of all, if operands are turned.
  void RunTiles(int64_t begin, int64_t end) const {
    const int64_t tiles = NumTiles(s_);
    for (int64_t tile = begin; tile < end; ++tile) {
      const int64_t outer = tile / tiles, row = tile % tiles * kTurnedRows;
      const int64_t count = std::min(kTurnedRows, s_.rows - row);
      for (int64_t column = 0; column < s_.n; column += s_.columns) {
        RunTile(outer, row, count, column, std::min(s_.columns, s_.n - column));
      }
    }
  }
  // Around each place of the outer axes.
  static int64_t NumTiles(const RegionState& state) {
    return (state.rows + kTurnedRows - 1) / kTurnedRows;
  }

  // Rows begin..end of all, the outer axes' included.
  void RunRows(int64_t begin, int64_t end) const {
    while (begin < end) {
      const int64_t outer = begin / s_.rows, row = begin % s_.rows;
      const int64_t count = std::min(end - begin, s_.rows - row);
      char* at[kMostArrays];
      for (size_t i = 0; i < s_.steps.size(); ++i) {
        at[i] = static_cast<char*>(args_[i]);
        if (at[i] != nullptr) {
          at[i] += row * s_.row_steps[i] + s_.outer.Offset(i, outer);
        }
      }
      Call(at, count, s_.n);
      begin += count;
    }
  }

 private:
  void RunTile(int64_t outer, int64_t row, int64_t rows, int64_t column,
               int64_t n) const {
    alignas(64) char buffers[kMostTurned][kTurnedBytes];
    char* at[kMostArrays];
    int64_t steps[kMostArrays], row_steps[kMostArrays];
    for (size_t i = 0; i < s_.steps.size(); ++i) {
      steps[i] = s_.steps[i];
      row_steps[i] = s_.row_steps[i];
      at[i] = static_cast<char*>(args_[i]);
      if (at[i] == nullptr) continue;
      at[i] +=
          row * row_steps[i] + column * steps[i] + s_.outer.Offset(i, outer);
    }
    for (size_t t = 0; t < s_.turned.size(); ++t) {
      const int i = s_.turned[t];
      const int64_t bytes = row_steps[i];
      if (at[i] != nullptr) {
        TransposeOf(bytes)(at[i], steps[i] / bytes, buffers[t], n, n, rows);
        at[i] = buffers[t];
      }
      steps[i] = bytes;
      row_steps[i] = n * bytes;
    }
    s_.region.Run({.at = at,
                   .row_steps = row_steps,
                   .steps = steps,
                   .rows = rows,
                   .n = n});
  }

  void Call(char* const* at, int64_t rows, int64_t n) const {
    const region::RegionRows all = {.at = at,
                                    .row_steps = s_.row_steps.data(),
                                    .steps = s_.steps.data(),
                                    .rows = rows,
                                    .n = n};
    if (!is_streamed_) return s_.region.Run(all);
    RunStreamed(s_.region, all, static_cast<int>(s_.steps.size()), s_.streamed);
    EndStream();
  }

  const RegionState& s_;
  void* const* args_;
  const bool is_streamed_;
};

bool LaunchRegion(const void* state, void* const* args, LaunchContext&) {
  const auto& s = *static_cast<const RegionState*>(state);
  const Launch launch(s, args);
  const int64_t all_rows = s.outer.count() * s.rows;
  if (!s.turned.empty()) {
    Parallel(s.num_threads, s.outer.count() * Launch::NumTiles(s),
             [&](int64_t begin, int64_t end) { launch.RunTiles(begin, end); });
    return true;
  }
  if (all_rows == 1) {
    Parallel(s.num_threads, s.n, [&](int64_t begin, int64_t end) {
      launch.RunElements(begin, end);
    });
    return true;
  }
  Parallel(s.num_threads, all_rows,
           [&](int64_t begin, int64_t end) { launch.RunRows(begin, end); });
  return true;
}

// For each result the operands whose bytes it may take: those that lie like it
// and that no instruction behind the result's own reads.
class Inplace {
 public:
  Inplace(const KernelRequest& request, const RegionCode& code)
      : request_(request), code_(code) {
    last_reads_.assign(request.operands.size(), -1);
    for (size_t i = 0; i < code.instructions.size(); ++i) {
      for (const RegionCode::Ref& ref : code.instructions[i].operands) {
        if (ref.kind == RegionCode::Ref::Kind::kOperand) {
          last_reads_[ref.index] = static_cast<int>(i);
        }
      }
    }
  }

  uint32_t Of(int result) const {
    uint32_t bits = 0;
    const TensorType& self = request_.results[result].type;
    for (size_t i = 0; i < request_.operands.size() && i < 32; ++i) {
      const TensorType& type = request_.operands[i].type;
      if (LiesAlike(type, self) && last_reads_[i] <= code_.results[result]) {
        bits |= 1u << i;
      }
    }
    return bits;
  }

 private:
  const KernelRequest& request_;
  const RegionCode& code_;
  std::vector<int> last_reads_;  // By operand.
};

// Divides the axes among rows, their elements and what is around them.
// `axes` has the results' strides first.
void LayOut(const Axes& axes, const KernelRequest& request,
            RegionState& state) {
  const int rank = static_cast<int>(axes.sizes.size());
  state.n = rank > 0 ? axes.sizes[rank - 1] : 1;
  state.rows = rank > 1 ? axes.sizes[rank - 2] : 1;
  for (int d = 0; d + 2 < rank; ++d) {
    state.outer.sizes.push_back(axes.sizes[d]);
  }
  const size_t num_operands = request.operands.size();
  const size_t num_results = request.results.size();
  for (size_t i = 0; i < num_operands + num_results; ++i) {
    const bool is_operand = i < num_operands;
    const Operand& operand =
        is_operand ? request.operands[i] : request.results[i - num_operands];
    const auto& strides =
        axes.strides[is_operand ? num_results + i : i - num_operands];
    const int64_t bytes = ElementBytes(operand.type.dtype);
    state.steps.push_back(rank > 0 ? strides[rank - 1] * bytes : 0);
    state.row_steps.push_back(rank > 1 ? strides[rank - 2] * bytes : 0);
    absl::InlinedVector<int64_t, 4> outer_steps;
    for (int d = 0; d + 2 < rank; ++d) {
      outer_steps.push_back(strides[d] * bytes);
    }
    state.outer.steps.push_back(std::move(outer_steps));
  }
}

void FindTurned(const KernelRequest& request, RegionState& state) {
  if (state.rows < kShortestTurned || state.n < kShortestTurned) return;
  state.columns = state.n;
  for (size_t i = 0; i < request.operands.size(); ++i) {
    const int64_t bytes = ElementBytes(request.operands[i].type.dtype);
    const int64_t step = state.steps[i];
    if (state.row_steps[i] != bytes || step <= bytes || step % bytes != 0 ||
        bytes > 8 || static_cast<int>(state.turned.size()) == kMostTurned) {
      continue;
    }
    state.turned.push_back(static_cast<int>(i));
    state.columns = std::min(state.columns, kTurnedBytes / kTurnedRows / bytes);
  }
}

// Whether the results' rows follow each other.
bool HasJoinedRows(const KernelRequest& request, const RegionState& state) {
  if (!state.turned.empty() || state.rows == 1) return false;
  for (size_t r = 0; r < request.results.size(); ++r) {
    const size_t array = request.operands.size() + r;
    if (!request.results[r].is_used) continue;
    if (state.row_steps[array] != state.n * state.steps[array]) return false;
  }
  return true;
}

void FindStreamed(const KernelRequest& request, RegionState& state) {
  constexpr int64_t kShortest = 16;  // Elements of a row.
  state.num_operands = request.operands.size();
  int64_t bytes = 0;
  const auto add = [&](const Operand& operand) {
    if (operand.is_used) bytes += operand.type.num_bytes();
  };
  absl::c_for_each(request.operands, add);
  absl::c_for_each(request.results, add);
  if (!state.turned.empty() || state.n < kShortest ||
      !IsWorthStreaming(bytes)) {
    return;
  }
  for (size_t r = 0; r < request.results.size(); ++r) {
    if (!request.results[r].is_used) continue;
    const size_t array = state.num_operands + r;
    const int64_t size = ElementBytes(request.results[r].type.dtype);
    if (state.steps[array] != size || state.streamed.size() == kMostStreamed) {
      state.streamed.clear();
      return;
    }
    state.streamed.push_back({static_cast<int>(array), size});
  }
}

region::Array ArrayOf(const Operand& operand, int64_t step, int64_t n) {
  return {.dtype = operand.type.dtype,
          .access = AccessOf(step, ElementBytes(operand.type.dtype), n),
          .is_used = operand.is_used};
}

}  // namespace

Verdict PrepareRegionCode(const KernelRequest& request,
                          const RegionCode& code) {
  const size_t num_operands = request.operands.size();
  if (num_operands + request.results.size() > kMostArrays) {
    return No{"too many operands"};
  }
  // Results first: their memory's order is that of the axes.
  std::vector<const TensorType*> types;
  for (const Operand& result : request.results) types.push_back(&result.type);
  for (const Operand& operand : request.operands) {
    types.push_back(&operand.type);
  }
  auto state = std::make_shared<RegionState>();
  LayOut(JoinedAxes(request.results[0].type.dims, types), request, *state);
  FindTurned(request, *state);
  FindStreamed(request, *state);
  region::Signature signature{.code = code, .operands = {}, .results = {}};
  for (size_t i = 0; i < num_operands; ++i) {
    const bool is_turned =
        absl::c_linear_search(state->turned, static_cast<int>(i));
    signature.operands.push_back(
        ArrayOf(request.operands[i],
                is_turned ? state->row_steps[i] : state->steps[i], state->n));
  }
  for (size_t r = 0; r < request.results.size(); ++r) {
    signature.results.push_back(
        ArrayOf(request.results[r], state->steps[num_operands + r], state->n));
  }
  const int64_t n = state->turned.empty() ? state->n : state->columns;
  if (auto no =
          ReadyRegion::Make(signature, n, /*wants_code=*/true,
                            HasJoinedRows(request, *state), state->region)) {
    return No{*no};
  }
  state->num_threads = UsefulThreads(request.num_threads,
                                     request.results[0].type.num_elements());
  const Inplace inplace(request, code);
  Prepared prepared;
  prepared.launch = LaunchRegion;
  prepared.never_fails = true;
  prepared.inplace_operands = inplace.Of(0);
  for (size_t r = 1; r < code.results.size(); ++r) {
    prepared.more_inplace.push_back(inplace.Of(static_cast<int>(r)));
  }
  prepared.state = std::move(state);
  return prepared;
}

namespace {

Verdict PrepareRegion(const KernelRequest& request) {
  const auto code = RegionCode::Parse(request.String(1));
  if (!code.ok()) return No{"malformed code"};
  return PrepareRegionCode(request, *code);
}

}  // namespace

void RegisterRegions(KernelRegistry& registry) {
  registry.Add("mica.elementwise", kRealDTypes, KernelRank::kFast,
               {"cpu.elementwise", PrepareRegion});
}

}  // namespace mica::cpu
