// Polynomials with whole coefficients through given values.

#ifndef MICA_ANALYSIS_SIZES_POLYNOMIAL_FIT_H_
#define MICA_ANALYSIS_SIZES_POLYNOMIAL_FIT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"

namespace mica {

// Finds polynomials of several variables through values at given points. Solves
// modulo a prime, so that no coefficient is rounded; each is then checked at
// all points.
class PolynomialFit {
 public:
  // A product of variables, by number; empty for 1.
  using Product = std::vector<int>;

  PolynomialFit(int num_variables, int degree,
                absl::Span<const std::vector<int64_t>> points);
  // Of degree 3 for up to three variables, else 2.
  PolynomialFit(int num_variables,
                absl::Span<const std::vector<int64_t>> points)
      : PolynomialFit(num_variables, num_variables <= 3 ? 3 : 2, points) {}

  // A quotient, rounded down: `factor` times a variable and `summand`, by
  // `divisor`.
  struct Quotient {
    int64_t factor = 1;
    int64_t summand = 0;
    int64_t divisor = 1;
  };
  // The quotient with the least divisor that has these values where the
  // variable is `at`; nothing if there is none, or if another one, whose
  // divisor is no more than twice that, has them and isn't the same elsewhere.
  static std::optional<Quotient> FindQuotient(absl::Span<const int64_t> at,
                                              absl::Span<const int64_t> values);

  // False if the points don't tell polynomials from each other, with some to
  // spare for the check.
  bool is_determined() const { return is_determined_; }
  const std::vector<Product>& products() const { return products_; }
  // The coefficient of each product; nothing if there is no such polynomial.
  std::optional<std::vector<int64_t>> Find(
      absl::Span<const int64_t> values) const;

 private:
  static constexpr size_t kSpare = 4;  // Points beyond those that decide.

  std::vector<Product> products_;
  std::vector<std::vector<int64_t>> powers_;    // By point and product.
  std::vector<size_t> deciding_;                // Points.
  std::vector<std::vector<uint64_t>> inverse_;  // Modulo the prime.
  bool is_determined_ = false;
};

}  // namespace mica

#endif  // MICA_ANALYSIS_SIZES_POLYNOMIAL_FIT_H_
