// Products with int8 weights: of rows that are quantised as they come, or of
// float32.

#include <algorithm>
#include <cstdint>
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

constexpr int kWeightArg = 1, kScalesArg = 2;

// Up to this many rows of float32 the weights' bytes meet them as they are;
// more of them share a panel that is widened to floats.
constexpr int64_t kFewRowsOfInt8 = 8;

// Rows of x that stay in the second-level cache while all weights pass.
constexpr int64_t kRowBytesAtOnce = 256 * 1024;

int64_t RoundUpLine(int64_t bytes) { return (bytes + 63) / 64 * 64; }

struct Int8State {
  QuantisedCall call;
  bool is_dynamic = false;
  int64_t w_row_stride = 0;
  Product product;  // Of many rows of float32.
  int scratch_arg = -1;

  int64_t panels() const {
    const int64_t cols = Simd().gemm_cols;
    return (call.n + cols - 1) / cols;
  }
  int64_t panel_bytes() const {
    return is_dynamic ? FewBits().int8.panel_bytes(call.k, Simd().gemm_cols)
                      : call.k * Simd().gemm_cols;
  }
  int64_t packed_bytes() const { return RoundUpLine(panels() * panel_bytes()); }
  // Of a thread's or a row's own parts of scratch memory.
  int64_t quantised_bytes() const {
    return RoundUpLine(call.m * FewBits().int8.row_bytes(call.k));
  }
  int64_t numbers_bytes() const {
    return RoundUpLine(call.m * static_cast<int64_t>(sizeof(float)));
  }
  bool has_few_rows() const { return call.m <= kFewRowsOfInt8; }
  int64_t scratch_bytes() const {
    int64_t bytes = call.is_frozen ? 0 : packed_bytes();
    if (is_dynamic) return bytes + quantised_bytes() + 2 * numbers_bytes();
    if (!has_few_rows()) {
      bytes += product.scratch_floats() * static_cast<int64_t>(sizeof(float));
    }
    return bytes;
  }

  void Pack(const void* from, void* to) const {
    const auto* w = static_cast<const int8_t*>(from);
    if (is_dynamic) {
      FewBits().int8.pack(w, w_row_stride, call.n, call.k, to);
    } else {
      FewBits().int8.pack_rows(w, w_row_stride, call.n, call.k,
                               static_cast<int8_t*>(to));
    }
  }
  // The packed weight; `scratch` is moved behind what it takes of that.
  const char* Packed(void* const* args, char** scratch) const {
    if (call.is_frozen) return static_cast<const char*>(args[kWeightArg]);
    char* packed = *scratch;
    *scratch += packed_bytes();
    Pack(args[kWeightArg], packed);
    return packed;
  }
};

void RunDynamic(const Int8State& s, void* const* args, char* scratch) {
  const Int8Loops& loops = FewBits().int8;
  const QuantisedCall& call = s.call;
  const char* packed = s.Packed(args, &scratch);
  const int64_t row_bytes = loops.row_bytes(call.k);
  char* quantised = scratch;
  auto* scales = reinterpret_cast<float*>(quantised + s.quantised_bytes());
  auto* sums = reinterpret_cast<int32_t*>(quantised + s.quantised_bytes() +
                                          s.numbers_bytes());
  const auto* x = static_cast<const float*>(args[0]);
  Parallel(call.num_threads, call.m, [&](int64_t begin, int64_t end) {
    loops.quantise({.x = x + begin * call.x_row_stride,
                    .x_row_stride = call.x_row_stride,
                    .rows = end - begin,
                    .k = call.k,
                    .out = quantised + begin * row_bytes,
                    .out_row_bytes = row_bytes,
                    .scales = scales + begin,
                    .sums = sums + begin});
  });
  const int64_t cols = Simd().gemm_cols;
  const int64_t rows = std::max<int64_t>(kRowBytesAtOnce / row_bytes, 16);
  const float* bias = call.Bias(args);
  Parallel(call.num_threads, s.panels(), [&](int64_t begin, int64_t end) {
    for (int64_t row = 0; row < call.m; row += rows) {
      const bool is_last = row + rows >= call.m;
      for (int64_t panel = begin; panel < end; ++panel) {
        const int64_t col = panel * cols;
        const int64_t width = std::min(cols, call.n - col);
        loops.gemm(
            {.x = quantised + row * row_bytes,
             .x_row_bytes = row_bytes,
             .x_scales = scales + row,
             .x_sums = sums + row,
             .w = packed + panel * s.panel_bytes(),
             .w_scales = static_cast<const float*>(args[kScalesArg]) + col,
             .bias = bias == nullptr ? nullptr : bias + col,
             .c = static_cast<float*>(args[call.c_arg]) +
                  row * call.c_row_stride + col,
             .c_row_stride = call.c_row_stride,
             .m = std::min(rows, call.m - row),
             .n = width,
             .k = call.k});
        if (is_last) call.Finish(args, col, width);
      }
    }
  });
}

void RunFewRows(const Int8State& s, void* const* args, const char* packed) {
  const QuantisedCall& call = s.call;
  const int64_t cols = Simd().gemm_cols;
  const float* bias = call.Bias(args);
  Parallel(call.num_threads, s.panels(), [&](int64_t begin, int64_t end) {
    const int64_t col = begin * cols;
    const int64_t width = std::min(end * cols, call.n) - col;
    FewBits().int8.rows(
        {.x = static_cast<const float*>(args[0]),
         .x_row_stride = call.x_row_stride,
         .w = reinterpret_cast<const int8_t*>(packed) + begin * s.panel_bytes(),
         .w_scales = static_cast<const float*>(args[kScalesArg]) + col,
         .bias = bias == nullptr ? nullptr : bias + col,
         .c = static_cast<float*>(args[call.c_arg]) + col,
         .c_row_stride = call.c_row_stride,
         .m = call.m,
         .n = width,
         .k = call.k});
    call.Finish(args, col, width);
  });
}

// What the product of many rows reads: the packed bytes and their scales.
struct WeightsOfInt8 {
  const int8_t* packed;
  const float* scales;
};

bool LaunchInt8(const void* state, void* const* args, LaunchContext&) {
  const auto& s = *static_cast<const Int8State*>(state);
  auto* scratch =
      s.scratch_arg < 0 ? nullptr : static_cast<char*>(args[s.scratch_arg]);
  if (s.is_dynamic) {
    RunDynamic(s, args, scratch);
    return true;
  }
  const char* packed = s.Packed(args, &scratch);
  if (s.has_few_rows()) {
    RunFewRows(s, args, packed);
    return true;
  }
  const WeightsOfInt8 weights{reinterpret_cast<const int8_t*>(packed),
                              static_cast<const float*>(args[kScalesArg])};
  s.call.Run(s.product, args, &weights, scratch);
  return true;
}

WidenFn WidenOf(int64_t n, int64_t k) {
  return [=](const void* b, const WidenPart& part, float* packed) {
    const auto& weights = *static_cast<const WeightsOfInt8*>(b);
    const int64_t cols = Simd().gemm_cols, rows = part.k_end - part.k_begin;
    for (int64_t i = part.panel_begin; i < part.panel_end; ++i) {
      FewBits().int8.widen(weights.packed + (i * k + part.k_begin) * cols,
                           weights.scales + i * cols,
                           std::min(cols, n - i * cols), rows, packed);
      packed += rows * cols;
    }
  };
}

Verdict PrepareInt8Linear(const KernelRequest& request) {
  auto state = std::make_shared<Int8State>();
  QuantisedCall& call = state->call;
  const TensorType& weight = request.operands[kWeightArg].type;
  if (auto no = QuantisedCall::Parse(request, 3, weight.dims[0], call)) {
    return No{*no};
  }
  if (!LieByRows(request, kWeightArg, kScalesArg)) {
    return No{"the weight or its scales have gaps"};
  }
  state->is_dynamic = request.Bool(6);
  state->w_row_stride = call.k;
  if (state->is_dynamic && call.k > Int8Loops::kMostTerms) {
    return No{"sums of so many numbers may not fit 32 bits"};
  }
  if (!state->is_dynamic && !state->has_few_rows()) {
    const ProductSpec spec =
        call.Widened(request, WidenOf(call.n, call.k), /*widen_step=*/1);
    if (auto no = Product::Prepare(spec, state->product)) return No{*no};
  }
  Prepared prepared;
  prepared.launch = LaunchInt8;
  prepared.scratch_bytes = state->scratch_bytes();
  if (prepared.scratch_bytes > 0) state->scratch_arg = call.c_arg + 1;
  if (call.is_frozen) {
    prepared.packs.push_back(
        {.operand = kWeightArg,
         .bytes = state->packed_bytes(),
         .layout =
             absl::StrCat("int8 panels of [", call.k, ",", call.n, "] by ",
                          state->is_dynamic ? FewBits().int8.group : 1),
         .pack = [state](const void* from, void* to) {
           state->Pack(from, to);
           return absl::OkStatus();
         }});
  }
  prepared.state = std::move(state);
  return prepared;
}

}  // namespace

void RegisterInt8Linear(KernelRegistry& registry) {
  constexpr DType kFloat[] = {DType::kF32};
  registry.Add("mica.int8_linear", kFloat, KernelRank::kFast,
               {"cpu.int8", PrepareInt8Linear});
}

}  // namespace mica::cpu
