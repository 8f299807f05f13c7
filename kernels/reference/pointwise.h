// Kernels that compute each element from the elements at its place.

#ifndef MICA_KERNELS_REFERENCE_POINTWISE_H_
#define MICA_KERNELS_REFERENCE_POINTWISE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "framework/kernel/kernel.h"
#include "framework/kernel/kernel_registry.h"

namespace mica {

// One function of the operands' elements at three precisions. Integers and
// bool of all widths go through int64_t.
struct PointwiseFns {
  float (*f32)(const float*) = nullptr;
  double (*f64)(const double*) = nullptr;
  int64_t (*i64)(const int64_t*) = nullptr;
};

template <typename F, typename C>
C CallPointwise(const C* x) {
  return static_cast<C>(F{}(x));
}

// From a lambda without captures over `const auto* x`, where x[i] is the
// element of the i-th operand.
template <typename F>
PointwiseFns MakeFns(F) {
  return {&CallPointwise<F, float>, &CallPointwise<F, double>,
          &CallPointwise<F, int64_t>};
}

// What elements are computed in.
enum class ComputeIn : uint8_t {
  kResult,    // The result's dtype.
  kOperands,  // The operands' promotion: of comparisons, whose result is bool.
};

// The dtype of a computation on the arguments given for `params`.
DType ComputeDType(const KernelRequest& request, absl::Span<const int> params,
                   ComputeIn compute);

struct PointwiseKernel {
  // Parameters in the order of x[]; constants and values alike.
  absl::InlinedVector<int, 5> params;
  PointwiseFns fns;
  ComputeIn compute = ComputeIn::kResult;
  // For absent operands: x[i] where parameter params[i] is None.
  std::vector<double> none_values;
  // Position in x[] of an integer divisor: 0 there is an error. -1: none.
  int divisor = -1;
};

Prepared PreparePointwise(const KernelRequest& request,
                          const PointwiseKernel& kernel);

void AddPointwise(KernelRegistry& registry, absl::string_view op,
                  PointwiseKernel kernel);

}  // namespace mica

#endif  // MICA_KERNELS_REFERENCE_POINTWISE_H_
