// The largest of windows along the last axis, in any floating type: what
// max_pool1d is.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>

#include "kernels/cpu/axes.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/pointwise.h"
#include "kernels/cpu/simd_table.h"

namespace mica::cpu {
namespace {

struct RowsState {
  int64_t rows = 0, in = 0, out = 0;  // Elements of a row.
  int64_t taps = 1, step = 1, padding = 0, dilation = 1;
  Pooled type = Pooled::kF32;
  int64_t bytes = 0;  // Of an element.
  Constant lowest;    // Minus infinity.
  // Where the operand's rows lie, in bytes; empty if they follow each other.
  AxisList places;
  int num_threads = 1;
};

void PoolRow(const RowsState& s, const char* in, char* out) {
  // Without padding each window has a first element.
  const bool has_first = s.padding == 0;
  if (!has_first) {
    FillLoopOf(s.bytes)(s.lowest.bytes, out, s.out);
  } else if (s.step == 1) {
    std::memcpy(out, in, static_cast<size_t>(s.out * s.bytes));
  } else {
    GatherOf(s.bytes)(in, s.step, s.out, out);
  }
  for (int64_t tap = has_first ? 1 : 0; tap < s.taps; ++tap) {
    // Windows whose element at this tap is no padding.
    const int64_t at = tap * s.dilation - s.padding;
    const int64_t first = at >= 0 ? 0 : (-at + s.step - 1) / s.step;
    const int64_t end =
        at >= s.in ? 0 : std::min(s.out, (s.in - 1 - at) / s.step + 1);
    if (first >= end) continue;
    Simd().max_taps[static_cast<int>(s.type)](
        in + (first * s.step + at) * s.bytes, s.step, end - first,
        out + first * s.bytes);
  }
}

bool LaunchPoolRows(const void* state, void* const* args, LaunchContext&) {
  const auto& s = *static_cast<const RowsState*>(state);
  const auto* in = static_cast<const char*>(args[0]);
  auto* out = static_cast<char*>(args[1]);
  Parallel(s.num_threads, s.rows, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t at = s.places.sizes.empty() ? row * s.in * s.bytes
                                                : s.places.Offset(0, row);
      PoolRow(s, in + at, out + row * s.out * s.bytes);
    }
  });
  return true;
}

template <typename T>
void SetType(Pooled type, T lowest, RowsState& s) {
  s.type = type;
  s.bytes = sizeof(T);
  std::memcpy(s.lowest.bytes, &lowest, sizeof(T));
}

void SetType(DType dtype, RowsState& s) {
  switch (dtype) {
    case DType::kF64:
      return SetType(Pooled::kF64, -std::numeric_limits<double>::infinity(), s);
    case DType::kBF16:
      return SetType(Pooled::kBFloat, uint16_t{0xff80}, s);
    case DType::kF16:
      return SetType(Pooled::kHalf, uint16_t{0xfc00}, s);
    default:
      return SetType(Pooled::kF32, -std::numeric_limits<float>::infinity(), s);
  }
}

// The entry for columns; nothing unless that for rows is `of_rows`.
std::optional<int64_t> ColumnEntry(const KernelRequest& request, int param,
                                   int64_t of_rows) {
  const auto entries = request.Ints(param);
  if (entries.empty() || entries[0] != of_rows) return std::nullopt;
  return entries.back();
}

Verdict PreparePoolRows(const KernelRequest& request) {
  enum Param { kKernel = 1, kStride, kPadding, kDilation };
  const TensorType& x = request.operands[0].type;
  const TensorType& out = request.results[0].type;
  if (request.results[1].is_used) return No{"somebody reads the indices"};
  if (!out.is_row_major() || x.rank() < 1) return No{"isn't row-major"};
  const Dims strides = x.EffectiveStrides();
  if (strides.back() != 1 && x.dims.back() > 1) return No{"rows have gaps"};
  const int param_of_stride = request.Ints(kStride).empty() ? kKernel : kStride;
  const auto taps = ColumnEntry(request, kKernel, 1);
  const auto step = ColumnEntry(request, param_of_stride, 1);
  const auto padding = ColumnEntry(request, kPadding, 0);
  const auto dilation = ColumnEntry(request, kDilation, 1);
  if (!taps.has_value() || !step.has_value() || !padding.has_value() ||
      !dilation.has_value()) {
    return No{"windows have several rows"};
  }
  RowsState state{.in = x.dims.back(),
                  .out = out.dims.back(),
                  .taps = *taps,
                  .step = *step,
                  .padding = *padding,
                  .dilation = *dilation};
  SetType(x.dtype, state);
  if (!x.is_row_major()) {
    state.places.steps.emplace_back();
    for (int d = 0; d + 1 < x.rank(); ++d) {
      state.places.sizes.push_back(x.dims[d]);
      state.places.steps[0].push_back(strides[d] * state.bytes);
    }
  }
  if (state.in == 0 || state.out == 0) return No{"nothing to pool"};
  state.rows = x.num_elements() / state.in;
  if (out.num_elements() != state.rows * state.out) {
    return No{"several rows become one"};
  }
  state.num_threads = UsefulThreads(request.num_threads, x.num_elements());
  Prepared prepared;
  prepared.never_fails = true;
  prepared.launch = LaunchPoolRows;
  prepared.state = std::make_shared<const RowsState>(state);
  return prepared;
}

}  // namespace

void RegisterPoolRows(KernelRegistry& registry) {
  constexpr DType kFloating[] = {DType::kF32, DType::kF64, DType::kBF16,
                                 DType::kF16};
  registry.Add("aten.max_pool2d_with_indices", kFloating, KernelRank::kFast,
               {"cpu.max_pool_rows", PreparePoolRows});
}

}  // namespace mica::cpu
