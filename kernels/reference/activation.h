// Activation functions that products with epilogues share.

#ifndef MICA_KERNELS_REFERENCE_ACTIVATION_H_
#define MICA_KERNELS_REFERENCE_ACTIVATION_H_

#include <cmath>
#include <string>

#include "kernels/reference/numbers.h"

namespace mica {

// x · P(X <= x) for a normal X.
template <typename C>
C GeluErf(C x) {
  return x * std::erfc(-x * static_cast<C>(M_SQRT1_2)) / 2;
}

// Source: Hendrycks and Gimpel (2016), "Gaussian Error Linear Units".
template <typename C>
C GeluTanh(C x) {
  const C scaled = std::sqrt(static_cast<C>(2 / M_PI)) *
                   (x + static_cast<C>(0.044715) * x * x * x);
  return x * (1 + std::tanh(scaled)) / 2;
}

// The activation that a fused op's attribute names, of x; x for "none".
double Activated(const std::string& activation, double x);

}  // namespace mica

#endif  // MICA_KERNELS_REFERENCE_ACTIVATION_H_
