// Recurrent layers.

#include <utility>

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/infer.h"
#include "ops/nn/families.h"

namespace mica {
namespace {

constexpr int64_t kLstm = 2;  // As mkldnn_rnn_layer's mode has it.
constexpr int64_t kMaxHidden = int64_t{1} << 24;

// The output, the last h and the last c.
absl::StatusOr<TensorTypes> InferLstm(const OpCall& call) {
  const TensorType& x = call.Type(0);
  const int64_t hidden = call.Int(10);
  if (call.Int(9) != kLstm || !call.Ints(8).empty()) {
    return absl::UnimplementedError(absl::StrCat(
        call.def().name(), ": other than an LSTM of equal lengths"));
  }
  const bool fits =
      x.rank() == 3 && hidden > 0 && hidden < kMaxHidden &&
      IsFloating(x.dtype) && call.Type(1).dims == Dims{4 * hidden, x.dims[2]} &&
      call.Type(2).dims == Dims{4 * hidden, hidden} &&
      (!call.Bool(12) || (call.Type(3).dims == Dims{4 * hidden} &&
                          call.Type(4).dims == Dims{4 * hidden})) &&
      call.Type(5).dims == Dims{x.dims[1], hidden} &&
      call.Type(6).dims == Dims{x.dims[1], hidden};
  if (!fits) {
    return call.Wants(
        "input[t,b,i], weights[4h,i] and [4h,h], biases[4h], hx and cx[b,h]");
  }
  for (int param = 1; param <= 6; ++param) {
    if (call.Type(param).dtype != x.dtype) return call.Wants("one dtype");
  }
  return TensorTypes{FreshTensor(x.dtype, {x.dims[0], x.dims[1], hidden}),
                     FreshTensor(x.dtype, call.Type(5).dims),
                     FreshTensor(x.dtype, call.Type(6).dims)};
}

absl::StatusOr<TensorTypes> InferLstmLayer(const OpCall& call) {
  MICA_ASSIGN_OR_RETURN(TensorTypes types, InferLstm(call));
  types.push_back(AbsentResultType());
  return types;
}

// What a time of a sample keeps, in units of the hidden size.
constexpr int64_t kKept = 5;

absl::StatusOr<TensorTypes> InferKeepingLstmLayer(const OpCall& call) {
  MICA_ASSIGN_OR_RETURN(TensorTypes types, InferLstm(call));
  Dims kept = types[0].dims;
  kept[2] *= kKept;
  types.push_back(FreshTensor(types[0].dtype, std::move(kept)));
  return types;
}

absl::StatusOr<TensorTypes> InferLstmLayerBackward(const OpCall& call) {
  const TensorType& x = call.Type(0);
  const int64_t hidden = call.Int(15);
  if (call.Int(14) != kLstm || !call.Ints(20).empty() || !call.Bool(17)) {
    return absl::UnimplementedError(
        absl::StrCat(call.def().name(),
                     ": other than an LSTM of equal lengths and with biases"));
  }
  if (x.rank() != 3 || hidden <= 0 || hidden >= kMaxHidden ||
      !IsFloating(x.dtype)) {
    return call.Wants("input[t,b,i] and a hidden size");
  }
  const Dims states = {x.dims[1], hidden}, bias = {4 * hidden};
  const Dims all = {x.dims[0], x.dims[1], hidden};
  const std::pair<int, Dims> wants[] = {
      {1, {4 * hidden, x.dims[2]}},
      {2, {4 * hidden, hidden}},
      {3, bias},
      {4, bias},
      {5, states},
      {6, states},
      {7, all},
      {8, states},
      {9, states},
      {10, all},
      {11, states},
      {12, states},
      {22, {x.dims[0], x.dims[1], kKept * hidden}},
  };
  for (const auto& [param, dims] : wants) {
    const bool may_lack = param >= 10 && param <= 12;
    if (may_lack && !call.Has(param)) continue;
    if (call.Type(param).dims != dims || call.Type(param).dtype != x.dtype) {
      return call.Wants(
          "input[t,b,i], weights[4h,i] and [4h,h], biases[4h], states[b,h], "
          "outputs[t,b,h] and what was kept[t,b,5h], of one dtype");
    }
  }
  TensorTypes types;
  for (const int param : {0, 1, 2, 3, 4, 5, 6}) {
    types.push_back(FreshTensor(x.dtype, call.Type(param).dims));
  }
  return types;
}

absl::StatusOr<TensorTypes> InferGruCell(const OpCall& call) {
  const TensorType& h = call.Type(2);
  const bool fits =
      h.rank() == 2 && h.dims[1] < kMaxHidden && IsFloating(h.dtype) &&
      call.Type(0).dims == Dims{h.dims[0], 3 * h.dims[1]} &&
      call.Type(1).dims == call.Type(0).dims && call.Type(0).dtype == h.dtype &&
      call.Type(1).dtype == h.dtype;
  if (!fits) return call.Wants("two gates[b,3h] and hidden[b,h] of one dtype");
  return TensorTypes{FreshTensor(h.dtype, h.dims)};
}

}  // namespace

void RegisterRecurrentOps(OpRegistry& registry) {
  registry.Add(
      OpDef("aten::mkldnn_rnn_layer(Tensor input, Tensor weight0, Tensor "
            "weight1, Tensor weight2, Tensor weight3, Tensor hx_, Tensor cx_, "
            "bool reverse, int[] batch_sizes, int mode, int hidden_size, int "
            "num_layers, bool has_biases, bool bidirectional, bool "
            "batch_first, bool train) -> (Tensor, Tensor, Tensor, Tensor)")
          .Doc("One direction of one LSTM layer over input[t,b,i]: with gates "
               "i, f, g, o = x @ weight0^T + weight2 + h @ weight1^T + "
               "weight3, c = sigmoid(f) c + sigmoid(i) tanh(g) and h = "
               "sigmoid(o) tanh(c); without has_biases they don't count. All "
               "h, the last h and c, and nothing.")
          .Infer(InferLstmLayer));
  registry.Add(
      OpDef("mica::lstm_layer(Tensor input, Tensor weight0, Tensor weight1, "
            "Tensor weight2, Tensor weight3, Tensor hx_, Tensor cx_, bool "
            "reverse, int[] batch_sizes, int mode, int hidden_size, int "
            "num_layers, bool has_biases, bool bidirectional, bool "
            "batch_first, bool train) -> (Tensor, Tensor, Tensor, Tensor)")
          .Doc("As aten.mkldnn_rnn_layer, with what its backward pass wants as "
               "the last result: of each time and sample the values of "
               "sigmoid(i), sigmoid(f), tanh(g), sigmoid(o) and c.")
          .Infer(InferKeepingLstmLayer));
  registry.Add(
      OpDef("mica::lstm_layer_backward(Tensor input, Tensor weight1, Tensor "
            "weight2, Tensor weight3, Tensor weight4, Tensor hx_, Tensor "
            "cx_tmp, Tensor output, Tensor hy_, Tensor cy_, Tensor? "
            "grad_output, Tensor? grad_hy, Tensor? grad_cy, bool reverse, int "
            "mode, int hidden_size, int num_layers, bool has_biases, bool "
            "train, bool bidirectional, int[] batch_sizes, bool batch_first, "
            "Tensor workspace) -> (Tensor, Tensor, Tensor, Tensor, Tensor, "
            "Tensor, Tensor)")
          .Doc("The gradients of mica.lstm_layer's input, weights, biases, hx "
               "and cx, from those of its first three results; one that is "
               "None is zero. The workspace is its last result.")
          .Infer(InferLstmLayerBackward));
  registry.Add(
      OpDef("mica::gru_cell(Tensor input_gates, Tensor hidden_gates, Tensor "
            "hidden) -> Tensor")
          .Doc("With r, z, n of each: n = tanh(n_input + sigmoid(r_input + "
               "r_hidden) n_hidden), and the result (hidden - n) "
               "sigmoid(z_input + z_hidden) + n.")
          .Infer(InferGruCell));
}

}  // namespace mica
