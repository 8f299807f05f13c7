// Recurrent layers.

#include "absl/strings/str_cat.h"
#include "framework/base/status.h"
#include "ops/infer.h"
#include "ops/nn/families.h"

namespace mica {
namespace {

constexpr int64_t kLstm = 2;  // As mkldnn_rnn_layer's mode has it.
constexpr int64_t kMaxHidden = int64_t{1} << 24;

absl::StatusOr<TensorTypes> InferLstmLayer(const OpCall& call) {
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
                     FreshTensor(x.dtype, call.Type(6).dims),
                     AbsentResultType()};
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
      OpDef("mica::gru_cell(Tensor input_gates, Tensor hidden_gates, Tensor "
            "hidden) -> Tensor")
          .Doc("With r, z, n of each: n = tanh(n_input + sigmoid(r_input + "
               "r_hidden) n_hidden), and the result (hidden - n) "
               "sigmoid(z_input + z_hidden) + n.")
          .Infer(InferGruCell));
}

}  // namespace mica
