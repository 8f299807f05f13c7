// Weights of few bits from weights of float32: done once, when they are bound.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "kernels/cpu/few_bits_kernels.h"
#include "kernels/cpu/parallel.h"

namespace mica::cpu {
namespace {

// Rows that are brought together where a matrix lies by columns.
constexpr int64_t kRowsOfWeight = 16;

// As in the reference: what is smaller can't be inverted.
constexpr float kSmallestSize = 1e-36f;

struct QuantiseState {
  int64_t n = 0, k = 0, row_stride = 0, col_stride = 0;
  int64_t group = 0;  // Of int4.
  int num_threads = 1;
};

// Calls run(n, row) for each row of the weight, whose k floats lie at `row`.
template <typename Run>
void ForEachRow(const QuantiseState& s, const float* weight, const Run& run) {
  const int64_t blocks = (s.n + kRowsOfWeight - 1) / kRowsOfWeight;
  Parallel(s.num_threads, blocks, [&](int64_t begin, int64_t end) {
    std::vector<float> rows(static_cast<size_t>(kRowsOfWeight * s.k));
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = block * kRowsOfWeight;
      const int64_t count = std::min(kRowsOfWeight, s.n - first);
      const float* from = weight + first * s.row_stride;
      for (int64_t i = 0; i < s.k; ++i) {
        for (int64_t r = 0; r < count; ++r) {
          rows[r * s.k + i] = from[r * s.row_stride + i * s.col_stride];
        }
      }
      for (int64_t r = 0; r < count; ++r) run(first + r, &rows[r * s.k]);
    }
  });
}

bool LaunchQuantiseInt8(const void* state, void* const* args, LaunchContext&) {
  const auto& s = *static_cast<const QuantiseState*>(state);
  auto* values = static_cast<int8_t*>(args[1]);
  auto* scales = static_cast<float*>(args[2]);
  ForEachRow(s, static_cast<const float*>(args[0]),
             [&](int64_t n, const float* row) {
               float size = 0, bad = 0;
               for (int64_t i = 0; i < s.k; ++i) {
                 size = std::max(size, std::abs(row[i]));
                 bad += row[i] * 0;
               }
               const bool is_finite = bad == 0;
               const bool is_small = !is_finite || size < kSmallestSize;
               const float inverse = is_small ? 0 : 127.0f / size;
               if (values != nullptr) {
                 for (int64_t i = 0; i < s.k; ++i) {
                   const float number =
                       is_small ? 0 : std::nearbyint(row[i] * inverse);
                   values[n * s.k + i] = static_cast<int8_t>(number);
                 }
               }
               if (scales == nullptr) return;
               scales[n] = is_small ? 0 : size / 127.0f;
               if (!is_finite)
                 scales[n] = std::numeric_limits<float>::quiet_NaN();
             });
  return true;
}

// A group's smallest number and a fifteenth of the way to its largest; both NaN
// if one of them isn't finite.
struct Steps {
  Steps(const float* x, int64_t count) {
    float high = x[0], bad = 0;
    low = x[0];
    for (int64_t i = 0; i < count; ++i) {
      low = std::min(low, x[i]);
      high = std::max(high, x[i]);
      bad += x[i] * 0;
    }
    const float range = high - low;
    if (bad != 0 || !std::isfinite(range)) {
      low = scale = std::numeric_limits<float>::quiet_NaN();
    } else if (range > kSmallestSize) {
      scale = range / 15.0f;
      inverse = 15.0f / range;
    }
  }
  uint8_t NumberOf(float x) const {
    if (inverse == 0) return 0;
    const float number = std::nearbyint((x - low) * inverse);
    return static_cast<uint8_t>(std::clamp(number, 0.0f, 15.0f));
  }

  float low = 0, scale = 0, inverse = 0;
};

bool LaunchQuantiseInt4(const void* state, void* const* args, LaunchContext&) {
  const auto& s = *static_cast<const QuantiseState*>(state);
  auto* values = static_cast<uint8_t*>(args[1]);
  auto* scales = static_cast<float*>(args[2]);
  auto* offsets = static_cast<float*>(args[3]);
  const int64_t parts = (s.k + s.group - 1) / s.group;
  const int64_t bytes = (s.k + 1) / 2;
  ForEachRow(
      s, static_cast<const float*>(args[0]), [&](int64_t n, const float* row) {
        for (int64_t g = 0; g < parts; ++g) {
          const int64_t begin = g * s.group;
          const int64_t end = std::min(begin + s.group, s.k);
          const Steps steps(row + begin, end - begin);
          for (int64_t i = begin; i < end && values != nullptr; i += 2) {
            const int first = steps.NumberOf(row[i]);
            const int second = i + 1 < end ? steps.NumberOf(row[i + 1]) : 0;
            values[n * bytes + i / 2] =
                static_cast<uint8_t>(first | second << 4);
          }
          if (scales != nullptr) scales[n * parts + g] = steps.scale;
          if (offsets != nullptr) offsets[n * parts + g] = steps.low;
        }
      });
  return true;
}

Verdict PrepareQuantise(const KernelRequest& request, LaunchFn launch,
                        int64_t group) {
  const TensorType& weight = request.operands[0].type;
  for (const Operand& result : request.results) {
    if (!result.type.is_row_major()) return No{"a result has gaps"};
  }
  const Dims strides = weight.EffectiveStrides();
  Prepared prepared;
  prepared.launch = launch;
  prepared.state = std::make_shared<const QuantiseState>(QuantiseState{
      .n = weight.dims[0],
      .k = weight.dims[1],
      .row_stride = strides[0],
      .col_stride = strides[1],
      .group = group,
      .num_threads =
          UsefulThreads(request.num_threads, weight.num_elements())});
  return prepared;
}

Verdict PrepareQuantiseInt8(const KernelRequest& request) {
  return PrepareQuantise(request, LaunchQuantiseInt8, 0);
}

Verdict PrepareQuantiseInt4(const KernelRequest& request) {
  return PrepareQuantise(request, LaunchQuantiseInt4, request.Int(1));
}

}  // namespace

void RegisterQuantise(KernelRegistry& registry) {
  constexpr DType kFloat[] = {DType::kF32};
  registry.Add("mica.quantise_int8", kFloat, KernelRank::kFast,
               {"cpu.quantise_int8", PrepareQuantiseInt8});
  registry.Add("mica.quantise_int4", kFloat, KernelRank::kFast,
               {"cpu.quantise_int4", PrepareQuantiseInt4});
}

}  // namespace mica::cpu
