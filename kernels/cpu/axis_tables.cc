// Elements that are copied from places that a table for each axis gives:
// planes made larger by their nearest pixels, and padding that repeats or
// mirrors them.
//
// The axes are ordered as the result lies. A unit is what lies dense in both
// and moves as one: an element, or a pixel's channels. The innermost axis
// around it is a row, cut into runs of units that follow each other in the
// operand, too. A row of a line that comes from the same places as the one
// before it is a copy of that one, which is in the cache.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/movement.h"
#include "kernels/cpu/parallel.h"

namespace mica::cpu {
namespace {

// By axis of the result and place along it, the operand's place.
using Tables = std::vector<std::vector<int64_t>>;

struct TableAxis {
  std::vector<int64_t> offsets;  // In the operand, in bytes, by place.
  int64_t out_step = 0;          // In the result, in bytes.
};

struct Run {
  int64_t out = 0, in = 0, bytes = 0;  // From the row's start.
};

struct TableState {
  std::vector<TableAxis> outer;  // Around the lines, outermost first.
  TableAxis line, row;           // A line of rows, a row of units.
  std::vector<Run> runs;         // None if units are copied one by one.
  int64_t unit = 0;              // In bytes.
  bool doubles = false;          // Each unit of a row comes twice in turn.
  int64_t lines = 1, row_bytes = 0;
  int num_threads = 1;
};

template <typename T>
void CopyRow(const TableState& s, const char* in, char* out) {
  if (!s.runs.empty()) {
    for (const Run& run : s.runs) {
      if (run.bytes == sizeof(T)) {
        std::memcpy(out + run.out, in + run.in, sizeof(T));
      } else {
        std::memcpy(out + run.out, in + run.in, static_cast<size_t>(run.bytes));
      }
    }
    return;
  }
  const auto n = static_cast<int64_t>(s.row.offsets.size());
  T* const to = reinterpret_cast<T*>(out);
  if (s.doubles) {
    const T* const from = reinterpret_cast<const T*>(in + s.row.offsets[0]);
    for (int64_t i = 0; i < n / 2; ++i) {
      to[2 * i] = from[i];
      to[2 * i + 1] = from[i];
    }
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    to[i] = *reinterpret_cast<const T*>(in + s.row.offsets[i]);
  }
}

template <typename T>
void CopyLine(const TableState& s, const char* in, char* out) {
  const auto n = static_cast<int64_t>(s.line.offsets.size());
  for (int64_t i = 0; i < n; ++i, out += s.line.out_step) {
    if (i > 0 && s.line.offsets[i] == s.line.offsets[i - 1]) {
      std::memcpy(out, out - s.line.out_step, static_cast<size_t>(s.row_bytes));
    } else {
      CopyRow<T>(s, in + s.line.offsets[i], out);
    }
  }
}

template <typename T>
bool LaunchTables(const void* state, void* const* args, LaunchContext&) {
  const auto& s = *static_cast<const TableState*>(state);
  const auto* x = static_cast<const char*>(args[0]);
  auto* out = static_cast<char*>(args[1]);
  Parallel(s.num_threads, s.lines, [&](int64_t begin, int64_t end) {
    for (int64_t line = begin; line < end; ++line) {
      int64_t from = 0, to = 0, rest = line;
      for (size_t i = s.outer.size(); i-- > 0;) {
        const TableAxis& axis = s.outer[i];
        const auto size = static_cast<int64_t>(axis.offsets.size());
        from += axis.offsets[rest % size];
        to += rest % size * axis.out_step;
        rest /= size;
      }
      CopyLine<T>(s, x + from, out + to);
    }
  });
  return true;
}

LaunchFn LaunchOf(int64_t bytes) {
  switch (bytes) {
    case 1:
      return LaunchTables<uint8_t>;
    case 2:
      return LaunchTables<uint16_t>;
    case 4:
      return LaunchTables<uint32_t>;
    default:
      return LaunchTables<uint64_t>;
  }
}

// Takes the innermost axis; a single place if there is none.
TableAxis TakeLast(std::vector<TableAxis>& axes) {
  if (axes.empty()) return {.offsets = {0}, .out_step = 0};
  TableAxis last = std::move(axes.back());
  axes.pop_back();
  return last;
}

// Whether the axis goes through both as one run.
bool IsDense(const TableAxis& axis, int64_t unit) {
  if (axis.out_step != unit) return false;
  for (size_t i = 0; i < axis.offsets.size(); ++i) {
    if (axis.offsets[i] != static_cast<int64_t>(i) * unit) return false;
  }
  return true;
}

void CutIntoRuns(int64_t bytes, TableState& s) {
  const std::vector<int64_t>& offsets = s.row.offsets;
  std::vector<Run> runs;
  for (size_t i = 0; i < offsets.size(); ++i) {
    if (!runs.empty() && offsets[i] == runs.back().in + runs.back().bytes) {
      runs.back().bytes += s.unit;
    } else {
      runs.push_back({.out = static_cast<int64_t>(i) * s.unit,
                      .in = offsets[i],
                      .bytes = s.unit});
    }
  }
  constexpr size_t kShortest = 8;  // Units on average, for a call of memcpy.
  if (s.unit != bytes || offsets.size() >= kShortest * runs.size()) {
    s.runs = std::move(runs);
    return;
  }
  s.doubles = offsets.size() % 2 == 0;
  for (size_t i = 0; i < offsets.size() && s.doubles; ++i) {
    s.doubles = offsets[i] == offsets[0] + static_cast<int64_t>(i) / 2 * s.unit;
  }
}

Verdict PrepareTables(const KernelRequest& request, const Tables& tables) {
  const TensorType& x = request.operands[0].type;
  const TensorType& result = request.results[0].type;
  if (result.num_elements() == 0) return No{"no elements"};
  if (x.is_scalar || !result.is_dense()) return No{"the result has gaps"};
  const int64_t bytes = ElementBytes(x.dtype);
  const auto in_strides = x.EffectiveStrides();
  const auto out_strides = result.EffectiveStrides();
  std::vector<int> order(x.rank());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return out_strides[a] > out_strides[b];
  });
  std::vector<TableAxis> axes;
  for (int d : order) {
    if (result.dims[d] == 1 && tables[d][0] == 0) continue;
    TableAxis axis{.out_step = out_strides[d] * bytes};
    for (int64_t place : tables[d]) {
      axis.offsets.push_back(place * in_strides[d] * bytes);
    }
    axes.push_back(std::move(axis));
  }
  TableState s{.unit = bytes};
  while (!axes.empty() && IsDense(axes.back(), s.unit)) {
    s.unit *= static_cast<int64_t>(axes.back().offsets.size());
    axes.pop_back();
  }
  s.row = TakeLast(axes);
  s.row_bytes = s.unit * static_cast<int64_t>(s.row.offsets.size());
  s.line = TakeLast(axes);
  s.outer = std::move(axes);
  for (const TableAxis& axis : s.outer) {
    s.lines *= static_cast<int64_t>(axis.offsets.size());
  }
  CutIntoRuns(bytes, s);
  s.num_threads = UsefulThreads(request.num_threads, result.num_elements());
  Prepared prepared;
  prepared.launch = LaunchOf(bytes);
  prepared.never_fails = true;
  prepared.state = std::make_shared<const TableState>(std::move(s));
  return prepared;
}

// Each axis of the result as it is in the operand.
Tables SameTables(const KernelRequest& request) {
  Tables tables;
  for (int64_t size : request.results[0].type.dims) {
    tables.emplace_back(size);
    std::iota(tables.back().begin(), tables.back().end(), int64_t{0});
  }
  return tables;
}

// As ATen finds the nearest pixel: in single precision, whatever the dtype.
std::vector<int64_t> NearestTable(int64_t in, int64_t out, double scale,
                                  float shift) {
  const float ratio = scale > 0
                          ? static_cast<float>(1.0 / scale)
                          : static_cast<float>(in) / static_cast<float>(out);
  std::vector<int64_t> table(out);
  for (int64_t i = 0; i < out; ++i) {
    const float at = std::floor((static_cast<float>(i) + shift) * ratio);
    table[i] = std::min(static_cast<int64_t>(at), in - 1);
  }
  return table;
}

Verdict PrepareNearest(const KernelRequest& request, float shift) {
  const TensorType& x = request.operands[0].type;
  const TensorType& result = request.results[0].type;
  Tables tables = SameTables(request);
  for (int i = 0; i < 2; ++i) {
    if (request.OperandIndex(2 + i) >= 0) return No{"a scale varies"};
    const double scale = request.Has(2 + i) ? request.Number(2 + i) : 0;
    tables[2 + i] =
        NearestTable(x.dims[2 + i], result.dims[2 + i], scale, shift);
  }
  return PrepareTables(request, tables);
}

Verdict PrepareFrame(const KernelRequest& request, int num_axes, bool mirrors) {
  const TensorType& x = request.operands[0].type;
  const auto padding = request.Ints(1);  // Last axis first.
  Tables tables = SameTables(request);
  for (int i = 0; i < num_axes; ++i) {
    const int axis = x.rank() - 1 - i;
    const int64_t last = x.dims[axis] - 1;
    for (int64_t& place : tables[axis]) {
      place -= padding[2 * i];
      if (mirrors) {
        place = std::abs(place);
        place = place > last ? 2 * last - place : place;
      } else {
        place = std::clamp<int64_t>(place, 0, last);
      }
      if (place < 0 || place > last) return No{"padding that cuts"};
    }
  }
  return PrepareTables(request, tables);
}

}  // namespace

void RegisterAxisTables(KernelRegistry& registry) {
  for (const bool is_exact : {false, true}) {
    registry.Add(
        is_exact ? "aten._upsample_nearest_exact2d" : "aten.upsample_nearest2d",
        kMovedTypes, KernelRank::kFast,
        {"cpu.nearest", [is_exact](const KernelRequest& request) {
           return PrepareNearest(request, is_exact ? 0.5F : 0.0F);
         }});
  }
  for (const bool mirrors : {false, true}) {
    for (const int num_axes : {1, 2}) {
      registry.Add(absl::StrCat("aten.", mirrors ? "reflection" : "replication",
                                "_pad", num_axes, "d"),
                   kMovedTypes, KernelRank::kFast,
                   {"cpu.frame", [=](const KernelRequest& request) {
                      return PrepareFrame(request, num_axes, mirrors);
                    }});
    }
  }
}

}  // namespace mica::cpu
