#include "kernels/cpu/fold_run.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/parallel.h"

namespace mica::cpu {
namespace {

// Results that are made together.
constexpr int64_t kResults = 256;
// Widened elements of a tile.
constexpr int64_t kWide = 8192;

struct Totals {
  alignas(64) double values[kResults];
  alignas(64) double means[kResults];
};

// The totals of `count` results, `done` elements of which are in them.
FoldArgs ArgsOf(const FoldState& s, Totals& totals, int64_t first,
                int64_t done) {
  return {.totals = totals.values + first,
          .means = totals.means + first,
          .done = done,
          .mask = s.mask};
}

// A tile as it lies: `count` results.
void FoldPlain(const FoldState& s, const char* x, int64_t count, int64_t done,
               Totals& totals) {
  FoldArgs args = ArgsOf(s, totals, 0, done);
  args.x = x;
  if (s.plan.by_columns) {
    args.step = s.plan.reduced.stride;
    args.rows = s.plan.reduced.size;
    args.n = count;
  } else {
    args.step = s.plan.kept.stride;
    args.rows = count;
    args.n = s.plan.reduced.size;
  }
  s.fold(args);
}

// `rows` rows of n elements, `step` apart, one behind the other.
void WidenRows(const FoldState& s, const char* x, int64_t step, int64_t rows,
               int64_t n, float* wide) {
  if (step == n) return s.widen(x, wide, rows * n);
  for (int64_t r = 0; r < rows; ++r) {
    s.widen(x + r * step * s.bytes, wide + r * n, n);
  }
}

// The same of 16 bits, by parts that fit the buffer.
void FoldWidened(const FoldState& s, const char* x, int64_t count, int64_t done,
                 Totals& totals) {
  alignas(64) float wide[kWide];
  const auto& reduced = s.plan.reduced;
  if (s.plan.by_columns) {
    const int64_t most = kWide / count;
    for (int64_t r = 0; r < reduced.size; r += most) {
      const int64_t rows = std::min(most, reduced.size - r);
      WidenRows(s, x + r * reduced.stride * s.bytes, reduced.stride, rows,
                count, wide);
      FoldArgs args = ArgsOf(s, totals, 0, done + r);
      args.x = wide;
      args.step = args.n = count;
      args.rows = rows;
      s.fold(args);
    }
    return;
  }
  const int64_t length = std::min(reduced.size, kWide);
  const int64_t most = kWide / length;
  for (int64_t r = 0; r < count; r += most) {
    const int64_t rows = std::min(most, count - r);
    for (int64_t i = 0; i < reduced.size; i += length) {
      const int64_t n = std::min(length, reduced.size - i);
      WidenRows(s, x + (r * s.plan.kept.stride + i) * s.bytes,
                s.plan.kept.stride, rows, n, wide);
      FoldArgs args = ArgsOf(s, totals, r, done + i);
      args.x = wide;
      args.step = args.n = n;
      args.rows = rows;
      s.fold(args);
    }
  }
}

void Turn(const void* from, int64_t from_step, void* to, int64_t to_step,
          int64_t rows, int64_t columns, int64_t bytes) {
  const TransposeFn turn = bytes == 1   ? Simd().transpose8
                           : bytes == 2 ? Simd().transpose16
                           : bytes == 4 ? Simd().transpose32
                                        : Simd().transpose64;
  turn(from, from_step, to, to_step, rows, columns);
}

// Of short rows, whose ends would take longer than their elements.
void FoldTurned(const FoldState& s, const char* x, int64_t count, int64_t done,
                Totals& totals) {
  alignas(64) char turned[kShortFold * kResults * 8];
  alignas(64) float wide[kShortFold * kResults];
  const int64_t n = s.plan.reduced.size;
  Turn(x, s.plan.kept.stride, turned, count, count, n, s.bytes);
  FoldArgs args = ArgsOf(s, totals, 0, done);
  args.x = turned;
  if (s.widen != nullptr) {
    s.widen(turned, wide, n * count);
    args.x = wide;
  }
  args.step = args.n = count;
  args.rows = n;
  s.fold_turned(args);
}

template <typename To, typename Value>
void Store(Value (*value_of)(const FoldState&, const Totals&, int64_t),
           const FoldState& s, const Totals& totals, int64_t count, void* out) {
  for (int64_t i = 0; i < count; ++i) {
    static_cast<To*>(out)[i] = static_cast<To>(value_of(s, totals, i));
  }
}

double RealOf(const FoldState& s, const Totals& totals, int64_t i) {
  const double total = totals.values[i];
  switch (s.ending) {
    case FoldEnding::kMean:
    case FoldEnding::kVariance:
      return total / s.divisor;
    case FoldEnding::kDeviation:
      return std::sqrt(total / s.divisor);
    case FoldEnding::kRoot:
      return std::sqrt(total);
    case FoldEnding::kLogarithm:
      return totals.means[i] + std::log(total);
    default:
      return total;
  }
}

double MeanOf(const FoldState&, const Totals& totals, int64_t i) {
  return totals.means[i];
}

uint64_t WholeOf(const FoldState& s, const Totals& totals, int64_t i) {
  uint64_t total = 0;
  std::memcpy(&total, totals.values + i, sizeof(total));
  switch (s.ending) {
    case FoldEnding::kAny:
      return total > 0;
    case FoldEnding::kAll:
      return total == static_cast<uint64_t>(s.plan.elements);
    default:
      return total;
  }
}

void StoreReal(double (*value_of)(const FoldState&, const Totals&, int64_t),
               const FoldState& s, const Totals& totals, int64_t count,
               void* out) {
  if (s.out == DType::kF64) {
    return Store<double>(value_of, s, totals, count, out);
  }
  if (s.narrow == nullptr) {
    return Store<float>(value_of, s, totals, count, out);
  }
  alignas(64) float wide[kResults];
  Store<float>(value_of, s, totals, count, wide);
  s.narrow(wide, out, count);
}

void StoreWhole(const FoldState& s, const Totals& totals, int64_t count,
                void* out) {
  switch (s.out_bytes) {
    case 1:
      return Store<uint8_t>(WholeOf, s, totals, count, out);
    case 4:
      return Store<uint32_t>(WholeOf, s, totals, count, out);
    default:
      return Store<uint64_t>(WholeOf, s, totals, count, out);
  }
}

// Results begin..begin + count of a group.
void RunTile(const FoldState& s, void* const* args, int64_t group,
             int64_t begin, int64_t count) {
  const FoldPlan& plan = s.plan;
  const auto* x = static_cast<const char*>(args[0]);
  const int64_t first =
      FoldPlan::OffsetOf(plan.outer_kept, group) + begin * plan.kept.stride;
  Totals totals;
  for (int64_t tile = 0; tile < plan.tiles; ++tile) {
    const int64_t at = first + FoldPlan::OffsetOf(plan.outer_reduced, tile);
    const int64_t done = tile * plan.reduced.size;
    if (s.fold_turned != nullptr) {
      FoldTurned(s, x + at * s.bytes, count, done, totals);
    } else if (s.widen != nullptr) {
      FoldWidened(s, x + at * s.bytes, count, done, totals);
    } else {
      FoldPlain(s, x + at * s.bytes, count, done, totals);
    }
  }
  const int64_t at = (group * plan.kept.size + begin) * s.out_bytes;
  if (args[1] != nullptr) {
    char* const out = static_cast<char*>(args[1]) + at;
    if (s.is_whole) {
      StoreWhole(s, totals, count, out);
    } else {
      StoreReal(RealOf, s, totals, count, out);
    }
  }
  if (s.gives_mean && args[2] != nullptr) {
    StoreReal(MeanOf, s, totals, count, static_cast<char*>(args[2]) + at);
  }
}

}  // namespace

bool LaunchFold(const void* state, void* const* args, LaunchContext&) {
  const auto& s = *static_cast<const FoldState*>(state);
  const int64_t size = s.plan.kept.size;
  const int64_t parts = (size + kResults - 1) / kResults;
  Parallel(
      s.num_threads, s.plan.groups * parts, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t first = i % parts * kResults;
          RunTile(s, args, i / parts, first, std::min(kResults, size - first));
        }
      });
  return true;
}

}  // namespace mica::cpu
