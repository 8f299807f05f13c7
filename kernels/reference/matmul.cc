// Products of matrices, by three loops.

#include "kernels/reference/activation.h"
#include "kernels/reference/reference.h"
#include "kernels/reference/strided.h"

namespace mica {
namespace {

// A lane as a batch of matrices: [b, rows, columns], absent dims of size 1.
struct Matrices {
  Lane lane;
  int64_t batch_stride = 0;
  int64_t row_stride = 0;
  int64_t column_stride = 0;
};

// beta * addend + alpha * (a @ b).
struct ProductState {
  int64_t batches = 1, rows = 1, columns = 1, depth = 1;
  Matrices a, b, out;
  bool has_addend = false;
  Lane addend;
  Dims addend_strides;  // Over [b, rows, columns].
  // Values, or the constants below.
  Lane alpha, beta;
  double alpha_value = 1, beta_value = 1;
  bool is_alpha_value = false, is_beta_value = false;
};

// float sums in double, integer sums in int64_t.
template <typename C>
C Dot(const ProductState& state, void* const* args, int64_t a, int64_t b) {
  C sum = 0;
  for (int64_t k = 0; k < state.depth; ++k) {
    sum = Sum(sum,
              Product(state.a.lane.Load<C>(args, a + k * state.a.column_stride),
                      state.b.lane.Load<C>(args, b + k * state.b.row_stride)));
  }
  return sum;
}

template <typename C>
void RunProduct(const ProductState& state, void* const* args) {
  const C alpha = state.is_alpha_value ? state.alpha.Load<C>(args, 0)
                                       : ConvertNumber<C>(state.alpha_value);
  const C beta = state.is_beta_value ? state.beta.Load<C>(args, 0)
                                     : ConvertNumber<C>(state.beta_value);
  const Dims dims = {state.batches, state.rows, state.columns};
  const Dims addend = state.has_addend ? state.addend_strides : Dims(3, 0);
  const Dims a = {state.a.batch_stride, state.a.row_stride, 0};
  const Dims b = {state.b.batch_stride, 0, state.b.column_stride};
  const Dims out = {state.out.batch_stride, state.out.row_stride,
                    state.out.column_stride};
  for (Odometer at(dims, {a, b, out, addend}); !at.done(); at.Next()) {
    C value = Product(alpha, Dot<C>(state, args, at.offset(0), at.offset(1)));
    // beta 0 drops the addend, NaN and all.
    if (state.has_addend && beta != 0) {
      value =
          Sum(value, Product(beta, state.addend.Load<C>(args, at.offset(3))));
    }
    state.out.lane.Store<C>(args, at.offset(2), value);
  }
}

Matrices MakeMatrices(Lane lane, absl::string_view axes) {
  Matrices matrices;
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t stride = lane.strides[i];
    if (axes[i] == 'b') matrices.batch_stride = stride;
    if (axes[i] == 'r') matrices.row_stride = stride;
    if (axes[i] == 'c') matrices.column_stride = stride;
  }
  matrices.lane = std::move(lane);
  return matrices;
}

// Which axes of the operands are batch, row and column.
struct ProductRule {
  int a = 0;
  absl::string_view a_axes = "rc";
  absl::string_view b_axes = "rc";
  absl::string_view out_axes = "rc";
  int addend = -1;  // Parameter.
  int beta = -1;    // Parameter; alpha is the next.
};

void SetFactor(const KernelRequest& request, int param, Lane& lane,
               double& value, bool& is_value) {
  is_value = request.OperandIndex(param) >= 0;
  if (is_value) {
    lane = OperandLane(request, param);
  } else {
    value = request.Number(param);
  }
}

// The strides of a broadcast addend over [b, rows, columns].
Dims AddendStrides(const Lane& addend, const Lane& out,
                   absl::string_view axes) {
  const Dims strides = BroadcastStrides(addend, out.dims);
  Dims result(3, 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    result[axes[i] == 'b' ? 0 : axes[i] == 'r' ? 1 : 2] = strides[i];
  }
  return result;
}

int64_t SizeOf(const Lane& lane, absl::string_view axes, char axis) {
  const size_t at = axes.find(axis);
  return at == absl::string_view::npos ? 1 : lane.dims[at];
}

Verdict PrepareProduct(const KernelRequest& request, const ProductRule& rule) {
  ProductState state;
  state.a = MakeMatrices(OperandLane(request, rule.a), rule.a_axes);
  state.b = MakeMatrices(OperandLane(request, rule.a + 1), rule.b_axes);
  state.out = MakeMatrices(ResultLane(request), rule.out_axes);
  state.batches = SizeOf(state.out.lane, rule.out_axes, 'b');
  state.rows = SizeOf(state.out.lane, rule.out_axes, 'r');
  state.columns = SizeOf(state.out.lane, rule.out_axes, 'c');
  state.depth = SizeOf(state.a.lane, rule.a_axes, 'c');
  if (rule.addend >= 0) {
    state.has_addend = true;
    state.addend = OperandLane(request, rule.addend);
    state.addend_strides =
        AddendStrides(state.addend, state.out.lane, rule.out_axes);
    SetFactor(request, rule.beta, state.beta, state.beta_value,
              state.is_beta_value);
    SetFactor(request, rule.beta + 1, state.alpha, state.alpha_value,
              state.is_alpha_value);
  }
  const bool is_real = IsFloating(state.out.lane.dtype);
  return RunBody([state, is_real](void* const* args, LaunchContext&) {
    if (state.out.lane.IsUnused(args)) return true;
    is_real ? RunProduct<double>(state, args)
            : RunProduct<int64_t>(state, args);
    return true;
  });
}

// activation(x @ weight^T + bias) + residual.
Verdict PrepareLinear(const KernelRequest& request) {
  const AxisLane x =
      SplitAxis(OperandLane(request, 0), OperandLane(request, 0).rank() - 1);
  const Lane weight = OperandLane(request, 1);
  const Lane out = ResultLane(request);
  const bool has_bias = request.Has(2);
  const bool has_residual = request.Has(3);
  const Lane bias = has_bias ? OperandLane(request, 2) : Lane();
  const Lane residual = has_residual ? OperandLane(request, 3) : Lane();
  const std::string activation = request.String(4);
  Dims x_strides = x.outer.strides;
  x_strides.push_back(0);
  Dims weight_strides(out.rank(), 0);
  weight_strides.back() = weight.strides[0];
  Dims bias_strides(out.rank(), 0);
  if (has_bias) bias_strides.back() = bias.strides[0];
  const Dims residual_strides =
      has_residual ? residual.strides : Dims(out.rank(), 0);
  return RunBody([=](void* const* args, LaunchContext&) {
    if (out.IsUnused(args)) return true;
    for (Odometer at(out.dims, {x_strides, weight_strides, bias_strides,
                                residual_strides, out.strides});
         !at.done(); at.Next()) {
      double sum = has_bias ? bias.Load<double>(args, at.offset(2)) : 0;
      for (int64_t k = 0; k < x.size; ++k) {
        sum += x.outer.Load<double>(args, at.offset(0) + k * x.stride) *
               weight.Load<double>(args, at.offset(1) + k * weight.strides[1]);
      }
      sum = Activated(activation, sum);
      if (has_residual) sum += residual.Load<double>(args, at.offset(3));
      out.Store<double>(args, at.offset(4), sum);
    }
    return true;
  });
}

void Add(KernelRegistry& registry, absl::string_view op, ProductRule rule) {
  AddReference(registry, op, [rule](const KernelRequest& request) {
    return PrepareProduct(request, rule);
  });
}

}  // namespace

void RegisterReferenceMatmul(KernelRegistry& registry) {
  const ProductRule batched = {
      .a_axes = "brc", .b_axes = "brc", .out_axes = "brc"};
  Add(registry, "aten.mm", {});
  Add(registry, "aten.addmm", {.a = 1, .addend = 0, .beta = 3});
  Add(registry, "aten.bmm", batched);
  Add(registry, "aten.baddbmm",
      {.a = 1,
       .a_axes = "brc",
       .b_axes = "brc",
       .out_axes = "brc",
       .addend = 0,
       .beta = 3});
  Add(registry, "aten.mv", {.b_axes = "r", .out_axes = "r"});
  Add(registry, "aten.addmv",
      {.a = 1, .b_axes = "r", .out_axes = "r", .addend = 0, .beta = 3});
  Add(registry, "aten.dot", {.a_axes = "c", .b_axes = "r", .out_axes = ""});
  Add(registry, "aten.vdot", {.a_axes = "c", .b_axes = "r", .out_axes = ""});
  AddReference(registry, "mica.linear", PrepareLinear);
}

}  // namespace mica
