// Recurrent layers, float32: the inputs' gates of all times in one product,
// then a small product and the gates' functions for each time.

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/product.h"
#include "kernels/cpu/simd_table.h"

namespace mica::cpu {
namespace {

// Operands of mkldnn_rnn_layer in their order.
enum : int { kX, kWeightIh, kWeightHh, kBiasIh, kBiasHh, kH0, kC0, kY };

struct LstmState {
  Product input, recurrent;
  int64_t times = 0, batch = 0, hidden = 0;
  bool is_reverse = false;
  bool packs_at_launch = false;
  bool has_y = true;
  bool has_biases = true;
  bool keeps = false;  // What a backward pass wants, as the last result.
  // Floats of a time and sample: its gates, and its cell if that is kept.
  int64_t row() const { return (keeps ? 5 : 4) * hidden; }
  // Where things begin in the scratch memory, in floats.
  int64_t bias_at = 0, gates_at = 0, cell_at = 0, y_at = 0, packed_at = 0,
          product_at = 0, scratch_floats = 0;
};

void PlaceScratch(LstmState& s) {
  const int64_t rows = s.times * s.batch, n = s.hidden;
  int64_t at = 0;
  auto take = [&at](int64_t floats) {
    const int64_t begin = at;
    at += RoundUpFloats(floats);
    return begin;
  };
  s.bias_at = take(4 * n);
  s.gates_at = s.keeps ? 0 : take(rows * 4 * n);
  s.cell_at = take(s.batch * n);
  s.y_at = s.has_y ? 0 : take(rows * n);
  s.packed_at = s.packs_at_launch ? take(s.recurrent.packed_floats()) : 0;
  s.product_at =
      take(std::max(s.input.scratch_floats(), s.recurrent.scratch_floats()));
  s.scratch_floats = at;
}

bool LaunchLstm(const void* state, void* const* args, LaunchContext&) {
  const auto& s = *static_cast<const LstmState*>(state);
  const int64_t n = s.hidden, state_floats = s.batch * n;
  auto in = [args](int arg) { return static_cast<const float*>(args[arg]); };
  auto* scratch = static_cast<float*>(args[kY + 4]);
  float* bias = scratch + s.bias_at;
  float* gates =
      s.keeps ? static_cast<float*>(args[kY + 3]) : scratch + s.gates_at;
  float* cell = scratch + s.cell_at;
  float* product = scratch + s.product_at;
  float* y = s.has_y ? static_cast<float*>(args[kY]) : scratch + s.y_at;
  for (int64_t i = 0; s.has_biases && i < 4 * n; ++i) {
    bias[i] = in(kBiasIh)[i] + in(kBiasHh)[i];
  }
  s.input.Run({.a = in(kX),
               .b = in(kWeightIh),
               .bias = s.has_biases ? bias : nullptr,
               .c = gates,
               .scratch = product});
  const float* weight = in(kWeightHh);
  if (s.packs_at_launch) {
    s.recurrent.Pack(weight, scratch + s.packed_at);
    weight = scratch + s.packed_at;
  }
  const float* h = in(kH0);
  std::memcpy(cell, in(kC0), state_floats * sizeof(float));
  for (int64_t step = 0; step < s.times; ++step) {
    const int64_t t = s.is_reverse ? s.times - 1 - step : step;
    float* now = gates + t * s.batch * s.row();
    s.recurrent.Run(
        {.a = h, .b = weight, .residual = now, .c = now, .scratch = product});
    float* out = y + t * state_floats;
    for (int64_t b = 0; b < s.batch; ++b) {
      float* kept = now + b * s.row();
      if (s.keeps) {
        Simd().training.lstm_cell(kept, cell + b * n, out + b * n, n);
        std::memcpy(cell + b * n, kept + 4 * n, n * sizeof(float));
      } else {
        Simd().lstm_cell(kept, cell + b * n, out + b * n, n);
      }
    }
    h = out;
  }
  const auto bytes = static_cast<size_t>(state_floats) * sizeof(float);
  if (args[kY + 1] != nullptr) std::memcpy(args[kY + 1], h, bytes);
  if (args[kY + 2] != nullptr) std::memcpy(args[kY + 2], cell, bytes);
  return true;
}

// x[rows, k] @ weight[4h, k]^T.
ProductSpec GatesSpec(const TensorType& weight, int64_t rows, int num_threads) {
  const int64_t n = weight.dims[0], k = weight.dims[1];
  return {.m = rows,
          .n = n,
          .k = k,
          .a_row_stride = k,
          .b_row_stride = 1,
          .b_col_stride = k,
          .c_row_stride = n,
          .num_threads = num_threads};
}

void AddPack(const std::shared_ptr<LstmState>& state, int operand,
             const Product& product, Prepared& prepared) {
  prepared.packs.push_back(
      {.operand = operand,
       .bytes = product.packed_floats() * static_cast<int64_t>(sizeof(float)),
       .layout = product.packed_layout(),
       .pack = [state, &product](const void* from, void* to) {
         product.Pack(static_cast<const float*>(from), static_cast<float*>(to));
         return absl::OkStatus();
       }});
}

Verdict PrepareLstm(const KernelRequest& request) {
  for (const Operand& operand : request.operands) {
    if (!operand.type.is_row_major()) return No{"operands aren't row-major"};
  }
  for (const Operand& result : request.results) {
    if (!result.type.is_row_major()) return No{"results aren't row-major"};
  }
  const TensorType& x = request.operands[kX].type;
  if (x.num_elements() == 0) return No{"no elements"};
  auto state = std::make_shared<LstmState>();
  state->times = x.dims[0];
  state->batch = x.dims[1];
  state->hidden = request.Int(10);
  state->is_reverse = request.Bool(7);
  state->has_y = request.results[0].is_used;
  state->keeps =
      request.results[3].is_used && request.results[3].type.rank() == 3;
  ProductSpec input =
      GatesSpec(request.operands[kWeightIh].type, state->times * state->batch,
                request.num_threads);
  input.c_row_stride = state->row();
  state->has_biases = request.Bool(12);
  input.has_bias = state->has_biases;
  input.is_frozen = request.operands[kWeightIh].is_frozen;
  ProductSpec recurrent = GatesSpec(request.operands[kWeightHh].type,
                                    state->batch, request.num_threads);
  recurrent.has_residual = recurrent.residual_is_c = true;
  recurrent.c_row_stride = recurrent.residual_row_stride = state->row();
  const bool is_frozen = request.operands[kWeightHh].is_frozen;
  state->packs_at_launch = !is_frozen && state->times >= kProductsToPack;
  recurrent.is_frozen = is_frozen || state->packs_at_launch;
  if (auto no = Product::Prepare(input, state->input)) return No{*no};
  if (auto no = Product::Prepare(recurrent, state->recurrent)) return No{*no};
  PlaceScratch(*state);
  Prepared prepared;
  prepared.launch = LaunchLstm;
  prepared.scratch_bytes =
      state->scratch_floats * static_cast<int64_t>(sizeof(float));
  if (state->input.form() == WeightForm::kPacked) {
    AddPack(state, kWeightIh, state->input, prepared);
  }
  if (is_frozen && state->recurrent.form() == WeightForm::kPacked) {
    AddPack(state, kWeightHh, state->recurrent, prepared);
  }
  prepared.state = std::move(state);
  return prepared;
}

struct GruCellState {
  int64_t rows = 0, n = 0;
  int64_t input_stride = 0, hidden_stride = 0, h_stride = 0, out_stride = 0;
};

bool LaunchGruCell(const void* state, void* const* args, LaunchContext&) {
  const auto& s = *static_cast<const GruCellState*>(state);
  for (int64_t i = 0; i < s.rows; ++i) {
    Simd().gru_cell(static_cast<const float*>(args[0]) + i * s.input_stride,
                    static_cast<const float*>(args[1]) + i * s.hidden_stride,
                    static_cast<const float*>(args[2]) + i * s.h_stride,
                    static_cast<float*>(args[3]) + i * s.out_stride, s.n);
  }
  return true;
}

Verdict PrepareGruCell(const KernelRequest& request) {
  if (!request.results[0].is_used) return No{"nobody reads it"};
  auto row_stride = [](const Operand& operand) -> int64_t {
    const Dims strides = operand.type.EffectiveStrides();
    return operand.type.dims[1] > 1 && strides[1] != 1 ? -1 : strides[0];
  };
  const GruCellState state = {.rows = request.operands[2].type.dims[0],
                              .n = request.operands[2].type.dims[1],
                              .input_stride = row_stride(request.operands[0]),
                              .hidden_stride = row_stride(request.operands[1]),
                              .h_stride = row_stride(request.operands[2]),
                              .out_stride = row_stride(request.results[0])};
  if (std::min({state.input_stride, state.hidden_stride, state.h_stride,
                state.out_stride}) < 0) {
    return No{"rows have gaps"};
  }
  Prepared prepared;
  prepared.launch = LaunchGruCell;
  prepared.inplace_operands = 1u << 2;
  prepared.state = std::make_shared<const GruCellState>(state);
  return prepared;
}

}  // namespace

void RegisterRecurrent(KernelRegistry& registry) {
  constexpr DType kFloat[] = {DType::kF32};
  for (const char* op : {"aten.mkldnn_rnn_layer", "mica.lstm_layer"}) {
    registry.Add(op, kFloat, KernelRank::kFast, {"cpu.lstm", PrepareLstm});
  }
  registry.Add("mica.gru_cell", kFloat, KernelRank::kFast,
               {"cpu.gru_cell", PrepareGruCell});
}

}  // namespace mica::cpu
