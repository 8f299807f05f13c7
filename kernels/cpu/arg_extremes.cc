// Where the extreme elements stand along any axis whose elements, or whose
// results, are neighbours in memory; and both extremes of rows.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>

#include "kernels/cpu/axes.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/fold_plan.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/pointwise.h"
#include "kernels/cpu/simd_table.h"
#include "kernels/cpu/widened.h"

namespace mica::cpu {
namespace {

constexpr int64_t kResults = 256;  // Made together.
constexpr int64_t kWide = 8192;    // Widened elements of a tile.

struct ArgState {
  FoldPlan plan;
  ArgExtremeFn rows = nullptr;
  ArgColumnsFn columns = nullptr;
  ConvertFn widen = nullptr, narrow = nullptr;
  int64_t bytes = 0;
  int value_arg = -1, index_arg = -1;
  int num_threads = 1;
};

// Of `count` results: values, which are float32 if they are widened, and
// indices.
void RunArgColumns(const ArgState& s, const char* x, int64_t count,
                   void* values, int64_t* indices) {
  const auto& reduced = s.plan.reduced;
  if (s.widen == nullptr) {
    return s.columns(x, reduced.stride, reduced.size, count, 0, values,
                     indices);
  }
  alignas(64) float wide[kWide];
  const int64_t most = kWide / count;
  for (int64_t r = 0; r < reduced.size; r += most) {
    const int64_t rows = std::min(most, reduced.size - r);
    for (int64_t i = 0; i < rows; ++i) {
      s.widen(x + (r + i) * reduced.stride * s.bytes, wide + i * count, count);
    }
    s.columns(wide, count, rows, count, r, values, indices);
  }
}

// Results begin..begin + count of a group.
void RunArgTile(const ArgState& s, void* const* args, int64_t group,
                int64_t begin, int64_t count) {
  const FoldPlan& plan = s.plan;
  const int64_t first =
      FoldPlan::OffsetOf(plan.outer_kept, group) + begin * plan.kept.stride;
  const char* x = static_cast<const char*>(args[0]) + first * s.bytes;
  alignas(64) char values[kResults * 8];
  int64_t indices[kResults];
  if (plan.by_columns) {
    RunArgColumns(s, x, count, values, indices);
  } else {
    for (int64_t i = 0; i < count; ++i) {
      s.rows(x + i * plan.kept.stride * s.bytes, 1, plan.reduced.size,
             values + i * s.bytes, indices + i);
    }
  }
  const int64_t at = group * plan.kept.size + begin;
  if (s.value_arg >= 0 && args[s.value_arg] != nullptr) {
    char* const out = static_cast<char*>(args[s.value_arg]) + at * s.bytes;
    if (s.narrow != nullptr) {
      s.narrow(values, out, count);
    } else {
      std::copy_n(values, count * s.bytes, out);
    }
  }
  if (args[s.index_arg] != nullptr) {
    std::copy_n(indices, count, static_cast<int64_t*>(args[s.index_arg]) + at);
  }
}

bool LaunchArgExtremes(const void* state, void* const* args, LaunchContext&) {
  const auto& s = *static_cast<const ArgState*>(state);
  const int64_t size = s.plan.kept.size;
  const int64_t parts = (size + kResults - 1) / kResults;
  Parallel(s.num_threads, s.plan.groups * parts,
           [&](int64_t begin, int64_t end) {
             for (int64_t i = begin; i < end; ++i) {
               const int64_t first = i % parts * kResults;
               RunArgTile(s, args, i / parts, first,
                          std::min(kResults, size - first));
             }
           });
  return true;
}

Verdict PrepareArgExtremes(const KernelRequest& request, Reduction reduction,
                           bool gives_values) {
  const TensorType& x = request.operands[0].type;
  for (const Operand& result : request.results) {
    if (!result.type.is_row_major()) return No{"a result isn't row-major"};
  }
  const auto plan = FoldPlan::Of(x, MarkedAxes(request, 1, x.rank()));
  // Indices count the elements in the order of their axis.
  if (!plan.has_value() || plan->tiles != 1 || !request.Has(1)) {
    return No{"neither elements nor results lie together"};
  }
  ArgState s{
      .plan = *plan,
      .bytes = ElementBytes(x.dtype),
      .value_arg = gives_values ? 1 : -1,
      .index_arg = gives_values ? 2 : 1,
      .num_threads = UsefulThreads(request.num_threads, x.num_elements())};
  auto elem = ElemOf(x.dtype);
  if (const auto half = HalfOf(x.dtype)) {
    if (!plan->by_columns) return No{"rows of 16 bits"};
    s.widen = Simd().widen[static_cast<int>(*half)];
    s.narrow = Simd().narrow[static_cast<int>(*half)];
    elem = Elem::kF32;
  }
  if (!elem.has_value()) return No{"no vector loop for this dtype"};
  const int r = static_cast<int>(reduction), e = static_cast<int>(*elem);
  s.rows = Simd().arg_extreme[r][e];
  s.columns = Simd().arg_columns[r][e];
  if (s.rows == nullptr || s.columns == nullptr) {
    return No{"no vector loop for this dtype"};
  }
  Prepared prepared;
  prepared.launch = LaunchArgExtremes;
  prepared.never_fails = true;
  prepared.state = std::make_shared<const ArgState>(s);
  return prepared;
}

// The smallest and the largest element.

struct BothState {
  FoldPlan plan;
  ReduceRowsFn smallest = nullptr, largest = nullptr;
  int64_t bytes = 0;  // Of an element.
};

// Of a row, by blocks that the second reduction finds in the first-level cache.
void BothOfRow(const BothState& s, const char* row, char* low, char* high) {
  constexpr int64_t kBlockBytes = 16384;
  const int64_t n = s.plan.reduced.size, block = kBlockBytes / s.bytes;
  const auto add = [&](ReduceRowsFn reduce, const char* from, int64_t count,
                       bool is_first, char* to) {
    if (to == nullptr) return;
    if (is_first) return reduce(from, to, 1, count);
    alignas(8) char pair[2 * sizeof(int64_t)];
    std::memcpy(pair, to, static_cast<size_t>(s.bytes));
    reduce(from, pair + s.bytes, 1, count);
    reduce(pair, to, 1, 2);
  };
  for (int64_t i = 0; i < n; i += block) {
    const int64_t count = std::min(block, n - i);
    add(s.smallest, row + i * s.bytes, count, i == 0, low);
    add(s.largest, row + i * s.bytes, count, i == 0, high);
  }
}

bool LaunchBothExtremes(const void* state, void* const* args, LaunchContext&) {
  constexpr int64_t kShort = 512;  // A row's elements.
  const auto& s = *static_cast<const BothState*>(state);
  const auto* x = static_cast<const char*>(args[0]);
  auto* low = static_cast<char*>(args[1]);
  auto* high = static_cast<char*>(args[2]);
  const int64_t rows = s.plan.kept.size, n = s.plan.reduced.size;
  if (n <= kShort) {
    if (low != nullptr) s.smallest(x, low, rows, n);
    if (high != nullptr) s.largest(x, high, rows, n);
    return true;
  }
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t at = r * s.bytes;
    BothOfRow(s, x + at * n, low == nullptr ? nullptr : low + at,
              high == nullptr ? nullptr : high + at);
  }
  return true;
}

Verdict PrepareBothExtremes(const KernelRequest& request) {
  const TensorType& x = request.operands[0].type;
  const auto elem = ElemOf(x.dtype);
  const auto plan = FoldPlan::Of(x, MarkedAxes(request, 1, x.rank()));
  if (!elem.has_value() || !plan.has_value() || plan->by_columns ||
      plan->tiles * plan->groups != 1 || !x.is_dense() ||
      (plan->kept.size > 1 && plan->kept.stride != plan->reduced.size)) {
    return No{"not of whole rows"};
  }
  if (*elem == Elem::kI32 && plan->kept.size == 1) {
    return No{"ATen looks for both at once"};
  }
  for (const Operand& result : request.results) {
    if (!result.type.is_row_major()) return No{"a result isn't row-major"};
  }
  const auto& rows = Simd().reduce_rows;
  const int e = static_cast<int>(*elem);
  BothState s{.plan = *plan,
              .smallest = rows[static_cast<int>(Reduction::kMin)][e],
              .largest = rows[static_cast<int>(Reduction::kMax)][e],
              .bytes = kElemBytes[e]};
  if (s.smallest == nullptr) return No{"no vector loop for this dtype"};
  Prepared prepared;
  prepared.launch = LaunchBothExtremes;
  prepared.never_fails = true;
  prepared.state = std::make_shared<const BothState>(std::move(s));
  return prepared;
}

}  // namespace

void RegisterArgExtremes(KernelRegistry& registry) {
  constexpr DType kNumbers[] = {DType::kF32, DType::kF64,  DType::kI64,
                                DType::kI32, DType::kBF16, DType::kF16};
  const struct {
    absl::string_view op;
    Reduction reduction;
    bool gives_values;
  } ops[] = {{"aten.max.dim", Reduction::kMax, true},
             {"aten.min.dim", Reduction::kMin, true},
             {"aten.argmax", Reduction::kMax, false},
             {"aten.argmin", Reduction::kMin, false}};
  // Of floats the sign of a zero is eager's.
  registry.Add("aten.aminmax", {DType::kI64, DType::kI32}, KernelRank::kFast,
               {"cpu.aminmax", PrepareBothExtremes});
  for (const auto& op : ops) {
    registry.Add(op.op, kNumbers, KernelRank::kFast,
                 {"cpu.arg_extremes", [op](const KernelRequest& request) {
                    return PrepareArgExtremes(request, op.reduction,
                                              op.gives_values);
                  }});
  }
}

}  // namespace mica::cpu
