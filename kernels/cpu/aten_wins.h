// Where ATen's kernel of an op was measured to be faster than ours. A fast
// kernel then says No, with the reason; the same one is registered as a plain
// one, too, for where there is no ATen.

#ifndef MICA_KERNELS_CPU_ATEN_WINS_H_
#define MICA_KERNELS_CPU_ATEN_WINS_H_

#include <optional>
#include <string>

#include "framework/kernel/kernel.h"
#include "framework/tensor/dtype.h"
#include "kernels/cpu/product.h"

namespace mica::cpu {

// The reason, or nothing. Of products of numbers of 16 bits.
std::optional<std::string> AtenWinsProduct(DType dtype,
                                           const ProductSpec& spec);
// The same of scaled_dot_product_attention.
std::optional<std::string> AtenWinsAttention(const KernelRequest& request);

}  // namespace mica::cpu

#endif  // MICA_KERNELS_CPU_ATEN_WINS_H_
