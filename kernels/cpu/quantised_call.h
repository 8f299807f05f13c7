#ifndef MICA_KERNELS_CPU_QUANTISED_CALL_H_
#define MICA_KERNELS_CPU_QUANTISED_CALL_H_

#include <cstdint>
#include <optional>
#include <string>

#include "framework/kernel/kernel.h"
#include "kernels/cpu/product.h"
#include "kernels/cpu/simd_table.h"

namespace mica::cpu {

// What products with weights of few bits have in common: x[m,k] and c[m,n] of
// float32 with rows without gaps, bias, activation, residual; and where these
// are among a launch's arguments, -1 for what isn't there.
struct QuantisedCall {
  int64_t m = 0, n = 0, k = 0;
  int64_t x_row_stride = 0, c_row_stride = 0, residual_row_stride = 0;
  Activation activation = Activation::kNone;
  int bias_arg = -1, residual_arg = -1, c_arg = -1;
  bool is_frozen = false;  // The weight.
  int num_threads = 1;

  // Bias, residual and activation are the parameters from `first` on, `n`
  // columns the result has. Returns why no kernel takes it, if so.
  static std::optional<std::string> Parse(const KernelRequest& request,
                                          int first, int64_t n,
                                          QuantisedCall& call);
  const float* Bias(void* const* args) const {
    return bias_arg < 0 ? nullptr : static_cast<const float*>(args[bias_arg]);
  }
  const float* Residual(void* const* args) const {
    return residual_arg < 0 ? nullptr
                            : static_cast<const float*>(args[residual_arg]);
  }
  // The product of floats that weights become by `widen`, which reads them
  // from multiples of so many numbers of k on; Run() has it read `weights`.
  ProductSpec Widened(const KernelRequest& request, WidenFn widen,
                      int64_t widen_step) const;
  void Run(const Product& product, void* const* args, const void* weights,
           char* scratch) const;
  // What follows the sums and the bias, in these columns of all rows.
  void Finish(void* const* args, int64_t col, int64_t cols) const;
};

// Whether all operands from number `first` up to `last` lie in row-major order.
bool LieByRows(const KernelRequest& request, int first, int last);

}  // namespace mica::cpu

#endif  // MICA_KERNELS_CPU_QUANTISED_CALL_H_
