#include "kernels/cpu/quantised_call.h"

#include <utility>

#include "kernels/cpu/activation_name.h"
#include "kernels/cpu/matrix_view.h"
#include "kernels/cpu/parallel.h"

namespace mica::cpu {

std::optional<std::string> QuantisedCall::Parse(const KernelRequest& request,
                                                int first, int64_t n,
                                                QuantisedCall& call) {
  const auto x = Flatten(request.operands[0].type);
  const auto c = Flatten(request.results[0].type);
  if (!x.has_value() || !c.has_value()) return "rows lie at several distances";
  if ((x->col_stride != 1 && x->cols > 1) || (c->col_stride != 1 && n > 1)) {
    return "rows have gaps";
  }
  call.m = c->rows;
  call.n = n;
  call.k = x->cols;
  call.x_row_stride = x->row_stride;
  call.c_row_stride = c->row_stride;
  call.c_arg = static_cast<int>(request.operands.size());
  call.bias_arg = request.OperandIndex(first);
  call.residual_arg = request.OperandIndex(first + 1);
  const auto activation = ActivationNamed(request.String(first + 2));
  if (!activation.has_value()) return "an unknown activation";
  call.activation = *activation;
  if (call.bias_arg >= 0 && !LieByRows(request, call.bias_arg, call.bias_arg)) {
    return "the bias has gaps";
  }
  if (call.residual_arg >= 0) {
    const auto residual = Flatten(request.operands[call.residual_arg].type);
    if (!residual.has_value() || (residual->col_stride != 1 && n > 1)) {
      return "the residual's rows have gaps";
    }
    call.residual_row_stride = residual->row_stride;
  }
  call.is_frozen = request.operands[1].is_frozen;
  call.num_threads = UsefulThreadsOfProduct(request.num_threads,
                                            static_cast<double>(call.m) *
                                                static_cast<double>(n) *
                                                static_cast<double>(call.k));
  return std::nullopt;
}

ProductSpec QuantisedCall::Widened(const KernelRequest& request, WidenFn widen,
                                   int64_t widen_step) const {
  return {.m = m,
          .n = n,
          .k = k,
          .a_row_stride = x_row_stride,
          .b_row_stride = 1,
          .b_col_stride = k,
          .c_row_stride = c_row_stride,
          .has_bias = bias_arg >= 0,
          .has_residual = residual_arg >= 0,
          .residual_row_stride = residual_row_stride,
          .activation = activation,
          .num_threads = request.num_threads,
          .widen = std::move(widen),
          .widen_step = widen_step};
}

void QuantisedCall::Run(const Product& product, void* const* args,
                        const void* weights, char* scratch) const {
  product.Run({.a = static_cast<const float*>(args[0]),
               .b = static_cast<const float*>(weights),
               .bias = Bias(args),
               .residual = Residual(args),
               .c = static_cast<float*>(args[c_arg]),
               .scratch = reinterpret_cast<float*>(scratch)});
}

void QuantisedCall::Finish(void* const* args, int64_t col, int64_t cols) const {
  if (activation == Activation::kNone && residual_arg < 0) return;
  const float* residual = Residual(args);
  Simd().finish({.c = static_cast<float*>(args[c_arg]) + col,
                 .c_row_stride = c_row_stride,
                 .rows = m,
                 .n = cols,
                 .activation = activation,
                 .residual = residual == nullptr ? nullptr : residual + col,
                 .residual_row_stride = residual_row_stride});
}

bool LieByRows(const KernelRequest& request, int first, int last) {
  for (int i = first; i <= last; ++i) {
    if (!request.operands[i].type.is_row_major()) return false;
  }
  return true;
}

}  // namespace mica::cpu
