// Reductions over axes that lie next to each other, of dense operands and of
// rows with gaps between them.

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "kernels/cpu/axes.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/pointwise.h"
#include "kernels/cpu/simd_table.h"

namespace mica::cpu {
namespace {

// An operand as [outer, reduced, inner], the two last without gaps.
struct Split {
  int64_t outer = 1, reduced = 1, inner = 1;
  int64_t step = 0;  // Along the outer axis.
};

// The axes longer than 1, outermost in memory first.
std::vector<int> MemoryOrder(const TensorType& x) {
  const Dims strides = x.EffectiveStrides();
  std::vector<int> order;
  for (int i = 0; i < x.rank(); ++i) {
    if (x.dims[i] != 1) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return strides[a] > strides[b]; });
  return order;
}

// Of rows with gaps between them; nothing if a call for each would take longer
// than what it does.
std::optional<Split> SplitRows(const TensorType& x,
                               const std::vector<bool>& marked) {
  constexpr int64_t kShortest = 512;  // In bytes.
  const Dims strides = x.EffectiveStrides();
  Split split;
  bool is_outer = false;
  for (int i = x.rank() - 1; i >= 0; --i) {
    if (x.dims[i] == 1) continue;
    is_outer = is_outer || !marked[i];
    if (is_outer == marked[i]) return std::nullopt;
    int64_t& size = is_outer ? split.outer : split.reduced;
    if (is_outer && split.step == 0) split.step = strides[i];
    if (strides[i] != size * (is_outer ? split.step : 1)) return std::nullopt;
    size *= x.dims[i];
  }
  const bool is_long = split.reduced * ElementBytes(x.dtype) >= kShortest;
  return is_long && split.step > 0 ? std::optional(split) : std::nullopt;
}

// Nothing if the marked axes don't lie next to each other, or the others don't
// lie in their order. Axes of size 1 count as either.
std::optional<Split> SplitAt(const TensorType& x,
                             const std::vector<bool>& marked) {
  if (!x.is_dense()) return SplitRows(x, marked);
  Split split;
  int phase = 0;  // Outer, reduced, inner.
  int last_kept = -1;
  for (int i : MemoryOrder(x)) {
    if (!marked[i]) {
      if (i < last_kept) return std::nullopt;
      last_kept = i;
    }
    if (marked[i]) {
      if (phase == 2) return std::nullopt;
      phase = 1;
      split.reduced *= x.dims[i];
    } else if (phase == 0) {
      split.outer *= x.dims[i];
    } else {
      phase = 2;
      split.inner *= x.dims[i];
    }
  }
  split.step = split.reduced * split.inner;
  return split;
}

struct ReduceState {
  Split split;
  ReduceRowsFn rows = nullptr;
  ReduceColumnsFn columns = nullptr;
  BinaryFn scale = nullptr;  // Of a mean.
  Constant factor;
  int64_t bytes = 0;  // Of an element.
  int num_threads = 1;
};

bool LaunchReduce(const void* state, void* const* args, LaunchContext&) {
  const auto& s = *static_cast<const ReduceState*>(state);
  const auto* x = static_cast<const char*>(args[0]);
  auto* out = static_cast<char*>(args[1]);
  const Split& split = s.split;
  Parallel(s.num_threads, split.outer, [&](int64_t begin, int64_t end) {
    const int64_t slab = split.step * s.bytes;
    if (split.inner == 1 && split.step != split.reduced) {
      for (int64_t i = begin; i < end; ++i) {
        s.rows(x + i * slab, out + i * s.bytes, 1, split.reduced);
      }
    } else if (split.inner == 1) {
      s.rows(x + begin * slab, out + begin * s.bytes, end - begin,
             split.reduced);
    } else {
      for (int64_t i = begin; i < end; ++i) {
        s.columns(x + i * slab, out + i * split.inner * s.bytes, split.reduced,
                  split.inner);
      }
    }
    if (s.scale == nullptr) return;
    char* done = out + begin * split.inner * s.bytes;
    s.scale(done, s.factor.bytes, done, (end - begin) * split.inner, nullptr);
  });
  return true;
}

enum class Kind { kSum, kMean, kMax, kMin };

Verdict PrepareReduce(const KernelRequest& request, Kind kind, int dim_param) {
  const TensorType& x = request.operands[0].type;
  const TensorType& out = request.results[0].type;
  const auto elem = ElemOf(x.dtype);
  if (!elem.has_value() || out.dtype != x.dtype) return No{"converts"};
  const auto split = SplitAt(x, MarkedAxes(request, dim_param, x.rank()));
  if (!split.has_value() || !out.is_row_major()) {
    return No{"the reduced axes aren't next to each other"};
  }
  const bool is_sum = kind == Kind::kSum || kind == Kind::kMean;
  if (split->reduced == 0 && (!is_sum || kind == Kind::kMean)) {
    return No{"nothing to reduce"};
  }
  const int op = is_sum               ? static_cast<int>(Reduction::kSum)
                 : kind == Kind::kMax ? static_cast<int>(Reduction::kMax)
                                      : static_cast<int>(Reduction::kMin);
  const int e = static_cast<int>(*elem);
  ReduceState state{
      .split = *split,
      .rows = Simd().reduce_rows[op][e],
      .columns = Simd().reduce_columns[op][e],
      .bytes = kElemBytes[e],
      .num_threads = UsefulThreads(request.num_threads, x.num_elements())};
  if (state.rows == nullptr) return No{"no vector loop for this dtype"};
  if (kind == Kind::kMean) {
    state.factor =
        MakeConstant(*elem, 1.0 / static_cast<double>(split->reduced));
    state.scale = Simd().binary[static_cast<int>(Binary::kMul)][e]
                               [static_cast<int>(Form::kVS)];
  }
  Prepared prepared;
  prepared.launch = LaunchReduce;
  prepared.state = std::make_shared<const ReduceState>(state);
  return prepared;
}

Verdict PrepareLogSumExp(const KernelRequest& request) {
  const TensorType& x = request.operands[0].type;
  const auto split = SplitAt(x, MarkedAxes(request, 1, x.rank()));
  if (!split.has_value() || !request.results[0].type.is_row_major()) {
    return No{"the reduced axes aren't next to each other"};
  }
  if (split->inner != 1) return No{"not along the last axes in memory"};
  if (split->reduced == 0) return No{"nothing to reduce"};
  Prepared prepared;
  prepared.launch = LaunchReduce;
  prepared.state = std::make_shared<const ReduceState>(ReduceState{
      .split = *split,
      .rows = Simd().log_sum_exp,
      .bytes = sizeof(float),
      .num_threads = UsefulThreads(request.num_threads, x.num_elements())});
  return prepared;
}

struct IndexState {
  int64_t rows = 0, n = 0, bytes = 0;  // bytes: of an element.
  int value_arg = -1, index_arg = -1;
  ArgExtremeFn extremes = nullptr;
  int num_threads = 1;
};

bool LaunchArgExtreme(const void* state, void* const* args, LaunchContext&) {
  const auto& s = *static_cast<const IndexState*>(state);
  const auto* x = static_cast<const char*>(args[0]);
  auto* values =
      s.value_arg < 0 ? nullptr : static_cast<char*>(args[s.value_arg]);
  auto* indices = static_cast<int64_t*>(args[s.index_arg]);
  Parallel(s.num_threads, s.rows, [&](int64_t begin, int64_t end) {
    s.extremes(x + begin * s.n * s.bytes, end - begin, s.n,
               values == nullptr ? nullptr : values + begin * s.bytes,
               indices == nullptr ? nullptr : indices + begin);
  });
  return true;
}

Verdict PrepareArgExtreme(const KernelRequest& request, Kind kind,
                          bool gives_values) {
  const TensorType& x = request.operands[0].type;
  const auto elem = ElemOf(x.dtype);
  if (!x.is_row_major() || !elem.has_value()) return No{"isn't row-major"};
  const auto split = SplitAt(x, MarkedAxes(request, 1, x.rank()));
  if (!split.has_value() || split->inner != 1 || split->reduced == 0) {
    return No{"not along the last axis of a row-major operand"};
  }
  for (const Operand& result : request.results) {
    if (!result.type.is_row_major()) return No{"a result isn't row-major"};
  }
  const Reduction op = kind == Kind::kMax ? Reduction::kMax : Reduction::kMin;
  const int e = static_cast<int>(*elem);
  const IndexState state{
      .rows = split->outer,
      .n = split->reduced,
      .bytes = kElemBytes[e],
      .value_arg = gives_values ? 1 : -1,
      .index_arg = gives_values ? 2 : 1,
      .extremes = Simd().arg_extreme[static_cast<int>(op)][e],
      .num_threads = UsefulThreads(request.num_threads, x.num_elements())};
  Prepared prepared;
  prepared.launch = LaunchArgExtreme;
  prepared.never_fails = true;
  prepared.state = std::make_shared<const IndexState>(state);
  return prepared;
}

PrepareFn ReduceOf(Kind kind, int dim_param) {
  return [=](const KernelRequest& request) {
    return PrepareReduce(request, kind, dim_param);
  };
}

}  // namespace

void RegisterReduction(KernelRegistry& registry) {
  constexpr DType kNumbers[] = {DType::kF32, DType::kF64, DType::kI64,
                                DType::kI32};
  const struct {
    absl::string_view op;
    Kind kind;
    int dim_param;
  } ops[] = {
      {"aten.sum", Kind::kSum, -1},   {"aten.sum.dim_IntList", Kind::kSum, 1},
      {"aten.mean", Kind::kMean, -1}, {"aten.mean.dim", Kind::kMean, 1},
      {"aten.max", Kind::kMax, -1},   {"aten.min", Kind::kMin, -1},
      {"aten.amax", Kind::kMax, 1},   {"aten.amin", Kind::kMin, 1}};
  for (const auto& op : ops) {
    registry.Add(op.op, kNumbers, KernelRank::kFast,
                 {"cpu.reduce", ReduceOf(op.kind, op.dim_param)});
  }
  registry.Add("aten.logsumexp", {DType::kF32}, KernelRank::kFast,
               {"cpu.logsumexp", PrepareLogSumExp});
  const struct {
    absl::string_view op, name;
    Kind kind;
    bool gives_values;
  } indexed[] = {{"aten.max.dim", "cpu.max", Kind::kMax, true},
                 {"aten.min.dim", "cpu.min", Kind::kMin, true},
                 {"aten.argmax", "cpu.argmax", Kind::kMax, false},
                 {"aten.argmin", "cpu.argmin", Kind::kMin, false}};
  for (const auto& op : indexed) {
    registry.Add(op.op, kNumbers, KernelRank::kFast,
                 {std::string(op.name), [op](const KernelRequest& request) {
                    return PrepareArgExtreme(request, op.kind, op.gives_values);
                  }});
  }
}

}  // namespace mica::cpu
