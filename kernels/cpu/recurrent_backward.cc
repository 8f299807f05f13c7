// The backward pass of a recurrent layer, float32: one small product for each
// time, then a product of all times for each weight and the input.

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "kernels/cpu/families.h"
#include "kernels/cpu/product.h"
#include "kernels/cpu/simd_table.h"

namespace mica::cpu {
namespace {

// Parameters of mica.lstm_layer_backward.
enum : int {
  kX,
  kWeightIh,
  kWeightHh,
  kH0 = 5,
  kC0,
  kY,
  kGradY = 10,
  kGradH,
  kGradC,
  kReverse,
  kHidden = 15,
  kKept = 22
};

// An operand of up to three dims; row-major, or to be copied to `copy_at`.
struct Source {
  int arg = -1;  // None.
  Dims dims, strides;
  bool is_copied = false;
  int64_t copy_at = 0;
};

struct State {
  Source x, weight_ih, weight_hh, h0, c0, y, kept, grad_y, grad_h, grad_c;
  int first_result = 0;
  int scratch_arg = 0;
  int64_t times = 0, batch = 0, inputs = 0, hidden = 0;
  bool is_reverse = false;
  bool packs = false;
  // [b,4h] by [4h,h] for each time; then by all times, the gradients of the
  // input, [tb,4h] by [4h,i], and of the weights, [4h,tb] by [tb,i] and [tb,h].
  Product recurrent, to_x, to_weight_ih, to_weight_hh;
  // Where things begin in the scratch memory, in floats.
  int64_t dgates_at = 0, turned_at = 0, before_at = 0, dh_at = 0, dc_at = 0,
          dbias_at = 0, packed_at = 0, product_at = 0, scratch_floats = 0;
  int64_t rows() const { return times * batch; }
};

// Where the operand's elements lie in a row; null if there is none.
const float* Rows(const Source& source, void* const* args, float* scratch) {
  if (source.arg < 0) return nullptr;
  const auto* from = static_cast<const float*>(args[source.arg]);
  if (!source.is_copied) return from;
  Dims dims = source.dims, strides = source.strides;
  while (dims.size() < 3) {
    dims.insert(dims.begin(), 1);
    strides.insert(strides.begin(), 0);
  }
  float* to = scratch + source.copy_at;
  float* next = to;
  for (int64_t i = 0; i < dims[0]; ++i) {
    for (int64_t j = 0; j < dims[1]; ++j) {
      const float* row = from + i * strides[0] + j * strides[1];
      for (int64_t k = 0; k < dims[2]; ++k) *next++ = row[k * strides[2]];
    }
  }
  return to;
}

// What the passes over the times work on.
struct Pass {
  const float *kept, *c0, *grad_y, *weight_hh;
  float *dgates, *dh, *dc, *dbias, *product;
};

// From the last step to the first: gradients of all gates, and of h and c
// before the first step in place of those after the last.
void RunTimes(const State& s, const Pass& p) {
  const int64_t n = s.hidden, states = s.batch * n;
  for (int64_t step = s.times - 1; step >= 0; --step) {
    const int64_t t = s.is_reverse ? s.times - 1 - step : step;
    const int64_t before = s.is_reverse ? t + 1 : t - 1;
    float* dgates = p.dgates + t * 4 * states;
    for (int64_t b = 0; b < s.batch; ++b) {
      const float* c = step == 0
                           ? p.c0 + b * n
                           : p.kept + (before * s.batch + b) * 5 * n + 4 * n;
      Simd().training.lstm_cell_backward(
          {.kept = p.kept + (t * s.batch + b) * 5 * n,
           .c = c,
           .dy = p.grad_y == nullptr ? nullptr : p.grad_y + t * states + b * n,
           .dh = p.dh + b * n,
           .dc = p.dc + b * n,
           .dgates = dgates + b * 4 * n,
           .dbias = p.dbias,
           .n = n});
    }
    s.recurrent.Run(
        {.a = dgates, .b = p.weight_hh, .c = p.dh, .scratch = p.product});
  }
}

// The h that each time began with, in order of times.
void CopyBefore(const State& s, const float* h0, const float* y, float* to) {
  const int64_t states = s.batch * s.hidden;
  const auto rest = static_cast<size_t>(states * (s.times - 1)) * sizeof(float);
  const auto bytes = static_cast<size_t>(states) * sizeof(float);
  if (s.is_reverse) {
    std::memcpy(to, y + states, rest);
    std::memcpy(to + states * (s.times - 1), h0, bytes);
  } else {
    std::memcpy(to, h0, bytes);
    std::memcpy(to + states, y, rest);
  }
}

void CopyOrZero(const float* from, float* to, int64_t floats) {
  const auto bytes = static_cast<size_t>(floats) * sizeof(float);
  if (from == nullptr) {
    std::memset(to, 0, bytes);
  } else {
    std::memcpy(to, from, bytes);
  }
}

bool LaunchLstmBackward(const void* state, void* const* args, LaunchContext&) {
  const auto& s = *static_cast<const State*>(state);
  const int64_t n = s.hidden, states = s.batch * n, rows = s.rows();
  auto* scratch = static_cast<float*>(args[s.scratch_arg]);
  const auto in = [&](const Source& source) {
    return Rows(source, args, scratch);
  };
  const auto out = [&](int result) {
    return static_cast<float*>(args[s.first_result + result]);
  };
  const float* weight_hh = in(s.weight_hh);
  const Pass pass = {.kept = in(s.kept),
                     .c0 = in(s.c0),
                     .grad_y = in(s.grad_y),
                     .weight_hh = s.packs ? scratch + s.packed_at : weight_hh,
                     .dgates = scratch + s.dgates_at,
                     .dh = scratch + s.dh_at,
                     .dc = scratch + s.dc_at,
                     .dbias = scratch + s.dbias_at,
                     .product = scratch + s.product_at};
  if (s.packs) s.recurrent.Pack(weight_hh, scratch + s.packed_at);
  CopyOrZero(in(s.grad_h), pass.dh, states);
  CopyOrZero(in(s.grad_c), pass.dc, states);
  CopyOrZero(nullptr, pass.dbias, 4 * n);
  RunTimes(s, pass);
  const float* of_states[] = {pass.dbias, pass.dbias, pass.dh, pass.dc};
  for (int i = 0; i < 4; ++i) {
    float* to = out(3 + i);
    if (to != nullptr) CopyOrZero(of_states[i], to, i < 2 ? 4 * n : states);
  }
  if (out(0) != nullptr) {
    s.to_x.Run({.a = pass.dgates,
                .b = in(s.weight_ih),
                .c = out(0),
                .scratch = pass.product});
  }
  if (out(1) == nullptr && out(2) == nullptr) return true;
  float* turned = scratch + s.turned_at;
  Simd().transpose32(pass.dgates, 4 * n, turned, rows, rows, 4 * n);
  if (out(1) != nullptr) {
    s.to_weight_ih.Run(
        {.a = turned, .b = in(s.x), .c = out(1), .scratch = pass.product});
  }
  if (out(2) != nullptr) {
    float* before = scratch + s.before_at;
    CopyBefore(s, in(s.h0), in(s.y), before);
    s.to_weight_hh.Run(
        {.a = turned, .b = before, .c = out(2), .scratch = pass.product});
  }
  return true;
}

void PlaceScratch(State& s) {
  const int64_t n = s.hidden, states = s.batch * n;
  int64_t at = 0;
  const auto take = [&at](int64_t floats) {
    const int64_t begin = at;
    at += RoundUpFloats(floats);
    return begin;
  };
  for (Source* source : {&s.x, &s.weight_ih, &s.weight_hh, &s.h0, &s.c0, &s.y,
                         &s.kept, &s.grad_y, &s.grad_h, &s.grad_c}) {
    if (!source->is_copied) continue;
    int64_t floats = 1;
    for (const Dim dim : source->dims) floats *= dim;
    source->copy_at = take(floats);
  }
  s.dgates_at = take(s.rows() * 4 * n);
  s.turned_at = take(s.rows() * 4 * n);
  s.before_at = take(s.rows() * n);
  s.dh_at = take(states);
  s.dc_at = take(states);
  s.dbias_at = take(4 * n);
  s.packed_at = s.packs ? take(s.recurrent.packed_floats()) : 0;
  s.product_at = take(std::max(
      {s.recurrent.scratch_floats(), s.to_x.scratch_floats(),
       s.to_weight_ih.scratch_floats(), s.to_weight_hh.scratch_floats()}));
  s.scratch_floats = at;
}

// a[m,k] @ b[k,n], all row-major.
ProductSpec PlainSpec(int64_t m, int64_t n, int64_t k, int num_threads) {
  return {.m = m,
          .n = n,
          .k = k,
          .a_row_stride = k,
          .b_row_stride = n,
          .c_row_stride = n,
          .num_threads = num_threads};
}

Verdict PrepareLstmBackward(const KernelRequest& request) {
  for (const Operand& result : request.results) {
    if (!result.type.is_row_major()) return No{"results aren't row-major"};
  }
  const auto source = [&request](int param) {
    Source made;
    made.arg = request.OperandIndex(param);
    if (made.arg < 0) return made;
    const TensorType& type = request.operands[made.arg].type;
    made.dims = type.dims;
    made.strides = type.EffectiveStrides();
    made.is_copied = !type.is_row_major();
    return made;
  };
  auto state = std::make_shared<State>();
  State& s = *state;
  s.x = source(kX);
  for (const Dim dim : s.x.dims) {
    if (dim == 0) return No{"no elements"};
  }
  s.weight_ih = source(kWeightIh);
  s.weight_hh = source(kWeightHh);
  s.h0 = source(kH0);
  s.c0 = source(kC0);
  s.y = source(kY);
  s.kept = source(kKept);
  s.grad_y = source(kGradY);
  s.grad_h = source(kGradH);
  s.grad_c = source(kGradC);
  s.first_result = static_cast<int>(request.operands.size());
  s.scratch_arg = s.first_result + static_cast<int>(request.results.size());
  s.times = s.x.dims[0];
  s.batch = s.x.dims[1];
  s.inputs = s.x.dims[2];
  s.hidden = request.Int(kHidden);
  s.is_reverse = request.Bool(kReverse);
  const int64_t n = s.hidden;
  const auto spec = [&](int64_t rows, int64_t cols, int64_t k) {
    return PlainSpec(rows, cols, k, request.num_threads);
  };
  ProductSpec recurrent = spec(s.batch, n, 4 * n);
  s.packs = s.times >= kProductsToPack;
  recurrent.is_frozen = s.packs;
  const std::pair<ProductSpec, Product*> products[] = {
      {recurrent, &s.recurrent},
      {spec(s.rows(), s.inputs, 4 * n), &s.to_x},
      {spec(4 * n, s.inputs, s.rows()), &s.to_weight_ih},
      {spec(4 * n, n, s.rows()), &s.to_weight_hh}};
  for (const auto& [of, product] : products) {
    if (auto no = Product::Prepare(of, *product)) return No{*no};
  }
  PlaceScratch(s);
  Prepared prepared;
  prepared.launch = LaunchLstmBackward;
  prepared.scratch_bytes =
      s.scratch_floats * static_cast<int64_t>(sizeof(float));
  prepared.state = std::move(state);
  return prepared;
}

}  // namespace

void RegisterRecurrentBackward(KernelRegistry& registry) {
  constexpr DType kFloat[] = {DType::kF32};
  registry.Add("mica.lstm_layer_backward", kFloat, KernelRank::kFast,
               {"cpu.lstm_backward", PrepareLstmBackward});
}

}  // namespace mica::cpu
