// Products of float32 with weights of 4 bits.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/few_bits_kernels.h"
#include "kernels/cpu/few_bits_loops.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/product.h"
#include "kernels/cpu/quantised_call.h"

namespace mica::cpu {
namespace {

constexpr int kNumbersArg = 1, kScalesArg = 2, kOffsetsArg = 3;

// As with int8: more rows share what is widened to floats.
constexpr int64_t kFewRowsOfInt4 = 8;

int64_t RoundUpToLine(int64_t bytes) { return (bytes + 63) / 64 * 64; }

struct Int4State {
  QuantisedCall call;
  int64_t group = 0, num_parts = 0;
  Product product;  // Of many rows.
  int scratch_arg = -1;

  int64_t panels() const {
    const int64_t cols = Simd().gemm_cols;
    return (call.n + cols - 1) / cols;
  }
  // Columns of whole panels.
  int64_t part_stride() const { return panels() * Simd().gemm_cols; }
  int64_t panel_words() const {
    return Int4Loops::panel_words(call.k, Simd().gemm_cols);
  }
  int64_t packed_bytes() const {
    return RoundUpToLine(panels() * panel_words() *
                         static_cast<int64_t>(sizeof(uint32_t)));
  }
  int64_t parts_bytes() const {
    return RoundUpToLine(num_parts * part_stride() *
                         static_cast<int64_t>(sizeof(float)));
  }
  bool has_few_rows() const { return call.m <= kFewRowsOfInt4; }
  int64_t padded_k() const {
    return (call.k + Int4Loops::kOfWord - 1) / Int4Loops::kOfWord *
           Int4Loops::kOfWord;
  }
  int64_t rows_bytes() const {
    return RoundUpToLine(call.m * padded_k() *
                         static_cast<int64_t>(sizeof(float)));
  }
  int64_t scratch_bytes() const {
    const int64_t bytes =
        call.is_frozen ? 0 : packed_bytes() + 2 * parts_bytes();
    const int64_t floats =
        has_few_rows() ? call.m * num_parts : product.scratch_floats();
    return bytes + (has_few_rows() ? rows_bytes() : 0) +
           floats * static_cast<int64_t>(sizeof(float));
  }

  void PackNumbers(const void* from, void* to) const {
    FewBits().int4.pack(static_cast<const uint8_t*>(from), (call.k + 1) / 2,
                        call.n, call.k, static_cast<uint32_t*>(to));
  }
  // Of scales or offsets: group by group, zeros behind the last column.
  void PackParts(const void* from, void* to) const {
    const auto* parts = static_cast<const float*>(from);
    auto* out = static_cast<float*>(to);
    for (int64_t g = 0; g < num_parts; ++g) {
      for (int64_t n = 0; n < part_stride(); ++n) {
        *out++ = n < call.n ? parts[n * num_parts + g] : 0;
      }
    }
  }
};

// Where a launch's packed weights are.
FloatByInt4Args WeightsOf(const Int4State& s, void* const* args,
                          char** scratch) {
  FloatByInt4Args made{.part_stride = s.part_stride(),
                       .num_parts = s.num_parts,
                       .group = s.group,
                       .k = s.call.k};
  if (s.call.is_frozen) {
    made.w = static_cast<const uint32_t*>(args[kNumbersArg]);
    made.scales = static_cast<const float*>(args[kScalesArg]);
    made.offsets = static_cast<const float*>(args[kOffsetsArg]);
    return made;
  }
  char* packed = *scratch;
  char* scales = packed + s.packed_bytes();
  char* offsets = scales + s.parts_bytes();
  *scratch = offsets + s.parts_bytes();
  s.PackNumbers(args[kNumbersArg], packed);
  s.PackParts(args[kScalesArg], scales);
  s.PackParts(args[kOffsetsArg], offsets);
  made.w = reinterpret_cast<const uint32_t*>(packed);
  made.scales = reinterpret_cast<const float*>(scales);
  made.offsets = reinterpret_cast<const float*>(offsets);
  return made;
}

// The sum with a row of x that isn't finite, or whose sum isn't: to sum up
// offsets apart from numbers takes a difference of infinities there.
void RunPlainRow(const FloatByInt4Args& a, int64_t row) {
  const int64_t cols = Simd().gemm_cols;
  const int64_t words = Int4Loops::panel_words(a.k, Simd().gemm_cols);
  const float* x = a.x + row * a.x_row_stride;
  for (int64_t n = 0; n < a.n; ++n) {
    const uint32_t* w = a.w + n / cols * words + n % cols;
    double sum = a.bias == nullptr ? 0 : a.bias[n];
    for (int64_t k = 0; k < a.k; ++k) {
      const uint32_t number =
          w[k / Int4Loops::kOfWord * cols] >> (k % Int4Loops::kOfWord * 4) & 15;
      const int64_t at = k / a.group * a.part_stride + n;
      sum += static_cast<double>(x[k]) *
             (static_cast<double>(a.scales[at]) * number + a.offsets[at]);
    }
    a.c[row * a.c_row_stride + n] = static_cast<float>(sum);
  }
}

bool IsFinite(const float* sums, int64_t count) {
  return std::all_of(sums, sums + count,
                     [](float sum) { return std::isfinite(sum); });
}

// Rows of x with zeros up to a whole word, and the sum of each group.
void CopyRows(const Int4State& s, const float* x, float* rows, float* sums) {
  const int64_t k = s.call.k;
  for (int64_t row = 0; row < s.call.m; ++row) {
    const float* from = x + row * s.call.x_row_stride;
    float* to = rows + row * s.padded_k();
    std::memcpy(to, from, static_cast<size_t>(k) * sizeof(float));
    std::fill(to + k, to + s.padded_k(), 0.0f);
    for (int64_t g = 0; g < s.num_parts; ++g) {
      float sum = 0;
      const int64_t end = std::min((g + 1) * s.group, k);
      for (int64_t i = g * s.group; i < end; ++i) sum += from[i];
      *sums++ = sum;
    }
  }
}

void RunFewRowsOfInt4(const Int4State& s, void* const* args,
                      const FloatByInt4Args& weights, char* scratch) {
  const QuantisedCall& call = s.call;
  auto* rows = reinterpret_cast<float*>(scratch);
  auto* sums = reinterpret_cast<float*>(scratch + s.rows_bytes());
  CopyRows(s, static_cast<const float*>(args[0]), rows, sums);
  const int64_t cols = Simd().gemm_cols;
  const float* bias = call.Bias(args);
  Parallel(call.num_threads, s.panels(), [&](int64_t begin, int64_t end) {
    const int64_t col = begin * cols;
    FloatByInt4Args part = weights;
    part.x = rows;
    part.x_row_stride = s.padded_k();
    part.x_sums = sums;
    part.w += begin * s.panel_words();
    part.scales += col;
    part.offsets += col;
    part.bias = bias == nullptr ? nullptr : bias + col;
    part.c = static_cast<float*>(args[call.c_arg]) + col;
    part.c_row_stride = call.c_row_stride;
    part.m = call.m;
    part.n = std::min(end * cols, call.n) - col;
    FewBits().int4.rows(part);
    for (int64_t row = 0; row < call.m; ++row) {
      if (!IsFinite(sums + row * s.num_parts, s.num_parts)) {
        RunPlainRow(part, row);
      }
    }
    call.Finish(args, col, part.n);
  });
}

bool LaunchInt4(const void* state, void* const* args, LaunchContext&) {
  const auto& s = *static_cast<const Int4State*>(state);
  auto* scratch =
      s.scratch_arg < 0 ? nullptr : static_cast<char*>(args[s.scratch_arg]);
  const FloatByInt4Args weights = WeightsOf(s, args, &scratch);
  if (s.has_few_rows()) {
    RunFewRowsOfInt4(s, args, weights, scratch);
    return true;
  }
  s.call.Run(s.product, args, &weights, scratch);
  return true;
}

void WidenInt4(const void* b, const WidenPart& part, float* packed) {
  const auto& weights = *static_cast<const FloatByInt4Args*>(b);
  const int64_t rows = part.k_end - part.k_begin;
  for (int64_t i = part.panel_begin; i < part.panel_end; ++i) {
    FewBits().int4.widen(weights, i, part.k_begin, part.k_end, packed);
    packed += rows * Simd().gemm_cols;
  }
}

PackRequest PackOf(std::shared_ptr<const Int4State> state, int operand) {
  const bool is_parts = operand != kNumbersArg;
  const QuantisedCall& call = state->call;
  return {.operand = operand,
          .bytes = is_parts ? state->parts_bytes() : state->packed_bytes(),
          .layout = absl::StrCat(is_parts ? "groups" : "int4 panels", " of [",
                                 call.k, ",", call.n, "] by ", state->group),
          .pack = [state, is_parts](const void* from, void* to) {
            is_parts ? state->PackParts(from, to)
                     : state->PackNumbers(from, to);
            return absl::OkStatus();
          }};
}

Verdict PrepareInt4Linear(const KernelRequest& request) {
  auto state = std::make_shared<Int4State>();
  QuantisedCall& call = state->call;
  const int64_t n = request.operands[kNumbersArg].type.dims[0];
  if (auto no = QuantisedCall::Parse(request, 4, n, call)) return No{*no};
  if (!LieByRows(request, kNumbersArg, kOffsetsArg)) {
    return No{"the weight or its parts have gaps"};
  }
  // All three are packed, or none.
  for (int i = kNumbersArg; i <= kOffsetsArg; ++i) {
    call.is_frozen = call.is_frozen && request.operands[i].is_frozen;
  }
  state->group = request.Int(7);
  state->num_parts = request.operands[kScalesArg].type.dims[1];
  if (state->group % Int4Loops::kOfWord != 0) {
    return No{"groups aren't whole words"};
  }
  if (!state->has_few_rows()) {
    const ProductSpec spec =
        call.Widened(request, WidenInt4, Int4Loops::kOfWord);
    if (auto no = Product::Prepare(spec, state->product)) return No{*no};
  }
  Prepared prepared;
  prepared.launch = LaunchInt4;
  prepared.scratch_bytes = state->scratch_bytes();
  if (prepared.scratch_bytes > 0) state->scratch_arg = call.c_arg + 1;
  if (call.is_frozen) {
    for (int i = kNumbersArg; i <= kOffsetsArg; ++i) {
      prepared.packs.push_back(PackOf(state, i));
    }
  }
  prepared.state = std::move(state);
  return prepared;
}

}  // namespace

void RegisterInt4Linear(KernelRegistry& registry) {
  constexpr DType kFloat[] = {DType::kF32};
  registry.Add("mica.int4_linear", kFloat, KernelRank::kFast,
               {"cpu.int4", PrepareInt4Linear});
}

}  // namespace mica::cpu
